"""Effects of a change of the teams of a lab account: the "blast radius" (orders.md 2.9).

A team that orders at a lab without naming an account needs exactly one active account there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core import vocabulary
from backoffice.core.service_team import mirror_team
from labs.allowlists.teams import allowed_team_ids, short_name, sort_teams, team_names
from labs.models import LabAccount, LabAccountTeam


@dataclass(frozen=True, slots=True)
class TeamEffect:
    """The effect on one team: its numbers of active accounts at the lab before and after."""

    team: UUID
    ours: bool
    name: str
    """The text to type as confirmation."""
    given_name: str
    """The name that staff gave the team; empty for none."""
    gains: bool
    before: int
    after: int

    @property
    def loses_last_account(self) -> bool:
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
            return gettext(
                "No effect on this team’s orders now, because this account is not active."
            )
        if self.after == 0:
            return gettext(
                "No active account left at this lab. This team’s orders there will be refused."
            )
        if self.after == 1:
            return gettext("One active account at this lab. Orders route there automatically.")
        return gettext(
            "%(count)s active accounts at this lab. Every order must name one of them."
        ) % {"count": self.after}


def team_effects(account: LabAccount, target: Collection[UUID]) -> list[TeamEffect]:
    """Return the effect on each team that is added or removed, our team first."""
    before, after = allowed_team_ids(account), set(target)
    our_team, names = mirror_team(), team_names()
    changed_ids = before ^ after
    active = Counter(
        LabAccountTeam.objects.filter(
            team_id__in=changed_ids,
            account__lab=account.lab,
            account__status="active",
            account__missing_since=None,
        )
        .exclude(account=account)
        .values_list("team_id", flat=True)
    )
    is_active = account.status == "active" and account.missing_since is None
    return [
        TeamEffect(
            team=team,
            ours=team == our_team,
            name=short_name(team, our_team, names),
            given_name=names.get(team, ""),
            gains=team in after,
            before=active[team] + (is_active and team in before),
            after=active[team] + (is_active and team in after),
        )
        for team in sort_teams(changed_ids, our_team)
    ]


@dataclass(frozen=True, slots=True)
class TeamComparison:
    """One team, and which of the three lists include it."""

    team: UUID
    ours: bool
    saw: bool
    there: bool
    wanted: bool


def compare_three_lists(
    saw: Collection[UUID], current: Collection[UUID], target: Collection[UUID]
) -> list[TeamComparison]:
    """Compare the list that a person saw, the current list, and the list that they want."""
    our_team = mirror_team()
    return [
        TeamComparison(
            team,
            ours=team == our_team,
            saw=team in saw,
            there=team in current,
            wanted=team in target,
        )
        for team in sort_teams({*saw, *current, *target}, our_team)
    ]
