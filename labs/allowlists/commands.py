"""The command that changes the allowlist of a lab account."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from backoffice.core.service_team import mirror_team
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
from labs.allowlists.teams import allowed_team_ids, describe_teams
from labs.models import LabAccount
from labs.sync import store_lab_accounts

Answer = Record[service_labs.LabAccountPayload]

NO_KEY = (
    "The key of the management interface is missing (setting MANAGEMENT_KEY): without it nobody "
    "here can change which teams may use an account."
)
KEY_REFUSED = "The management interface refuses our key (setting MANAGEMENT_KEY)."
NOT_SHOWN = "The management interface does not show this account."


def obstacle(account: LabAccount) -> str:
    """Return why this account's list cannot be changed here; empty if it can."""
    if not settings.MANAGEMENT_KEY:
        return NO_KEY
    if account.missing_since:
        return "The service no longer shows this account."
    if account.org_id is None:
        return "The account belongs to the service, which alone decides who may use it."
    if str(account.org_id) != settings.MANAGEMENT_ORG_ID.lower():
        return "The account belongs to another organization than our management key."
    return ""


class SetAllowlist(Command, kw_only=True):
    """Replace the list of teams that may use a lab account. `expected`: the list they saw."""

    kind: ClassVar[str] = "lab_account.allowlist"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    task: ClassVar[str] = "labs.tasks.deliver"
    fields: ClassVar[dict[str, str]] = {"team_id_allowlist": "teams"}

    account_id: UUID
    account_name: str
    expected: list[UUID]
    target: list[UUID]

    def title(self) -> str:
        added = len(set(self.target) - set(self.expected))
        removed = len(set(self.expected) - set(self.target))
        parts = [f"add {added}"] * bool(added) + [f"remove {removed}"] * bool(removed)
        return f"Teams of {self.account_name[:100]}: {' and '.join(parts) or 'as they are'}"

    def subject(self) -> tuple[str, str]:
        return "lab account", str(self.account_id)

    def difference(self) -> tuple[dict[str, list[UUID]], dict[str, list[UUID]]]:
        return {"teams": self.expected}, {"teams": self.target}

    def form_url(self) -> str:
        return reverse("labs:account-teams", args=[self.account_id])

    def check(self) -> None:
        account = LabAccount.objects.filter(pk=self.account_id).first()
        if account is None:
            raise PreconditionFailed("The service no longer shows this account.")
        if why := obstacle(account):
            raise PreconditionFailed(why)
        if set(self.target) == set(self.expected):
            raise PreconditionFailed("Nothing would change: the teams are the same.", field="teams")
        # The account may already have the target list, set by a colleague or by an attempt whose
        # answer was lost. Then it is harmless to send it again.
        now = allowed_team_ids(account)
        if now not in (set(self.expected), set(self.target)):
            raise PreconditionFailed(self._conflict(now))

    def refresh(self, service: Service) -> None:
        if not settings.MANAGEMENT_KEY:
            raise PreconditionFailed(NO_KEY)
        try:
            answer = self._read(service)
        except errors.Denied:
            raise PreconditionFailed(KEY_REFUSED) from None
        if answer is None:
            raise PreconditionFailed(NOT_SHOWN)
        self.store(answer)

    def send(self, service: Service, sending: SendContext) -> Answer:
        answer = service.management.set_allowlist(self.account_id, self.target)
        answer = answer or self._read(service)  # The answer may not have the written list.
        if answer is None or set(answer.data.team_id_allowlist) != set(self.target):
            raise errors.Uncertain(reason="another list than was written")
        return answer

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        # "team_id_allowlist | array of uuid": a set, in any order. PATCH "replaces the whole list"
        # (catalogue.md 7), so our list may have been replaced by the current one.
        answer = self._read(service)
        if answer is None:
            return Ambiguous([])
        now = set(answer.data.team_id_allowlist)
        if now == set(self.target):
            return Confirmed(answer)
        if now == set(self.expected):
            return NoTrace()
        self.store(answer)
        return Ambiguous(
            [
                PossibleMatch(
                    str(self.account_id), f"There now: {describe_teams(now, mirror_team())}"
                )
            ]
        )

    def store(self, answer: Answer) -> str:
        store_lab_accounts([answer])
        return str(answer.data.id)

    def _read(self, service: Service) -> Answer | None:
        page = service.management.lab_accounts(lab_account_id=self.account_id)
        if page.unreadable:
            raise errors.Malformed(reason="an account that cannot be read")
        return next((r for r in page.records if r.data.id == self.account_id), None)

    def _conflict(self, now: set[UUID]) -> str:
        our_team = mirror_team()
        return (
            "Somebody else changed the list meanwhile, so nothing was sent over it. "
            f"You saw: {describe_teams(self.expected, our_team)}. "
            f"There now: {describe_teams(now, our_team)}. "
            f"You want: {describe_teams(self.target, our_team)}."
        )
