"""The control path: what tests and demos can do to the world (JSON, from the loopback only)."""

import json
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from sandbox import clock, event_queue, unmatched, world_loop
from sandbox.catalogue import TEAM_IDS
from sandbox.context import load_context
from sandbox.deliveries import connection_changes, endpoints, report
from sandbox.deliveries import faults as delivery_fault_settings
from sandbox.deliveries.catalogue import EVENT_TYPES
from sandbox.deliveries.sample_events import Samples
from sandbox.faults import KINDS, SWITCH, Faults
from sandbox.keyed_random import KeyedRandom
from sandbox.models import LabTest, Order, Team, User, World
from sandbox.prepared_answers import ANSWERS, PreparedAnswer
from sandbox.records import refresh_lab_test
from sandbox.reports import jobs
from sandbox.wearables import feeds
from sandbox.write_log import WRITE_LOG

Control = Callable[[dict[str, Any]], dict[str, Any]]
COUNT_EXACTLY_BELOW = 50_000
MOST_ANNOUNCED = 200_000
ANNOUNCED_AT_ONCE = 1_000


class Refused(Exception):
    """The request is invalid; it is answered with 400."""


def controlled(*methods: str) -> Callable[[Control], Callable[[HttpRequest], JsonResponse]]:
    """Decorate an action so that it becomes a view.

    The action gets the JSON body with the query's values, and the HTTP method as `_method`.
    """

    def decorate(action: Control) -> Callable[[HttpRequest], JsonResponse]:
        @require_http_methods(list(methods))
        @wraps(action)
        def view(request: HttpRequest) -> JsonResponse:
            if request.META.get("REMOTE_ADDR", "").split("%")[0] not in ("127.0.0.1", "::1"):
                return JsonResponse({"detail": "loopback only"}, status=403)
            try:
                body = json.loads(request.body or b"{}")
                if not isinstance(body, dict):
                    raise Refused("the body is a JSON object")
                body |= request.GET.dict()
                return JsonResponse(action(body | {"_method": request.method}))
            except (Refused, TypeError, ValueError, KeyError) as error:
                return JsonResponse({"detail": f"{type(error).__name__}: {error}"}, status=400)

        return view

    return decorate


@controlled("GET")
def status(body: dict[str, Any]) -> dict[str, Any]:
    """Return clock, speed, seed and rows per table (estimated for large tables)."""
    world = World.objects.get(id=1)
    return {
        "now": (clock.real_now() + world.clock_offset).isoformat(),
        "speed": world.speed,
        "seed": world.seed,
        "epoch": world.epoch.isoformat(),
        "counts": _counts(),
        "orders_by_team": {str(team.id): team.order_count for team in Team.objects.order_by("id")},
        "open_orders": Order.objects.filter(next_at__isnull=False).count(),
        "faults": SWITCH.report(),
    }


def _counts() -> dict[str, int]:
    tables = {m._meta.db_table: m for m in apps.get_app_config("sandbox").get_models()}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, reltuples::bigint FROM pg_class WHERE relname = ANY(%s)",
            [list(tables)],
        )
        estimates = dict(cursor.fetchall())
    counts = {
        model._meta.model_name or "": estimates[table]
        if estimates.get(table, 0) >= COUNT_EXACTLY_BELOW
        else model._default_manager.count()
        for table, model in tables.items()
    }
    counts["order"] = sum(Team.objects.values_list("order_count", flat=True))
    return counts


@controlled("POST")
def set_clock(body: dict[str, Any]) -> dict[str, Any]:
    """Set the `speed`, and move the clock by `advance_seconds`; both are optional."""
    if "speed" in body:
        speed = float(body["speed"])
        if speed < 0:
            raise Refused("speed is 0 or more")
        world_loop.set_speed(speed)
    if "advance_seconds" in body:
        clock.advance(float(body["advance_seconds"]))
    world = World.objects.get(id=1)
    return {"now": clock.now().isoformat(), "speed": world.speed}


@controlled("POST", "DELETE")
def faults(body: dict[str, Any]) -> dict[str, Any]:
    """POST sets the faults of `faults.Faults`, DELETE removes them. `path` is another name of
    `paths`; with `times`, all matching requests fail unless `rate` is given."""
    method = body.pop("_method")
    if method == "DELETE":
        SWITCH.set(Faults())
        return SWITCH.report()
    if "path" in body:
        body["paths"] = body.pop("path")
    if "times" in body:
        body.setdefault("rate", 1)
    for name in ("statuses", "kinds", "methods"):
        if name in body:
            body[name] = tuple(body[name])
    wanted = Faults(**body)
    if set(wanted.kinds) - set(KINDS):
        raise Refused(f"kinds are {', '.join(KINDS)}")
    if not wanted.statuses or not wanted.kinds:
        raise Refused("statuses and kinds are not empty")
    SWITCH.set(wanted)
    return SWITCH.report()


