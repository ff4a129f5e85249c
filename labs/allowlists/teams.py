"""Known teams and their names. The service has only ids; `Team` has the names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from django.utils.translation import gettext, gettext_noop

from backoffice.core.service_team import mirror_team
from labs.models import LabAccount, LabAccountTeam, Team

OUR_TEAM = gettext_noop("our team")


def known_teams() -> set[UUID]:
    """Return our team and every team on an allowlist."""
    teams = set(LabAccountTeam.objects.order_by().values_list("team_id", flat=True).distinct())
    our_team = mirror_team()
    return teams | {our_team} if our_team else teams


def allowed_team_ids(account: LabAccount) -> set[UUID]:
    return set(account.teams.values_list("team_id", flat=True))


def team_names() -> dict[UUID, str]:
    """Return the names of the teams that have one, by id."""
    return dict(Team.objects.values_list("id", "name"))


def display_name(team: UUID, our_team: UUID | None, names: Mapping[UUID, str]) -> str:
    return gettext(OUR_TEAM) if team == our_team else names.get(team, str(team))


def short_name(team: UUID, our_team: UUID | None, names: Mapping[UUID, str]) -> str:
    """Return the text to type for this team: its name, or the end of its id.

    The ids of one organization may have the same beginning.
    """
    return gettext(OUR_TEAM) if team == our_team else names.get(team, team.hex[-6:])


def sort_teams(teams: Collection[UUID], our_team: UUID | None) -> list[UUID]:
    """Return the teams sorted by id, our team first."""
    return sorted(teams, key=lambda team: (team != our_team, str(team)))


def describe_teams(teams: Iterable[UUID], our_team: UUID | None) -> str:
    """Return the display names of the teams, separated by commas."""
    names = team_names()
    return ", ".join(
        display_name(t, our_team, names) for t in sort_teams(set(teams), our_team)
    ) or gettext("no teams")
