"""The base class of commands, and the results of their lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Final, Self
from uuid import UUID

import msgspec

from backoffice.outbox.models import CommandRecord
from backoffice.service import Service
from backoffice.service.json_text import JsonObject

KEY_LIFETIME: Final = timedelta(hours=20)
"""The service keeps an idempotency key for 24 hours at least."""


class ResendPolicy(Enum):
    """Whether to send again when an outcome is unknown and the service shows no trace of it."""

    NEVER = "never"
    """No idempotency key or natural key: a second sending would act twice. A person decides."""
    SAME_KEY = "same key"
    """The service knows the idempotency key for a day."""
    SAME_EFFECT = "same effect"
    """Sending twice has the same effect: cancel, move to a time, set a unique number."""


class PreconditionFailed(Exception):
    """A command that cannot be sent now: a message for staff, and the form field it is about."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


@dataclass(frozen=True, slots=True)
class SendContext:
    """The part of the row that `send` and `settle` may use."""

    id: UUID
    idempotency_key: UUID
    first_sent_at: datetime | None
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The lookup found what was requested: `answer` is stored like the answer of a sending."""

    outcome: ClassVar[str] = "happened"
    answer: Any


@dataclass(frozen=True, slots=True)
class NoTrace:
    """The service shows no trace of the command."""

    outcome: ClassVar[str] = "absent"


@dataclass(frozen=True, slots=True)
class Disproved:
    """It did not happen and cannot happen any more. `message` is for staff."""

    outcome: ClassVar[str] = "refuted"
    message: str


@dataclass(frozen=True, slots=True)
class PossibleMatch:
    """A record that may be what was requested: its id and a description for staff."""

    id: str
    description: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Only a person can decide. `matches` are the records found, for them to choose from."""

    outcome: ClassVar[str] = "several"
    matches: Sequence[PossibleMatch]


class Command(msgspec.Struct, kw_only=True):
    """One write to the service, as data: its fields are what is sent and what the person saw.

    Subclasses are declared with `kw_only=True`, set the class variables and implement `title`,
    `subject`, `check`, `send`, `settle` and `store`. `check` runs when the command is enqueued, and
    again right before it is sent.
    """

    kind: ClassVar[str]
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER
    task: ClassVar[str]
    """Name of the Celery task that delivers it."""
    fields: ClassVar[dict[str, str]] = {}
    """Form fields by path in the body, or its beginning, to place the service's messages."""

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        return msgspec.convert(payload, cls)

    def payload(self) -> JsonObject:
        payload: JsonObject = msgspec.to_builtins(self)
        return payload

    def title(self) -> str:
        """Return what is requested, such as "Cancel the order"."""
        raise NotImplementedError

    def subject(self) -> tuple[str, str]:
        """Return type and id of the record it is about, such as ("order", "<id>").

        If the record does not exist yet, return those of the record it is made for, or an id by
        which it will be known.
        """
        raise NotImplementedError

    def patient(self) -> UUID | None:
        """Return the id of the patient it is about."""
        return None

    def difference(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """Return the changed values, before and after, for the audit.

        Both are empty if the command makes something new, or the person did not see the old values.
        """
        return {}, {}

    def lock_key(self) -> str:
        """Return the key of which only one command may be open at a time; empty for no lock."""
        return ":".join(self.subject())

    def form_url(self) -> str:
        """Return the URL of the form it came from, to correct it there; empty for none."""
        return ""

    def done_url(self, remote_id: str) -> str:
        """Return the URL of the result; empty for the page of the subject."""
        return ""

    def next_command(self, remote_id: str) -> Command | None:
        """Return the next step, enqueued in the same person's name as soon as this is done."""
        return None

    def check(self) -> None:
        """Raise PreconditionFailed if the mirror shows that it cannot be done."""

    def refresh(self, service: Service) -> None:
        """Update what `check` reads, right before it is sent. On ServiceError it is sent later."""

    def record_state_before(self) -> None:
        """Copy the state of the mirror into fields of the command, which are stored.

        Runs right before the first sending, after `refresh`. `settle` compares with it.
        """

    def send(self, service: Service, sending: SendContext) -> Any:
        """Make the one call and return its answer. Raises ServiceError."""
        raise NotImplementedError

    def settle(
        self, service: Service, sending: SendContext
    ) -> Confirmed | NoTrace | Disproved | Ambiguous:
        """Ask the service whether it happened. Raises ServiceError if that is unknown now.

        Compare only what the interface promises, and cite the sentence beside each comparison. If
        it is only likely, return `Ambiguous`, and a person decides.
        """
        raise NotImplementedError

    def store(self, answer: Any) -> str:
        """Store an answer as rows, in the caller's transaction; return the id of the record."""
        raise NotImplementedError


def send_context(row: CommandRecord) -> SendContext:
    return SendContext(row.pk, row.idempotency_key, row.first_sent_at, row.requested_at)
