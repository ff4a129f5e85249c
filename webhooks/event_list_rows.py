"""Events as rows of a page: the label of the type, patient, delay and outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.core.encryption.cipher import DecryptionError
from patients.models import Patient
from webhooks import event_log, payloads
from webhooks.models import Event, decrypted_body


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as a row of a page."""

    event: Event
    type_label: str
    name: str
    happened_at: datetime | None
    term: vocabulary.Term
    subject_url: str

    @property
    def delay(self) -> timedelta | None:
        """Return the time from the change to its receipt; None if the time of change is unknown."""
        return self.event.received_at - self.happened_at if self.happened_at else None

    @property
    def attempts(self) -> int:
        """Return how often it was tried. The column counts failed attempts only."""
        is_applied = self.event.applied_at and self.event.state != Event.State.DEAD
        return self.event.attempts + (1 if is_applied else 0)

    @property
    def processing_time(self) -> timedelta | None:
        """Return the time from receipt until it was applied; None if not applied, or dead."""
        done = self.event.applied_at
        if done is None or self.event.state == Event.State.DEAD:
            return None
        return done - self.event.received_at


def event_rows(events: Iterable[Event], *, by_name: bool) -> list[EventRow]:
    """Return rows of the events; `by_name` adds the names of patients by one query."""
    events_list = list(events)
    users = {event.user_id for event in events_list if event.user_id}
    people: dict[UUID, Patient] = {}
    if by_name and users:
        people = Patient.objects.named().in_bulk(users)
    return [
        _row(event, people.get(event.user_id) if event.user_id else None) for event in events_list
    ]


def outcome_term(event: Event) -> vocabulary.Term:
    """Return the vocabulary term of an event: its outcome once it is closed, else its state."""
    if event.outcome and event.state in (Event.State.DONE, Event.State.SKIPPED):
        return vocabulary.term("event.outcome", event.outcome)
    return vocabulary.term("event.state", event.state)


def _row(event: Event, person: Patient | None) -> EventRow:
    body = _listed_body(event) if "body" in event.get_deferred_fields() else event.body
    return EventRow(
        event=event,
        type_label=event_log.type_label(event.event_type),
        name=person.full_name if person else "",
        happened_at=payloads.happened_at(body),
        term=outcome_term(event),
        subject_url="orders:detail" if is_about_order(event) else "",
    )


def _listed_body(event: Event) -> bytes | None:
    """Return the body of an event read for a list; None for a large body."""
    stored = getattr(event, "small_body", None)
    try:
        return None if stored is None else decrypted_body(event.message_id, bytes(stored))
    except DecryptionError:
        return None


def is_about_order(event: Event) -> bool:
    """Return whether the subject of an event is the id of an order."""
    try:
        UUID(event.subject_id)
    except ValueError:
        return False
    return event.event_type.startswith(
        ("labtest.order.", "labtest.appointment.", "labtest.result.")
    )
