"""Commands that create, rename, archive and restore lab tests."""

from __future__ import annotations

from typing import ClassVar, Final
from uuid import UUID

from django.urls import reverse
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
from backoffice.service import Record, Service, errors
from backoffice.service import labs as service_labs
from labs.models import Lab, LabTest
from labs.sync import store_lab_tests

Answer = Record[service_labs.LabTestPayload]

ARCHIVED: Final = "inactive"
NAME_TAKEN: Final = gettext_noop("A lab test with this name already exists.")
NOT_LISTED: Final = gettext_noop("The lab service no longer lists this lab test.")
PAGE_SIZE: Final = 50
MAX_PAGES: Final = 20


def _folded(name: str) -> str:
    """Return a name without extra spaces and case, for comparison."""
    return " ".join(name.split()).casefold()


class CreateLabTest(Command, kw_only=True):
    """Create a lab test of the team. The service must approve it before it can be ordered.

    The service has no idempotency key for this and allows two tests with one name. This command
    refuses a used name, so that the test can be found by name if the answer is lost.
    """

    kind: ClassVar[str] = "lab_test.create"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER
    task: ClassVar[str] = "labs.tasks.deliver"
    fields: ClassVar[dict[str, str]] = {
        "name": "name",
        "method": "method",
        "description": "description",
        "marker_ids": "markers",
        "provider_ids": "markers",
        "lab_account_id": "lab_account",
        "fasting": "fasting",
    }

    lab_id: int
    lab_slug: str
    name: str
    method: str
    description: str
    marker_ids: list[int]
    codes: list[str] | None
    """The lab's codes of the same markers, which the service prefers; None if one has no code."""
    fasting: bool
    lab_account_id: UUID | None

    def title(self) -> str:
        return f"Create lab test {self.name[:150]}"

    def subject(self) -> tuple[str, str]:
        return "lab", str(self.lab_id)

    def lock_key(self) -> str:
        return f"lab_test.create:{self.name.casefold()}"

    def form_url(self) -> str:
        return reverse("labs:test-new", args=[self.lab_id])

    def done_url(self, remote_id: str) -> str:
        return reverse("labs:test", args=[remote_id])

    def check(self) -> None:
        if not Lab.objects.filter(pk=self.lab_id, missing_since=None).exists():
            raise PreconditionFailed(gettext("The lab service no longer lists this lab."))
        if LabTest.objects.filter(name__iexact=self.name, missing_since=None).exists():
            raise PreconditionFailed(gettext(NAME_TAKEN), field="name")

    def refresh(self, service: Service) -> None:
        same_named = self._same_named(service)
        if same_named:
            store_lab_tests(same_named)
            raise PreconditionFailed(gettext(NAME_TAKEN), field="name")

    def send(self, service: Service, sending: SendContext) -> Answer:
        return service.labs.create_test(
            service_labs.NewLabTest(
                name=self.name,
                method=self.method,
                description=self.description,
                marker_ids=None if self.codes else self.marker_ids,
                provider_ids=self.codes,
                fasting=self.fasting,
                lab_account_id=self.lab_account_id,
                lab_slug=self.lab_slug,
            )
        )

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """Look for a lab test with the name, method and lab that were sent.

        No test had the name right before the command was sent (`refresh`). "name | case-insensitive
        substring" finds a test that has it now (catalogue.md 2). This command created it if the
        method and the lab are equal: "method | enum | yes", "lab | Lab or null | yes".
        """
        same_named = self._same_named(service)
        if not same_named:
            return NoTrace()
        if len(same_named) == 1 and self._is_as_sent(same_named[0].data):
            return Confirmed(same_named[0])
        store_lab_tests(same_named)
        return Ambiguous(
            [
                PossibleMatch(str(record.data.id), f"{record.data.name}, {record.data.status}")
                for record in same_named
            ]
        )

    def _is_as_sent(self, test: service_labs.LabTestPayload) -> bool:
        return test.method == self.method and (test.lab is None or test.lab.id == self.lab_id)

    def store(self, answer: Answer) -> str:
        store_lab_tests([answer])
        return str(answer.data.id)

    def _same_named(self, service: Service) -> list[Answer]:
        """Return the tests with this name. The service also finds names that contain it."""
        records: list[Answer] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = service.labs.lab_tests(PAGE_SIZE, cursor, name=self.name)
            if page.unreadable:
                raise errors.Malformed(reason="a lab test that cannot be read")
            records += [r for r in page.records if _folded(r.data.name) == _folded(self.name)]
            cursor = page.next_cursor
            if cursor is None:
                return records
        raise errors.Malformed(reason="the list of lab tests has no end")


