"""Commands that add an insurance or create a payor of the team (users.md 4 and 5).

For both, the service has no natural key and no idempotency key. If the outcome is unknown and a
read of the service does not clearly show it, a person decides.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

import msgspec
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.outbox.command import (
    Ambiguous,
    Command,
    Confirmed,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.outbox.enqueueing import enqueue_next
from backoffice.outbox.models import CommandRecord
from backoffice.service import Record, Service, errors
from backoffice.service.insurance import InsurancePayload as InsuranceRecord
from backoffice.service.insurance import NewInsurance, NewInsured, NewPayor
from backoffice.service.insurance import PayorPayload as PayorRecord
from backoffice.service.users import NewGuarantor
from backoffice.sync.lookups import schedule_lookups
from patients.models import Demographics, Insurance, Payor
from patients.record_comparison import FEDERAL, insurance_digest, parse_insurance
from patients.search_keys import fold
from patients.sync import store_insurance, store_payors

logger = logging.getLogger(__name__)

TASK: Final = "patients.tasks.deliver"
RESOLUTION_AGE: Final = timedelta(days=7)
"""How long after the request of a command a person's decision still starts the next step."""
INSURANCE_CHANGED: Final = gettext_noop(
    "Another insurance was added in the meantime. Review it, then add this one."
)
GUARANTOR_FIELDS: Final = {
    "guarantor": "guarantor_first_name",
    "guarantor.last_name": "guarantor_last_name",
    "guarantor.phone_number": "guarantor_phone_number",
    "guarantor.email": "guarantor_email",
    "guarantor.address": "guarantor_first_line",
    "guarantor.address.city": "guarantor_city",
    "guarantor.address.state": "guarantor_state",
    "guarantor.address.second_line": "guarantor_second_line",
    "guarantor.address.zip": "guarantor_zip",
    "guarantor.address.country": "guarantor_country",
}


class InsuranceRequest(msgspec.Struct, kw_only=True):
    """The insurance card. With `new_payor`, that payor is created first and gives the code."""

    payor_code: str
    payor_name: str
    member_id: str
    relationship: str
    group_id: str | None = None
    guarantor: NewGuarantor | None = None
    is_primary: bool = True
    new_payor: NewPayor | None = None
    before: str = ""
    """Digest of the insurance of this kind that the person saw."""

    def first_command(self, user_id: UUID, insured: NewInsured) -> Command:
        """Return the command to send first: for the new payor, else for the insurance."""
        if self.new_payor is not None:
            return CreatePayor(
                payor=self.new_payor, user_id=user_id, insuring=self, insured=insured
            )
        return AddInsurance(user_id=user_id, insuring=self, insured=insured)


class AddInsurance(Command, kw_only=True):
    """Add an insurance record. Records never change; the newest of a kind is in force."""

    kind: ClassVar[str] = "insurance.create"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER
    task: ClassVar[str] = TASK
    fields: ClassVar[dict[str, str]] = {
        "payor_code": "payor",
        "member_id": "member_id",
        "group_id": "group_id",
        "relationship": "relationship",
        **GUARANTOR_FIELDS,
    }

    user_id: UUID
    insuring: InsuranceRequest
    insured: NewInsured

    def title(self) -> str:
        payor = self.insuring.payor_name or self.insuring.payor_code
        return f"Add {self._rank()} insurance: {payor}"[:200]

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.user_id)

    def patient(self) -> UUID:
        return self.user_id

    def lock_key(self) -> str:
        return f"{self.kind}:{self.user_id}:{self.insuring.is_primary}"

    def form_url(self) -> str:
        return reverse("patients:insure", args=[self.user_id])

    def body(self) -> NewInsurance:
        card = self.insuring
        return NewInsurance(
            payor_code=card.payor_code,
            member_id=card.member_id,
            relationship=card.relationship,
            insured=self.insured,
            group_id=card.group_id,
            guarantor=card.guarantor,
            is_primary=card.is_primary,
        )

    def check(self) -> None:
        if not Demographics.objects.filter(pk=self.user_id, missing_since=None).exists():
            raise PreconditionFailed(gettext("Add the patient's details before adding insurance."))
        now = current_insurance_digest(self.user_id, self.insuring.is_primary)
        if now == insurance_digest(self.body()):
            raise PreconditionFailed(
                gettext("This insurance is already on file with the same details."),
                field="member_id",
            )
        if now != self.insuring.before:
            raise PreconditionFailed(gettext(INSURANCE_CHANGED))

    def refresh(self, service: Service) -> None:
        try:
            self.store(service.insurance.latest(self.user_id, self.insuring.is_primary))
        except errors.Missing:
            return  # There is no insurance of this kind yet.

    def send(self, service: Service, sending: SendContext) -> Record[InsuranceRecord]:
        return service.insurance.create(self.user_id, self.body())

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """Compare the latest record with the one before and with the one that was sent.

        "Each POST adds a new record and never edits one; only the latest is readable" (users.md 4).
        Our record has the `member_id`, `relationship` and `group_id` that were sent. It also has
        the `payor_code`, unless "the service infers the state plan" (specification, Insurance, rule
        1).
        """
        card = self.insuring
        try:
            answer = service.insurance.latest(self.user_id, card.is_primary)
        except errors.Missing:
            return NoTrace()
        latest = answer.data
        if insurance_digest(latest) == card.before:
            return NoTrace()
        requested = (card.member_id, card.relationship, card.group_id)
        stored = (latest.member_id, latest.relationship, latest.group_id)
        is_same_payor = card.payor_code in (latest.payor_code, *FEDERAL)
        if is_same_payor and [*map(_folded, stored)] == [*map(_folded, requested)]:
            return Confirmed(answer)
        name = latest.company.name if latest.company else latest.payor_code
        words = f"{name}, member ID {latest.member_id}, relationship {latest.relationship}"
        schedule_lookups(f"insurance-{self._rank()}", [self.user_id])
        return Ambiguous([PossibleMatch(self._rank(), words)])

    def store(self, answer: Record[InsuranceRecord]) -> str:
        store_insurance({str(self.user_id): answer}, self.insuring.is_primary)
        # A lookup in progress may have been sent before the service had the new record.
        schedule_lookups(f"insurance-{self._rank()}", [self.user_id])
        return self._rank()

    def _rank(self) -> str:
        return "primary" if self.insuring.is_primary else "secondary"


