"""Made-up events of every type of the catalogue, as many as wanted, by chance but repeatable."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.webhooks.records import START, STEPS, TEAM, USER, at, order, order_id
from tests.webhooks.signed import Message

SUMMARIES = (
    "activity", "body", "electrocardiogram", "meal", "menstrual_cycle", "profile", "sleep",
    "sleep_cycle", "workouts",
)  # fmt: skip
SAMPLES = (
    "afib_burden", "basal_body_temperature", "blood_oxygen", "blood_pressure", "body_mass_index",
    "body_temperature", "body_temperature_delta", "caffeine", "calories_active", "calories_basal",
    "carbohydrates", "cholesterol", "daylight_exposure", "distance", "electrocardiogram_voltage",
    "fall", "fat", "floors_climbed", "forced_expiratory_volume_1", "forced_vital_capacity",
    "glucose", "handwashing", "heart_rate_alert", "heart_rate_recovery_one_minute", "heartrate",
    "hrv", "ige", "igg", "inhaler_usage", "insulin_injection", "lean_body_mass",
    "mindfulness_minutes", "note", "peak_expiratory_flow_rate", "respiratory_rate",
    "sleep_apnea_alert", "sleep_breathing_disturbance", "stand_duration", "stand_hour", "steps",
    "stress_level", "uv_exposure", "vo2_max", "waist_circumference", "water", "weight",
    "wheelchair_push", "workout_distance", "workout_duration", "workout_swimming_stroke",
)  # fmt: skip
CATALOGUE = (
    *("labtest.order.created", "labtest.order.updated"),
    *("labtest.appointment.created", "labtest.appointment.updated", "labtest.result.critical"),
    *("labtest.match_review.created", "labtest.match_review.updated"),
    *("lab_report.parsing_job.created", "lab_report.parsing_job.updated"),
    *("provider.connection.created", "provider.connection.error"),
    *("provider.device.created", "provider.device.updated"),
    "continuous_query.result_table.changed",
    *(
        f"daily.data.{name}.{word}"
        for name in (*SUMMARIES, "workout_stream", *SAMPLES)
        for word in ("created", "updated")
    ),
    *(f"historical.data.{name}.created" for name in (*SUMMARIES, "workout_stream", *SAMPLES)),
)
assert len(CATALOGUE) == 194

SOURCES = [
    {"provider": provider, "type": kind, "app_id": None}
    for provider in ("band-one", "band-two")
    for kind in ("watch", "phone", "something-new")
]
ODD_FIELDS: list[dict[str, Any]] = [
    {"sample_id": {"not": "text"}},
    {"shipping_details": "at home"},
    {"events": "none"},
]
"""Of orders; the last one costs the history, so the order is looked up instead of stored."""
UNKNOWN_TYPES = ("labtest.teleport.done", "user.renamed", "daily.data.aura.created")


class Catalogue:
    """`message(type)` makes one; how many records they are about is given by `orders`."""

    def __init__(self, seed: int, orders: int = 60) -> None:
        self.chance = random.Random(seed)
        self.orders = orders

    def message(self, event_type: str) -> Message:
        envelope = {
            "event_type": event_type,
            "data": self._data(event_type),
            "team_id": TEAM,
            "user_id": self._user(),
            "client_user_id": "made-up-0001",
        }
        if "match_review" in event_type:
            del envelope["user_id"], envelope["client_user_id"]
        return Message(json.dumps(envelope, separators=(",", ":")).encode())

    def of_unknown_type(self) -> Message:
        return self.message(self.chance.choice(UNKNOWN_TYPES))

    def poison(self) -> Message:
        """Genuine, and wrong: no JSON, no event, or a record with a version that is none."""
        bad: Callable[[], bytes] = self.chance.choice(
            [
                lambda: b'{"event_type":"labtest.order.updated","data":{"id":',
                lambda: b"[]",
                lambda: self._with({"updated_at": "last week"}),
            ]
        )
        return Message(bad())

    def with_odd_field(self) -> Message:
        """Genuine, with a part that does not fit, and that an order can do without."""
        number = self.chance.randrange(len(ODD_FIELDS))
        return Message(self._with(ODD_FIELDS[number], self.orders + 2 + number))

    def _with(self, changed: dict[str, Any], number: int = 0) -> bytes:
        record = order(number or self.orders + 1, 2, **changed)
        return json.dumps({"event_type": "labtest.order.updated", "data": record}).encode()

    def _data(self, event_type: str) -> Any:
        chapter, _, *rest = event_type.split(".")
        if event_type.startswith("labtest.order."):
            return self.order()
        if event_type.startswith("labtest.appointment."):
            kinds = ("phlebotomy", "patient_service_center", "by_drone")
            return {
                "id": str(self._uuid()),
                "user_id": self._user(),
                "order_id": self._order_id(),
                "type": self.chance.choice(kinds),
                "status": "confirmed",
                "event_status": "scheduled",
                "events": [],
            }
        if event_type == "labtest.result.critical":
            return {
                "order_id": self._order_id(),
                "sample_id": "S-1",
                "status": self.chance.choice(("partial", "final", "amended")),
                "interpretation": "critical",
                "team_id": TEAM,
                "user_id": self._user(),
                "created_at": at(0),
                "updated_at": at(self.chance.randrange(10_000)),
            }
        if chapter == "lab_report":
            return {
                "id": str(uuid.UUID(int=self.chance.randrange(20))),
                "status": self.chance.choice(("started", "completed", "failed")),
                "failure_reason": None,
                "data": None,
                "needs_human_review": False,
                "is_reviewed": False,
            }
        if event_type == "provider.connection.error":
            return {"provider": "band-one", "user_id": self._user(), "error_type": "gone_fishing"}
        if event_type == "provider.connection.created":
            provider = {"name": "Band One", "slug": "band-one", "logo": ""}
            return {"user_id": self._user(), "provider": provider, "resource_availability": {}}
        if chapter == "provider":
            return {"id": str(self._uuid()), "user_id": self._user(), "provider": "band-one"}
        if chapter == "historical":
            return {
                "user_id": self._user(),
                "start_date": at(-100_000),
                "end_date": at(self.chance.randrange(1_000)),
                "provider": self.chance.choice(SOURCES)["provider"],
            }
        if rest[:1] == ["workout_stream"] or "workout_stream" in event_type:
            return {"workout_id": str(self._uuid()), "provider_id": "w1", "message": "read it",
                    "user_id": self._user(), "source": SOURCES[0]}  # fmt: skip
        if rest and rest[0] in SUMMARIES:
            return self._summary(rest[0])
        if rest and rest[0] in SAMPLES:
            return self._samples(rest[0])
        return {"id": str(self._uuid()), "anything": self.chance.random()}

    def order(self) -> dict[str, Any]:
        """A version of an order; of some, every word of theirs is one we never heard."""
        number = self.chance.randrange(self.orders)
        steps = self.chance.randrange(1, len(STEPS) + 1)
        record = order(number, steps, notes=f"{number} after {steps}")
        if number % 20 == 7:
            for event in record["events"]:
                event["status"] = f"orbiting.by_drone.step_{event['id'] % 100}"
            record["last_event"] = record["events"][-1]
            record["interpretation"] = "ominous"
        record["events"] = record["events"][-3:]
        return record

    def _summary(self, resource: str) -> dict[str, Any]:
        number = self.chance.randrange(10)
        return {
            "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{resource} {number}")),
            "user_id": self._owner(number),
            "created_at": at(0),
            "updated_at": at(self.chance.randrange(10_000)),
            "date": at(0),
            "calendar_date": START.date().isoformat(),
            "source": self.chance.choice(SOURCES),
            "token": self.chance.random(),
        }

    def _samples(self, resource: str) -> dict[str, Any]:
        source = self.chance.choice(SOURCES)
        first = self.chance.randrange(2_000)
        return {
            "user_id": self._owner(0),
            "source": source,
            "source_id": 7,
            "data": [
                {
                    "timestamp": (START + timedelta(minutes=first + minute)).isoformat(),
                    "timezone_offset": 0,
                    "type": None,
                    "unit": "unit",
                    **self._value(resource),
                }
                for minute in range(self.chance.choice((1, 5, 20)))
            ],
        }

    def _value(self, resource: str) -> dict[str, Any]:
        value = round(self.chance.uniform(1, 500), 1)
        if resource == "blood_pressure":
            return {"systolic": value, "diastolic": 70}
        return {"value": value}

    def _user(self) -> str:
        return self._owner(0)

    def _owner(self, number: int) -> str:
        return f"{USER[:-2]}{number:02d}"

    def _order_id(self) -> str:
        return order_id(self.chance.randrange(self.orders))

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.chance.getrandbits(128), version=4)
