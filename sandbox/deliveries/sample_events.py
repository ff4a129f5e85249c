"""A valid event of every type, as a function of the world, the type and a seed.

Orders, appointments and connections are real records of the world; everything else is made up
about its real users.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from sandbox import clock, records, specification_forms
from sandbox.api.appointments import appointment_record
from sandbox.deliveries import wearable_payloads
from sandbox.deliveries.catalogue import EVENT_TYPES, FORMER_TYPES, STREAM, SUMMARIES
from sandbox.deliveries.replay import latest_event
from sandbox.event_queue import Event
from sandbox.keyed_random import KeyedRandom, keyed_uuid
from sandbox.models import Appointment, Connection, Order, Provider, User, World

POOL = 500
DECISIONS = ("wrong_lab", "match_demo", "no_match", "multiple_demo_match")
ERRORS = ("token_refresh_failed", "deregistered_per_provider", "provider_password_expired")
Record = dict[str, Any]


def sample(event_type: str, seed: int) -> Event:
    """One valid event of this type; ValueError for an unknown type."""
    return Samples().make(event_type, seed)


class Samples:
    """What sampling needs of the world, read once for many samples."""

    def __init__(self, samples_per_event: int = 3) -> None:
        team = {"team_id": settings.TEAM_ID}
        users = User.objects.filter(**team, deleted_at__isnull=True).order_by("seq")
        self.users = [str(key) for key in users.values_list("id", flat=True)[:POOL]]
        orders = Order.objects.filter(**team).order_by("-seq")
        self.orders = list(orders[:POOL])
        self.resulted = list(orders.filter(result_version__gt=0)[:POOL])
        visits = Appointment.objects.filter(order__team_id=settings.TEAM_ID)
        self.visits = list(visits.select_related("order").order_by("id")[:POOL])
        linked = Connection.objects.filter(user__team_id=settings.TEAM_ID)
        self.connections = list(linked.select_related("provider").order_by("id")[:POOL])
        self.providers = list(Provider.objects.order_by("slug"))
        self.documents = records.lab_documents()
        self.epoch = World.objects.get(id=1).epoch
        self.samples_per_event = samples_per_event
        self.now = clock.now()
        if not self.users:
            raise ValueError("this world has nobody to tell of")

    def make(self, event_type: str, seed: int) -> Event:
        """One valid event of this type; ValueError for an unknown type."""
        if event_type not in EVENT_TYPES and event_type not in FORMER_TYPES:
            raise ValueError(f"there is no event type {event_type!r}")
        head, *rest = event_type.split(".")
        # Created and updated of one seed are about the same thing.
        rng = KeyedRandom("sample", head, rest[:-1], seed)
        user_id = rng.choice(self.users)
        match head, rest:
            case "labtest", ["order", _]:
                return self._order(event_type, rng)
            case "labtest", ["appointment", _]:
                return self._appointment(event_type, rng)
            case "labtest", ["result", _]:
                return self._critical(event_type, rng)
            case "labtest", ["match_review", verb]:
                return Event(event_type, None, _match_review(rng, verb), self.now)
            case "lab_report", ["parsing_job", verb]:
                return Event(event_type, user_id, _parsing_job(rng, verb), self.now)
            case "provider", ["connection", verb]:
                return self._connection(event_type, rng, verb, user_id)
            case "provider", ["device", verb]:
                data = self._device(rng, verb, user_id)
                return Event(event_type, user_id, data, self.now)
            case "continuous_query", _:
                return Event(event_type, user_id, [_query(rng)], self.now)
            case "daily", [_, name, verb]:
                return Event(event_type, user_id, self._data(name, rng, verb, user_id), self.now)
            case _:  # historical
                return Event(event_type, user_id, self._pulled(rng, user_id), self.now)

    def _order(self, event_type: str, rng: KeyedRandom) -> Event:
        _, event = latest_event(_pick(rng, self.orders, "orders"), self.documents)
        return Event(event_type, event.user_id, event.data, event.at, event.team)

    def _appointment(self, event_type: str, rng: KeyedRandom) -> Event:
        visit = _pick(rng, self.visits, "appointments")
        return Event(event_type, visit.user_id, appointment_record(visit), self.now)

    def _critical(self, event_type: str, rng: KeyedRandom) -> Event:
        order = _pick(rng, self.resulted, "results")
        data = {
            "order_id": order.id,
            "sample_id": order.sample_id or f"N{order.number}",
            "status": order.result_status or "final",
            "interpretation": "critical",
            "team_id": order.team_id,
            "user_id": order.user_id,
            "created_at": order.last_event_at,
            "updated_at": order.last_event_at,
        }
        return Event(event_type, order.user_id, data, order.last_event_at)

    def _connection(self, event_type: str, rng: KeyedRandom, verb: str, user_id: str) -> Event:
        if self.connections:
            link = rng.choice(self.connections)
            provider, user_id = link.provider, str(link.user_id)
            external, available = link.external_user_id, link.resource_availability
        else:
            provider, external, available = rng.choice(self.providers), None, {}
        if verb == "created":
            data = connection_created(user_id, provider, external, available)
        else:
            data = connection_error(user_id, provider.slug, rng.choice(ERRORS))
        return Event(event_type, user_id, data, self.now)

    def _device(self, rng: KeyedRandom, verb: str, user_id: str) -> Record:
        return {
            "id": rng.uuid(),
            "user_id": user_id,
            "provider": rng.choice(self.providers).slug,
            "source_type": rng.choice(("watch", "ring", "phone", "scale")),
            "app_id": None,
            "device_manufacturer": "Made-up Devices",
            "device_model": f"Model {rng.integer(1, 9)}",
            "device_version": "1" if verb == "created" else "2",
            "device_id": f"d-{rng.digits(8)}",
        }

    def _data(self, name: str, rng: KeyedRandom, verb: str, user_id: str) -> Record:
        offering = [p for p in self.providers if name in p.supported_resources]
        provider = rng.choice(offering or self.providers)
        origin = wearable_payloads.source(rng, provider.slug, provider.name)
        day = self._day(rng)
        if name == STREAM:
            return wearable_payloads.stream(user_id, origin, rng)
        values = KeyedRandom("values", verb, rng.integer64())
        if name in SUMMARIES:
            version = 1 if verb == "created" else 2
            return wearable_payloads.summary(name, user_id, origin, values, day, version)
        start = day + timedelta(minutes=rng.integer(0, 1200))
        return wearable_payloads.samples(
            name, user_id, origin, values, start, self.samples_per_event
        )

    def _pulled(self, rng: KeyedRandom, user_id: str) -> Record:
        start = self._day(rng)
        data: Record = {
            "user_id": user_id,
            "start_date": start - timedelta(days=rng.integer(7, 270)),
            "end_date": start,
            "provider": rng.choice(self.providers).slug,
        }
        return specification_forms.history_pulled(
            data | {"is_final": True} if rng.chance(0.5) else data
        )

    def _day(self, rng: KeyedRandom) -> datetime:
        return self.epoch - timedelta(days=rng.integer(1, 28))


def _pick(rng: KeyedRandom, found: list[Any], what: str) -> Any:
    if not found:
        raise ValueError(f"this world has no {what} to tell of")
    return rng.choice(found)


def connection_created(
    user_id: str, provider: Provider, external_user_id: str | None, availability: Record
) -> Record:
    """`data` of a new connection (webhooks.md 4.3)."""
    named = {"name": provider.name, "slug": provider.slug, "logo": provider.logo}
    return specification_forms.connection_created(
        {
            "user_id": user_id,
            "provider": named,
            "source": named,
            "external_user_id": external_user_id,
            "resource_availability": availability,
        }
    )


def connection_error(user_id: str, slug: str, error_type: str) -> Record:
    """`data` of a broken connection (webhooks.md 4.4)."""
    return {
        "user_id": user_id,
        "provider": slug,
        "message": "The connection no longer works.",
        "error_type": error_type,
        "error_details": f"The provider answered: {error_type.replace('_', ' ')}",
    }


def _match_review(rng: KeyedRandom, verb: str) -> Record:
    decision = rng.choice(DECISIONS)
    return {
        "id": rng.uuid(),
        "status": "pending_customer_review" if verb == "created" else "resolved",
        "decision_code": decision,
        "sub_reason_codes": ["lab_account_mismatch"] if decision == "wrong_lab" else [],
        "resolution_action": None if verb == "created" else "reject",
        "resolved_user_id": None,
        "resolved_order_id": None,
    }


def _parsing_job(rng: KeyedRandom, verb: str) -> Record:
    return {
        "id": rng.uuid(),
        "status": "started" if verb == "created" else "failed",
        "failure_reason": None if verb == "created" else "low_quality",
        "data": None,
        "needs_human_review": False,
        "is_reviewed": False,
    }


def _query(rng: KeyedRandom) -> Record:
    key = keyed_uuid("query", rng.integer(1, 3))
    return {
        "query_id": key,
        "query_slug": f"made-up-{key[:4]}",
        "data": {"rows": rng.integer(1, 9)},
    }
