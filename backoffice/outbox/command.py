"""What a command says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Final, Self
from uuid import UUID

import msgspec

from backoffice.models import CommandRecord
from backoffice.service import Service

KEY_LIVES: Final = timedelta(hours=20)
"""The service keeps an idempotency key for 24 hours at least."""


class ResendPolicy(Enum):
    """What a machine may do when a sending is unknown and the service shows no trace of it."""

    NEVER = "never"
    """No key, no natural key: a second sending would be a second thing. A person decides."""
    SAME_KEY = "same key"
    """The service knows the idempotency key for a day."""
    SAME_EFFECT = "same effect"
    """Twice is once: cancelling, moving to a time, a number that must be unique."""


class PreconditionFailed(Exception):
    """A command that cannot be sent now: a message for staff, and the form field it is about."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


@dataclass(frozen=True, slots=True)
class SendContext:
    """What a sending and its look-ups may know of the row."""

    id: UUID
    idempotency_key: UUID
    first_sent_at: datetime | None
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The look-up found what was requested: `answer` is stored like the answer of a sending."""

    outcome: ClassVar[str] = "happened"
    answer: Any


@dataclass(frozen=True, slots=True)
class NoTrace:
    """The service shows no trace of the command."""

    outcome: ClassVar[str] = "absent"


@dataclass(frozen=True, slots=True)
class Disproved:
    """It did not happen and cannot happen any more: a message for staff."""

    outcome: ClassVar[str] = "refuted"
    message: str


@dataclass(frozen=True, slots=True)
class PossibleMatch:
    """A record that may be what was requested: its id and a description for staff."""

    id: str
    description: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Only a person can tell: the records found, for them to choose from."""

    outcome: ClassVar[str] = "several"
    matches: Sequence[PossibleMatch]


class Command(msgspec.Struct, kw_only=True):
    """One write to the service, as data: its fields are what is sent and what the person saw.

    Subclasses are declared with `kw_only=True`, set the class variables and write `title`,
    `subject`, `check`, `send`, `settle` and `store`. `check` runs when it is asked, and again
    right before it is sent.
    """

    kind: ClassVar[str]
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER
    task: ClassVar[str]
    """The Celery task that delivers it, to be rung for."""
    fields: ClassVar[dict[str, str]] = {}
    """Where the service's words on a field belong: its path in the body, by prefix, to ours."""

    @classmethod
    def read(cls, payload: Any) -> Self:
        return msgspec.convert(payload, cls)

    def payload(self) -> Any:
        return msgspec.to_builtins(self)

    def title(self) -> str:
        """What is asked, in words: "Cancel the order"."""
        raise NotImplementedError

    def subject(self) -> tuple[str, str]:
        """Kind and id of the record it is about, such as ("order", "<id>"); where it is still to be
        made, of what it is made for, or by which it will be known."""
        raise NotImplementedError

    def patient(self) -> UUID | None:
        """The patient it is about."""
        return None

    def difference(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What it is to change, before and after, for the audit; nothing where it makes something
        new, or the person did not see what was."""
        return {}, {}

    def lock_key(self) -> str:
        """Only one command with the same lock may be open at a time; empty for no lock."""
        return ":".join(self.subject())

    def form_url(self) -> str:
        """Address of the form it came from, where it can be corrected; empty for none."""
        return ""

    def done_url(self, remote_id: str) -> str:
        """Address of what came of it; empty for the subject's own page."""
        return ""

    def next_command(self, remote_id: str) -> Command | None:
        """The step that is asked for next, in the same person's name, as soon as this is done."""
        return None

    def check(self) -> None:
        """Raise PreconditionFailed where it cannot be asked, by what the mirror knows."""

    def refresh(self, service: Service) -> None:
        """Bring what `check` looks at up to date, right before it is sent. ServiceError: later."""

    def record_state_before(self) -> None:
        """Keep, in fields of the command, what the mirror shows right before the first sending,
        after `refresh`: `settle` tells by it what was there before. The fields are stored."""

    def send(self, service: Service, sending: SendContext) -> Any:
        """The one call. Returns the answer; raises ServiceError."""
        raise NotImplementedError

    def settle(
        self, service: Service, sending: SendContext
    ) -> Confirmed | NoTrace | Disproved | Ambiguous:
        """Ask the service whether it happened; raises ServiceError where that cannot be told.

        It compares only what the interface promises: beside each comparison stands the sentence it
        relies on. What is merely likely is `Ambiguous`, which a person decides on.
        """
        raise NotImplementedError

    def store(self, answer: Any) -> str:
        """Rows of an answer, in the caller's transaction; the id of what was made or changed."""
        raise NotImplementedError


def send_context(row: CommandRecord) -> SendContext:
    return SendContext(row.pk, row.idempotency_key, row.first_sent_at, row.requested_at)