class _LabTestCommand(Command, kw_only=True):
    """Base of commands that change one lab test."""

    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    task: ClassVar[str] = "labs.tasks.deliver"

    lab_test_id: UUID
    name: str
    """The name that the person saw."""

    def subject(self) -> tuple[str, str]:
        return "lab test", str(self.lab_test_id)

    def changeable_test(self) -> LabTest:
        """Return the lab test, or raise PreconditionFailed if it cannot be changed."""
        test = LabTest.objects.filter(pk=self.lab_test_id, missing_since=None).first()
        if test is None:
            raise PreconditionFailed(gettext(NOT_LISTED))
        if test.auto_generated:
            raise PreconditionFailed(
                gettext("The lab service created this lab test. It cannot be changed.")
            )
        return test

    def refresh(self, service: Service) -> None:
        try:
            self.store(service.labs.lab_test(self.lab_test_id))
        except errors.Missing:
            raise PreconditionFailed(gettext(NOT_LISTED)) from None

    def store(self, answer: Answer) -> str:
        store_lab_tests([answer])
        return str(answer.data.id)


class RenameLabTest(_LabTestCommand, kw_only=True):
    """Rename a lab test."""

    kind: ClassVar[str] = "lab_test.rename"
    fields: ClassVar[dict[str, str]] = {"name": "name"}

    new_name: str

    def title(self) -> str:
        return f"Rename lab test to {self.new_name[:150]}"

    def form_url(self) -> str:
        return reverse("labs:test-rename", args=[self.lab_test_id])

    def check(self) -> None:
        now = self.changeable_test().name
        if now not in (self.name, self.new_name):
            raise PreconditionFailed(
                gettext(
                    "Someone else renamed this lab test to “%(name)s” in the meantime. "
                    "You saw “%(seen)s”."
                )
                % {"name": now, "seen": self.name}
            )
        if self.name == self.new_name:
            raise PreconditionFailed(gettext("The lab test already has this name."), field="name")
        other_tests = LabTest.objects.exclude(pk=self.lab_test_id).filter(missing_since=None)
        if other_tests.filter(name__iexact=self.new_name).exists():
            raise PreconditionFailed(gettext(NAME_TAKEN), field="name")

    def send(self, service: Service, sending: SendContext) -> Answer:
        change = service_labs.LabTestChange(name=self.new_name)
        return service.labs.update_test(self.lab_test_id, change)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        # "name | string | yes" (catalogue.md 2): the name that was sent, except for spaces and
        # case.
        answer = service.labs.lab_test(self.lab_test_id)
        now = answer.data.name
        if now == self.new_name or (_folded(now) == _folded(self.new_name) != _folded(self.name)):
            return Confirmed(answer)
        if _folded(now) == _folded(self.name):
            return NoTrace()
        return Ambiguous([PossibleMatch(str(answer.data.id), f"The name is now {now}")])


class ArchiveLabTest(_LabTestCommand, kw_only=True):
    """Archive a lab test: nobody can order it any more. Orders under way continue."""

    kind: ClassVar[str] = "lab_test.archive"

    def title(self) -> str:
        return f"Archive lab test {self.name[:150]}"

    def form_url(self) -> str:
        return reverse("labs:test-archive", args=[self.lab_test_id])

    def check(self) -> None:
        if self.changeable_test().status == ARCHIVED:
            raise PreconditionFailed(gettext("The lab test is already archived."))

    def send(self, service: Service, sending: SendContext) -> Answer:
        change = service_labs.LabTestChange(active=False)
        return service.labs.update_test(self.lab_test_id, change)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "PATCH active false archives" (catalogue.md 3), and "status | enum active,
        # pending_approval, inactive" (catalogue.md 2).
        answer = service.labs.lab_test(self.lab_test_id)
        return Confirmed(answer) if answer.data.status == ARCHIVED else NoTrace()


class RestoreLabTest(_LabTestCommand, kw_only=True):
    """Restore an archived lab test, so that it can be ordered again."""

    kind: ClassVar[str] = "lab_test.restore"

    def title(self) -> str:
        return f"Restore lab test {self.name[:150]}"

    def form_url(self) -> str:
        return reverse("labs:test-restore", args=[self.lab_test_id])

    def check(self) -> None:
        if self.changeable_test().status != ARCHIVED:
            raise PreconditionFailed(gettext("The lab test is not archived."))

    def send(self, service: Service, sending: SendContext) -> Answer:
        change = service_labs.LabTestChange(active=True)
        return service.labs.update_test(self.lab_test_id, change)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "PATCH active false archives" (catalogue.md 3): a test that is not archived was restored,
        # even if it is pending_approval again.
        answer = service.labs.lab_test(self.lab_test_id)
        return Confirmed(answer) if answer.data.status != ARCHIVED else NoTrace()
