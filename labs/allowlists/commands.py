"""The command that changes the allowlist of a lab account."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

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

NO_KEY = gettext_noop(
    "Allowed teams cannot be changed here because the management key is not set "
    "(setting MANAGEMENT_KEY)."
)
KEY_REFUSED = gettext_noop("The lab service rejected our management key (setting MANAGEMENT_KEY).")
NOT_SHOWN = gettext_noop("The lab service does not show this account to our management key.")
NOT_LISTED = gettext_noop("The lab service no longer lists this account.")


def obstacle(account: LabAccount) -> str:
    """Return why this account's list cannot be changed here; empty if it can."""
    if not settings.MANAGEMENT_KEY:
        return gettext(NO_KEY)
    if account.missing_since:
        return gettext(NOT_LISTED)
    if account.org_id is None:
        return gettext(
            "The lab service owns this account. Only the lab service can change its allowed teams."
        )
    if str(account.org_id) != settings.MANAGEMENT_ORG_ID.lower():
        return gettext("This account belongs to a different organization than our management key.")
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
        return f"Teams of {self.account_name[:100]}: {' and '.join(parts) or 'no change'}"

    def subject(self) -> tuple[str, str]:
        return "lab account", str(self.account_id)

    def difference(self) -> tuple[dict[str, list[UUID]], dict[str, list[UUID]]]:
        return {"teams": self.expected}, {"teams": self.target}

    def form_url(self) -> str:
        return reverse("labs:account-teams", args=[self.account_id])

    def check(self) -> None:
        account = LabAccount.objects.filter(pk=self.account_id).first()
        if account is None:
            raise PreconditionFailed(gettext(NOT_LISTED))
        if why := obstacle(account):
            raise PreconditionFailed(why)
        if set(self.target) == set(self.expected):
            raise PreconditionFailed(
                gettext("No changes to save: the teams are the same."), field="teams"
            )
        # The account may already have the target list, set by a colleague or by an attempt whose
        # answer was lost. Then it is harmless to send it again.
        now = allowed_team_ids(account)
        if now not in (set(self.expected), set(self.target)):
            raise PreconditionFailed(self._conflict(now))

    def refresh(self, service: Service) -> None:
        if not settings.MANAGEMENT_KEY:
            raise PreconditionFailed(gettext(NO_KEY))
        try:
            answer = self._read(service)
        except errors.Denied:
            raise PreconditionFailed(gettext(KEY_REFUSED)) from None
        if answer is None:
            raise PreconditionFailed(gettext(NOT_SHOWN))
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
                    str(self.account_id), f"Current teams: {describe_teams(now, mirror_team())}"
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
        return gettext(
            "Someone else changed the allowed teams in the meantime, so your change was not sent. "
            "You saw: %(seen)s. Current teams: %(current)s. Your change: %(wanted)s."
        ) % {
            "seen": describe_teams(self.expected, our_team),
            "current": describe_teams(now, our_team),
            "wanted": describe_teams(self.target, our_team),
        }
