"""Known teams and their names. The service has only ids; `Team` has the names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from backoffice.core.service_team import mirror_team
from labs.models import LabAccount, LabAccountTeam, Team

OUR_TEAM = "our team"


def known_teams() -> set[UUID]:
    """Return our team and every team on an allowlist."""
    teams = set(LabAccountTeam.objects.order_by().values_list("team_id", flat=True).distinct())
    ours = mirror_team()
    return teams | {ours} if ours else teams


def allowed_team_ids(account: LabAccount) -> set[UUID]:
    return set(account.teams.values_list("team_id", flat=True))


def team_names() -> dict[UUID, str]:
    """Return the names of the teams that have one, by id."""
    return dict(Team.objects.values_list("id", "name"))


def display_name(team: UUID, ours: UUID | None, names: Mapping[UUID, str]) -> str:
    return OUR_TEAM if team == ours else names.get(team, str(team))


def short_name(team: UUID, ours: UUID | None, names: Mapping[UUID, str]) -> str:
    """Return the text to type for this team: its name, or the end of its id.

    The ids of one organization may have the same beginning.
    """
    return OUR_TEAM if team == ours else names.get(team, team.hex[-6:])


def sort_teams(teams: Collection[UUID], ours: UUID | None) -> list[UUID]:
    """Return the teams sorted by id, our team first."""
    return sorted(teams, key=lambda team: (team != ours, str(team)))


def describe_teams(teams: Iterable[UUID], ours: UUID | None) -> str:
    """Return the display names of the teams, separated by commas."""
    names = team_names()
    return (
        ", ".join(display_name(t, ours, names) for t in sort_teams(set(teams), ours)) or "no team"
    )
