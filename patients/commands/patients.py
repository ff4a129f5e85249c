"""Commands that create a user and save user information (users.md 2 and 3)."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

import msgspec
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import calendar_day
from backoffice.outbox.command import (
    Ambiguous,
    Command,
    Confirmed,
    Disproved,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.outbox.models import CommandRecord
from backoffice.service import Record, Service, errors
from backoffice.service.insurance import NewInsured
from backoffice.service.json_text import JsonObject
from backoffice.service.users import NewAddress, NewUser, NewUserInfo, UserInfo, UserPayload
from patients.commands.insurance import InsuranceRequest
from patients.models import Demographics, DifferentPeople, Patient
from patients.person_record import content_digest, record_digest
from patients.record_comparison import is_equivalent, parse_info, parse_person, person_digest
from patients.search_keys import fold
from patients.sync import store_demographics, store_users

TASK: Final = "patients.tasks.deliver"
CLOCK_TOLERANCE: Final = timedelta(days=3)
"""Most by which the service's clock may differ, when creation times are compared."""
DETAILS_CHANGED: Final = gettext_noop(
    "These details were changed in the meantime. Compare them, then save again."
)
REFERENCE_TAKEN: Final = gettext_noop("Another patient has this reference. Enter a new one.")
PERSON_FIELDS: Final = {
    "first_name": "first_name",
    "last_name": "last_name",
    "dob": "dob",
    "gender": "gender",
    "phone_number": "phone_number",
    "email": "email",
    "address": "first_line",
    "address.second_line": "second_line",
    "address.city": "city",
    "address.state": "state",
    "address.zip": "zip",
    "address.zip_code": "zip",
    "address.country": "country",
    "address.access_notes": "access_notes",
    "medical_proxy": "proxy_first_name",
    "medical_proxy.last_name": "proxy_last_name",
    "medical_proxy.phone_number": "proxy_phone_number",
    "medical_proxy.email": "proxy_email",
    "medical_proxy.address": "proxy_first_line",
    "medical_proxy.address.city": "proxy_city",
    "medical_proxy.address.state": "proxy_state",
    "medical_proxy.address.second_line": "proxy_second_line",
    "medical_proxy.address.zip": "proxy_zip",
    "medical_proxy.address.country": "proxy_country",
    "race": "race",
    "ethnicity": "ethnicity",
    "sexual_orientation": "sexual_orientation",
    "gender_identity": "gender_identity",
}


class CreateUser(Command, kw_only=True):
    """Register a person: create the user, then save the details and the insurance as next steps.

    The reference is unique at the service, so a second attempt is harmless: the service answers
    with the user of the first. If another patient already had the reference, the first attempt gets
    the duplicate error and is refused.
    """

    kind: ClassVar[str] = "patient.create"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_KEY
    task: ClassVar[str] = TASK
    fields: ClassVar[dict[str, str]] = {"client_user_id": "client_user_id"}

    client_user_id: str
    info: NewUserInfo
    insuring: InsuranceRequest | None = None
    not_same: list[UUID] = []
    """Patients that a staff member declared to be different people."""

    def title(self) -> str:
        return gettext_noop("Register a patient")

    def subject(self) -> tuple[str, str]:
        return "new patient", self.client_user_id

    def lock_key(self) -> str:
        """Return a lock on name and birth date.

        So two staff members cannot register one person at the same time.
        """
        names = sorted([fold(self.info.first_name), fold(self.info.last_name)])
        person = "\n".join([*names, self.info.dob.isoformat()])
        return f"patient.create:{hashlib.blake2b(person.encode(), digest_size=16).hexdigest()}"

    def form_url(self) -> str:
        return reverse("patients:register")

    def done_url(self, remote_id: str) -> str:
        return reverse("patients:detail", args=[remote_id])

    def check(self) -> None:
        rows = CommandRecord.objects.open().filter(kind=self.kind, subject_id=self.client_user_id)
        # The row of this command itself has the same payload.
        is_taken = any(row.payload != self.payload() for row in rows)
        if is_taken or Patient.objects.with_reference(self.client_user_id).exists():
            raise PreconditionFailed(gettext(REFERENCE_TAKEN), field="client_user_id")

    def refresh(self, service: Service) -> None:
        try:
            service.users.resolve(self.client_user_id)
        except errors.Missing:
            return
        raise PreconditionFailed(gettext(REFERENCE_TAKEN), field="client_user_id")

    def send(self, service: Service, sending: SendContext) -> Record[UserPayload]:
        try:
            return service.users.create(NewUser(client_user_id=self.client_user_id))
        except errors.Duplicate as error:
            field = errors.FieldError(("body", "client_user_id"), REFERENCE_TAKEN)
            raise errors.Refused(
                status=error.status, message=REFERENCE_TAKEN, fields=(field,)
            ) from error

    def settle(
        self, service: Service, sending: SendContext
    ) -> Confirmed | NoTrace | Disproved | Ambiguous:
        # "client_user_id | string | yes | The team's own unique reference" (specification, User).
        # No user had it right before the first attempt (`refresh`), so one of our attempts created
        # the user who has it now.
        try:
            answer = service.users.resolve(self.client_user_id)
        except errors.Missing:
            return NoTrace()
        # A user that another command created is another person.
        if CommandRecord.objects.filter(kind=self.kind, remote_id=answer.data.user_id).exists():
            return Disproved(REFERENCE_TAKEN)
        if (
            Patient.objects.filter(pk=answer.data.user_id, as_of__lt=sending.requested_at).exists()
            or answer.data.created_on < sending.requested_at - CLOCK_TOLERANCE
        ):
            words = f"The patient with this reference, added {calendar_day(answer.data.created_on)}"
            return Ambiguous([PossibleMatch(str(answer.data.user_id), words)])
        return Confirmed(answer)

    def store(self, answer: Record[UserPayload]) -> str:
        store_users([answer])
        DifferentPeople.declare(answer.data.user_id, self.not_same)
        return str(answer.data.user_id)

    def next_command(self, remote_id: str) -> Command:
        return SetUserInfo(
            user_id=UUID(remote_id),
            info=msgspec.to_builtins(self.info),
            seen="",
            registering=True,
            insuring=self.insuring,
        )


