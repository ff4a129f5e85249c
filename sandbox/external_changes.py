"""Changes that a client does not make itself, by the control path: patients who reschedule or
cancel their appointments, slots taken by others, allowlists edited by somebody else."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction
from django.urls import path

from sandbox import booking_keys, bookings, clock, order_editing, slots
from sandbox.control import Refused, controlled
from sandbox.models import LabAccount, PscSite, ServiceArea, World
from sandbox.slots import Slot, Venue
from sandbox.states import AppointmentState


@controlled("POST")
def appointments(body: dict[str, Any]) -> dict[str, Any]:
    """Change the appointment of `order_id` as `do` says: `confirm`, `reschedule` (to a free slot
    at least `days` days later, by `origin`), `cancel`, or forbid a reschedule (`fix`)."""
    what, origin = body["do"], str(body.get("origin", "patient"))
    now = clock.now()
    with order_editing.edit_order(str(body["order_id"])) as order:
        visit = order.appointment
        if visit is None:
            raise Refused("the order has no appointment")
        match what:
            case "confirm":
                low = order.low_level_status
                if visit.event_status not in ("pending", "reserved") or low == "ordered":
                    raise Refused(f"the appointment is {visit.event_status}, the order {low}")
                bookings.confirm(order)
            case "reschedule":
                slot = _later(visit, now, int(body.get("days", 1)))
                bookings.reschedule(order, visit, slot, origin)
            case "cancel":
                bookings.cancel(order, str(body.get("reason", "Patient asked to cancel")))
            case "fix":
                visit.can_reschedule, visit.changed = False, True
                order_editing.end_step(order, order_editing.next_moment(order))
            case _:
                raise Refused("do is confirm, reschedule, cancel or fix")
    return {
        "appointment_id": visit.id,
        "event_status": visit.event_status,
        "start_at": visit.start_at and visit.start_at.isoformat(),
    }


def _venue(visit: AppointmentState) -> Venue:
    if visit.site_id is not None:
        return slots.site_venue(PscSite.objects.select_related("lab").get(id=visit.site_id))
    area = ServiceArea.objects.get(zip_code=visit.zip_code[:5])
    return Venue(visit.type, visit.provider, area.zip_code, area.iana_timezone)


def _later(visit: AppointmentState, now: datetime, days: int) -> Slot:
    venue = _venue(visit)
    start = (visit.start_at or now).astimezone(ZoneInfo(venue.zone)).date()
    for number in range(days, days + slots.DAYS):
        day = start + timedelta(days=number)
        seed = World.objects.get(id=1).seed
        if free := slots.remaining_slots(slots.offered_slots(seed, venue, day, now), visit.id):
            return free[0][0]
    raise Refused("no free slot")


@controlled("POST", "DELETE")
def taken_slots(body: dict[str, Any]) -> dict[str, Any]:
    """POST takes away what is left of the slots of `booking_keys`; DELETE gives all back."""
    if body["_method"] == "DELETE":
        slots.OVERRIDES.taken.clear()
        return {"taken": 0}
    seed = World.objects.get(id=1).seed
    for text in body["booking_keys"]:
        try:
            key = booking_keys.read(seed, str(text))
        except booking_keys.Unreadable:
            raise Refused("not a booking key") from None
        slots.OVERRIDES.taken.add((Venue(key.kind, key.provider, key.code), key.start))
    return {"taken": len(slots.OVERRIDES.taken)}


@controlled("GET", "POST")
def desk(body: dict[str, Any]) -> dict[str, Any]:
    """Set how bookings at service centers fail.

    `conflict_status` (400 or 404) is the status for a slot that is gone. The next `unanswered`
    bookings that wait for the lab get 500; with `made` they are made all the same.
    """
    chosen = slots.OVERRIDES
    status = int(body.get("conflict_status", chosen.conflict_status))
    if status not in (400, 404):
        raise Refused("conflict_status is 400 or 404")
    chosen.conflict_status = status
    chosen.unanswered = int(body.get("unanswered", chosen.unanswered))
    chosen.made = bool(body.get("made", chosen.made))
    return {
        "conflict_status": chosen.conflict_status,
        "unanswered": chosen.unanswered,
        "made": chosen.made,
    }


@controlled("POST")
def allowlist(body: dict[str, Any]) -> dict[str, Any]:
    """Add the teams `add` to the allowlist of `account_id`, and remove the teams `remove`."""
    with transaction.atomic():
        account = LabAccount.objects.select_for_update().get(id=str(body["account_id"]))
        out = set(body.get("remove", ()))
        teams = [*map(str, account.team_id_allowlist), *map(str, body.get("add", ()))]
        teams = [team for team in dict.fromkeys(teams) if team not in out]
        account.team_id_allowlist = teams
        account.save(update_fields=["team_id_allowlist"])
    return {"team_id_allowlist": teams}


urlpatterns = [
    path("appointments", appointments),
    path("slots", taken_slots),
    path("desk", desk),
    path("allowlist", allowlist),
]
