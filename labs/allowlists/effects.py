"""What follows when the teams of a lab account change: the "blast radius" (orders.md 2.9).

A team that orders at a lab without naming an account needs exactly one active account there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.core.service_team import mirror_team
from labs.allowlists.teams import allowed_team_ids, in_order, names, short_name
from labs.models import LabAccount, LabAccountTeam


@dataclass(frozen=True, slots=True)
class Effect:
    """What follows for one team: active accounts at the lab before and after. `name` is what is
    typed for it, `called` the name it was given, if any."""

    team: UUID
    ours: bool
    name: str
    called: str
    gains: bool
    before: int
    after: int

    @property
    def left_with_none(self) -> bool:
        return self.before > 0 and self.after == 0

    @property
    def family(self) -> str:
        if self.after == self.before:
            return vocabulary.CLOSED
        if self.after == 0:
            return vocabulary.NEEDS_ACTION
        return vocabulary.RESULT_IN if self.after == 1 else vocabulary.WITH_PATIENT

    @property
    def words(self) -> str:
        if self.after == self.before:
            return "Nothing changes for its orders now: this account is not active."
        if self.after == 0:
            return "No active account at this lab is left: orders there will be refused."
        if self.after == 1:
            return "One active account at this lab: orders go there by themselves."
        return f"{self.after} active accounts at this lab: every order must name one of them."


def team_effects(account: LabAccount, target: Collection[UUID]) -> list[Effect]:
    """One row for each team that is let in or shut out, ours first."""
    now, wanted, ours, called = allowed_team_ids(account), set(target), mirror_team(), names()
    touched = now ^ wanted
    active = Counter(
        LabAccountTeam.objects.filter(
            team_id__in=touched,
            account__lab=account.lab,
            account__status="active",
            account__missing_since=None,
        )
        .exclude(account=account)
        .values_list("team_id", flat=True)
    )
    this = account.status == "active" and account.missing_since is None
    return [
        Effect(
            team=team,
            ours=team == ours,
            name=short_name(team, ours, called),
            called=called.get(team, ""),
            gains=team in wanted,
            before=active[team] + (this and team in now),
            after=active[team] + (this and team in wanted),
        )
        for team in in_order(touched, ours)
    ]


@dataclass(frozen=True, slots=True)
class Side:
    """One team in a comparison of three lists."""

    team: UUID
    ours: bool
    saw: bool
    there: bool
    wanted: bool


def three_ways(
    saw: Collection[UUID], there: Collection[UUID], wanted: Collection[UUID]
) -> list[Side]:
    ours = mirror_team()
    every = in_order({*saw, *there, *wanted}, ours)
    return [Side(t, t == ours, t in saw, t in there, t in wanted) for t in every]