@controlled("GET", "POST", "DELETE")
def answers(body: dict[str, Any]) -> dict[str, Any]:
    """POST adds a `prepared_answers.PreparedAnswer`, DELETE removes all. Return how often each was
    served."""
    method = body.pop("_method")
    if method == "DELETE":
        ANSWERS.clear()
    elif method == "POST":
        ANSWERS.add(PreparedAnswer(**body))
    return ANSWERS.report()


@controlled("GET")
def writes(body: dict[str, Any]) -> dict[str, Any]:
    """Return the calls other than GET after number `since`, and the number of the last one."""
    found = WRITE_LOG.since(int(body.get("since", 0)))
    return {"last": WRITE_LOG.count, "writes": found}


@controlled("POST")
def change(body: dict[str, Any]) -> dict[str, Any]:
    """Move `orders` open orders one step; with `corrected`, correct as many completed orders
    instead. The choice depends on `seed` and on the existing orders."""
    count, seed = int(body.get("orders", 1)), int(body.get("seed", 1))
    if body.get("corrected"):
        pool = Order.objects.filter(team_id=settings.TEAM_ID, low_level_status="completed")
        return {"order_ids": _move(_choose(pool, count, seed, "correct"), "corrected")}
    pool = Order.objects.filter(team_id=settings.TEAM_ID, next_at__isnull=False)
    pool = pool.exclude(low_level_status="completed")
    return {"order_ids": _move(_choose(pool, count, seed, "change"), None)}


def _choose(pool: Any, count: int, seed: int, purpose: str) -> list[int]:
    numbers = list(pool.order_by("-number").values_list("number", flat=True)[:200_000])
    return KeyedRandom(purpose, seed).sample(numbers, min(count, len(numbers)))


def _move(numbers: list[int], target: str | None) -> list[str]:
    context = load_context()
    speed = World.objects.get(id=1).speed
    return [
        key
        for first in range(0, len(numbers), world_loop.BATCH)
        for key in world_loop.move_chosen(
            context, numbers[first : first + world_loop.BATCH], speed, target
        )
    ]


@controlled("POST")
def place(body: dict[str, Any]) -> dict[str, Any]:
    """Place `orders` new orders; some come with a new user."""
    count = int(body.get("orders", 1))
    before = World.objects.get(id=1).user_count
    ids = world_loop.place_orders(load_context(), count, World.objects.get(id=1).speed)
    made = User.objects.filter(seq__gt=before).order_by("seq")
    return {"order_ids": ids, "user_ids": [str(key) for key in made.values_list("id", flat=True)]}


@controlled("POST")
def delete_users(body: dict[str, Any]) -> dict[str, Any]:
    """Delete `user_ids`, or `count` users chosen by `seed`."""
    if "user_ids" in body:
        keys = [str(key) for key in body["user_ids"]]
    else:
        pool = User.objects.filter(team_id=TEAM_IDS[0], deleted_at__isnull=True, seq__gt=1)
        seqs = list(pool.order_by("seq").values_list("seq", flat=True))
        wanted = KeyedRandom("delete", int(body.get("seed", 1))).sample(
            seqs, min(int(body.get("count", 1)), len(seqs))
        )
        keys = [str(k) for k in pool.filter(seq__in=wanted).values_list("id", flat=True)]
    at: datetime = clock.now()
    return {"deleted": world_loop.delete_users(keys, at), "user_ids": keys}


@controlled("GET", "POST", "DELETE")
def delivery_faults(body: dict[str, Any]) -> dict[str, Any]:
    """POST sets the faults of `deliveries.faults.Faults`, DELETE removes them. Return them with
    figures about what has been sent so far."""
    method = body.pop("_method")
    if method != "GET":
        delivery_fault_settings.save_faults(
            delivery_fault_settings.parse_faults(body)
            if method == "POST"
            else delivery_fault_settings.Faults()
        )
    return report.report()


@controlled("POST")
def webhooks(body: dict[str, Any]) -> dict[str, Any]:
    """Send webhooks to `url`, signed with `secret`; null stops them."""
    secret = str(body.get("secret", settings.WEBHOOK_SECRET))
    endpoint = endpoints.configure(body["url"], secret)
    return {"id": endpoint and endpoint.id, "url": endpoint and endpoint.url}