class SetUserInfo(Command, kw_only=True):
    """Save the complete user information. The service deletes fields that are left out."""

    kind: ClassVar[str] = "patient.info"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    task: ClassVar[str] = TASK
    fields: ClassVar[dict[str, str]] = PERSON_FIELDS

    user_id: UUID
    info: JsonObject
    """The record as received, with the person's changes."""
    seen: str
    """Digest of the details that the person saw. Other details are not overwritten."""
    registering: bool = False
    insuring: InsuranceRequest | None = None
    not_same: list[UUID] = []

    def title(self) -> str:
        return gettext_noop("Save the patient's details")

    def subject(self) -> tuple[str, str]:
        return "patient", str(self.user_id)

    def patient(self) -> UUID:
        return self.user_id

    def lock_key(self) -> str:
        return f"patient.info:{self.user_id}"

    def form_url(self) -> str:
        page = "patients:register-on" if self.registering else "patients:edit"
        return reverse(page, args=[self.user_id])

    def check(self) -> None:
        person = Demographics.objects.filter(pk=self.user_id).first()
        content = person_digest(parse_person(person))
        # A command of an earlier release has the digest of the fields that this product knows.
        if self.seen in (record_digest(person), content):
            return
        if not is_equivalent(parse_person(person), parse_info(self.info)):
            raise PreconditionFailed(gettext(DETAILS_CHANGED))

    def refresh(self, service: Service) -> None:
        try:
            self.store(service.users.info(self.user_id))
        except errors.Missing:
            return  # There are no details yet.

    def send(self, service: Service, sending: SendContext) -> Record[UserInfo]:
        return service.users.update_info(self.user_id, self.info)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        # "All required fields, not a partial" (users.md 1): the sent data is the whole record. The
        # interface does not promise a spelling of values, so different spellings of a value are
        # equal.
        try:
            answer = service.users.info(self.user_id)
        except errors.Missing:
            return NoTrace()
        requested = parse_info(self.info)
        now = person_digest(answer.data)
        is_as_seen = self.seen in (content_digest(msgspec.json.decode(answer.raw)), now)
        if is_as_seen and now != person_digest(requested):
            return NoTrace()
        if is_equivalent(answer.data, requested):
            return Confirmed(answer)
        words = gettext_noop(
            "The details have changed since and differ from those that were saved."
        )
        return Ambiguous([PossibleMatch(str(self.user_id), words)])

    def store(self, answer: Record[UserInfo]) -> str:
        store_demographics({str(self.user_id): answer})
        DifferentPeople.declare(self.user_id, self.not_same)
        return str(self.user_id)

    def next_command(self, remote_id: str) -> Command | None:
        if self.insuring is None:
            return None
        return self.insuring.first_command(self.user_id, insured_person(self.info))


def home_address(info: JsonObject) -> NewAddress:
    """Return the home address from a person's record, as a request body has it."""
    return msgspec.convert(info["address"], NewAddress, strict=False)


def insured_person(info: JsonObject | NewUserInfo) -> NewInsured:
    """Return the patient as the insured person of a request. Its `gender` is in lower case."""
    values = msgspec.to_builtins(info)
    insured = {name: values[name] for name in NewInsured.__struct_fields__ if name in values}
    return msgspec.convert({**insured, "gender": str(values["gender"]).lower()}, NewInsured)