def _folded(identifier: str | None) -> str:
    """Return an identifier without spaces and case, for comparison."""
    return "".join((identifier or "").split()).casefold()


def current_insurance_digest(user_id: UUID, is_primary: bool) -> str:
    """Return the digest of the insurance in force, from the mirror; empty for none."""
    return insurance_digest(parse_insurance(current_insurance(user_id, is_primary)))


def current_insurance(user_id: UUID, is_primary: bool) -> Insurance | None:
    """Return the insurance in force, from the mirror."""
    rows = Insurance.objects.filter(user_id=user_id, is_primary=is_primary, superseded_at=None)
    return rows.order_by("-as_of").first()


class CreatePayor(Command, kw_only=True):
    """Create a payor of the team, then add an insurance with it.

    The service assigns payor codes, and names of payors need not be unique. A payor is created only
    if no payor that the team sees has its name.
    """

    kind: ClassVar[str] = "payor.create"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER
    task: ClassVar[str] = TASK
    fields: ClassVar[dict[str, str]] = {
        "name": "payor_name",
        "address": "payor_first_line",
        "address.second_line": "payor_second_line",
        "address.city": "payor_city",
        "address.state": "payor_state",
        "address.zip": "payor_zip",
        "address.country": "payor_country",
    }

    payor: NewPayor
    user_id: UUID
    insuring: InsuranceRequest
    insured: NewInsured

    def title(self) -> str:
        return f"Add insurance company: {self.payor.name}"[:200]

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.user_id)

    def patient(self) -> UUID:
        return self.user_id

    def lock_key(self) -> str:
        return f"{self.kind}:{fold(self.payor.name)}"

    def form_url(self) -> str:
        return reverse("patients:insure", args=[self.user_id])

    def check(self) -> None:
        name = fold(self.payor.name)
        for payor in Payor.objects.filter(name__iexact=self.payor.name, missing_since=None):
            if fold(payor.name) == name:
                raise PreconditionFailed(_name_taken(payor.payor_code), field="payor_name")

    def refresh(self, service: Service) -> None:
        same_named = self._same_named(service)
        if same_named:
            store_payors(same_named)
            raise PreconditionFailed(_name_taken(same_named[0].data.payor_code), field="payor_name")

    def send(self, service: Service, sending: SendContext) -> Record[PayorRecord]:
        return service.insurance.create_payor(self.payor)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """Look for a new payor of the team with this name.

        No payor had the name right before the command was sent (`refresh`). "A created payor is
        tied to the creating team and appears in search results only for that team (source = team)"
        (specification, Insurance).
        """
        same_named = self._same_named(service)
        if not same_named:
            return NoTrace()
        if (
            len(same_named) == 1
            and same_named[0].data.source == "team"
            and self._is_new(same_named[0], sending)
        ):
            return Confirmed(same_named[0])
        store_payors(same_named)
        return Ambiguous([_possible_match(record.data) for record in same_named])

    def _is_new(self, payor: Record[PayorRecord], sending: SendContext) -> bool:
        since = sending.first_sent_at or sending.requested_at
        rows = Payor.objects.filter(payor_code=payor.data.payor_code, as_of__lt=since)
        return not rows.exists()

    def _same_named(self, service: Service) -> list[Record[PayorRecord]]:
        """Return the payors at the service that have this name."""
        page = service.insurance.search_payors(insurance_name=self.payor.name)
        name = fold(self.payor.name)
        return [record for record in page.records if fold(record.data.name) == name]

    def store(self, answer: Record[PayorRecord]) -> str:
        store_payors([answer])
        return answer.data.payor_code

    def next_command(self, remote_id: str) -> AddInsurance:
        card = msgspec.structs.replace(self.insuring, payor_code=remote_id, new_payor=None)
        return AddInsurance(user_id=self.user_id, insuring=card, insured=self.insured)


def _possible_match(payor: PayorRecord) -> PossibleMatch:
    return PossibleMatch(payor.payor_code, f"{payor.name}, {payor.payor_code}")


def _name_taken(payor_code: str) -> str:
    return gettext(
        "An insurance company with this name already exists (%(code)s). Search for it and choose"
        " it."
    ) % {"code": payor_code}


def follow_resolved_payors() -> None:
    """Enqueue the insurance of each payor that a person found at the service.

    Reads only the commands of the last days that a person resolved. These are few, and each is
    followed once.
    """
    rows = CommandRecord.objects.filter(
        kind=CreatePayor.kind,
        requested_at__gt=timezone.now() - RESOLUTION_AGE,
        state=CommandRecord.State.DONE,
        confirmed_by="person",
    )
    for row in rows.select_related("requested_by"):
        try:
            with transaction.atomic():
                enqueue_next(row, CreatePayor.read(row.payload).next_command(row.remote_id))
        except (msgspec.ValidationError, IntegrityError) as error:
            # Another release wrote the payload, or another worker has enqueued it. Continue with
            # the rest.
            logger.warning("could not enqueue the insurance of a payor: %s", type(error).__name__)