@controlled("POST")
def announce(body: dict[str, Any]) -> dict[str, Any]:
    """Announce `count` synthetic events: of `event_type`, of the `event_types`, or of `all` types
    in turn (one of each by default); timeseries events have `samples` samples."""
    kinds = list(EVENT_TYPES) if body.get("all") else body.get("event_types")
    kinds = kinds or [str(body["event_type"])]
    seed, count = int(body.get("seed", 1)), int(body.get("count", len(kinds)))
    if not 0 <= count <= MOST_ANNOUNCED:
        raise Refused(f"count is at most {MOST_ANNOUNCED}")
    make = Samples(int(body.get("samples", 3))).make
    ids = []
    with transaction.atomic():
        for first in range(0, count, ANNOUNCED_AT_ONCE):
            places = range(first, min(count, first + ANNOUNCED_AT_ONCE))
            ids += event_queue.announce_all(
                [make(kinds[n % len(kinds)], seed + n // len(kinds)) for n in places]
            )
    return {"announced": len(ids), "message_ids": ids}


@controlled("POST")
def connections(body: dict[str, Any]) -> dict[str, Any]:
    """Make `connect` connections, then break `fail` working ones, chosen by `seed`."""
    seed = int(body.get("seed", 1))
    made = connection_changes.connect(int(body.get("connect", 0)), seed, clock.now())
    broken = connection_changes.fail(int(body.get("fail", 0)), seed, clock.now())
    return {"connected": made, "failed": broken}


def _users(body: dict[str, Any]) -> list[str] | int:
    """Return `user_ids`, or the number `users` of the first connected ones."""
    return [str(key) for key in body["user_ids"]] if "user_ids" in body else int(body["users"])


@controlled("POST")
def wearables(body: dict[str, Any]) -> dict[str, Any]:
    """Announce the last `days` days of `user_ids` or of `users` users, of all or some `resources`
    (by their names in events). With `news`, only data that was not announced yet."""
    if body.get("news"):
        return {"events": feeds.announce_news(_users(body), clock.now())}
    resources = body.get("resources")
    return feeds.announce_days(_users(body), int(body.get("days", 1)), resources, clock.now())


@controlled("POST")
def backfill(body: dict[str, Any]) -> dict[str, Any]:
    """Pull the history of `user_ids` or of `users` users again, of all or some `resources`. The
    pulls will end with `outcome`, or end at once with `finished`."""
    outcome = body.get("outcome")
    if outcome not in (None, "success", "failure", "in_progress", "retrying"):
        raise Refused("outcome is success, failure, in_progress or retrying")
    finished = bool(body.get("finished", False))
    return feeds.backfill(_users(body), body.get("resources"), outcome, clock.now(), finished)


@controlled("POST")
def mend(body: dict[str, Any]) -> dict[str, Any]:
    """Connect `count` broken connections again."""
    seed = int(body.get("seed", 1))
    return {"user_ids": feeds.reconnect(int(body.get("count", 1)), seed, clock.now())}


@controlled("POST")
def lab_tests(body: dict[str, Any]) -> dict[str, Any]:
    """Approve the pending lab tests `lab_test_ids`, or all pending ones."""
    waiting = LabTest.objects.filter(status="pending_approval").select_related("lab")
    if "lab_test_ids" in body:
        waiting = waiting.filter(id__in=body["lab_test_ids"])
    with transaction.atomic():
        for test in waiting:
            test.status, test.updated_at = "active", clock.now()
            test.save(update_fields=["status", "updated_at"])
            refresh_lab_test(test)
    return {"approved": [str(test.id) for test in waiting]}


@controlled("POST")
def match_review(body: dict[str, Any]) -> dict[str, Any]:
    """Set whether the team's queue of unmatched results is `enabled`."""
    unmatched.MATCH_REVIEW.enabled = bool(body["enabled"])
    return {"enabled": unmatched.MATCH_REVIEW.enabled}


@controlled("POST")
def reports(body: dict[str, Any]) -> dict[str, Any]:
    """Move the jobs `job_ids`, or all open ones, by `steps`; set whether human review is enabled
    (`review_enabled`), and how the next jobs end (`next_outcomes`)."""
    with transaction.atomic():
        chosen = jobs.settings()
        chosen.review_enabled = bool(body.get("review_enabled", chosen.review_enabled))
        chosen.next_outcomes = list(body.get("next_outcomes", chosen.next_outcomes))
        if set(chosen.next_outcomes) - set(jobs.OUTCOMES):
            raise Refused(f"outcomes are {', '.join(jobs.OUTCOMES)}")
        chosen.save()
    moved = jobs.advance(body.get("job_ids"), int(body.get("steps", 0)), clock.now())
    return {
        "review_enabled": chosen.review_enabled,
        "next_outcomes": chosen.next_outcomes,
        "jobs": {str(job.id): job.status for job in moved},
    }


urlpatterns = [
    path("status", status),
    path("clock", set_clock),
    path("answers", answers),
    path("faults", faults),
    path("writes", writes),
    path("change", change),
    path("place", place),
    path("delete_users", delete_users),
    path("delivery-faults", delivery_faults),
    path("webhooks", webhooks),
    path("announce", announce),
    path("connections", connections),
    path("wearables", wearables),
    path("backfill", backfill),
    path("mend", mend),
    path("lab_tests", lab_tests),
    path("match_review", match_review),
    path("reports", reports),
]
