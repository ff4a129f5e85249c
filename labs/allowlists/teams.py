"""Teams, as far as we know them: the service tells ids, their names are ours (`Team`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from backoffice.core.service_team import mirror_team
from labs.models import LabAccount, LabAccountTeam, Team

OURS = "our team"


def known_teams() -> set[UUID]:
    """Ours, and every team that stands on a list."""
    found = set(LabAccountTeam.objects.order_by().values_list("team_id", flat=True).distinct())
    ours = mirror_team()
    return found | {ours} if ours else found


def allowed_team_ids(account: LabAccount) -> set[UUID]:
    return set(account.teams.values_list("team_id", flat=True))


def names() -> dict[UUID, str]:
    """Of those that have one."""
    return dict(Team.objects.values_list("id", "name"))


def name_of(team: UUID, ours: UUID | None, called: Mapping[UUID, str]) -> str:
    return OURS if team == ours else called.get(team, str(team))


def short_name(team: UUID, ours: UUID | None, called: Mapping[UUID, str]) -> str:
    """What somebody types who means this team: ids of one organisation may begin alike."""
    return OURS if team == ours else called.get(team, team.hex[-6:])


def in_order(teams: Collection[UUID], ours: UUID | None) -> list[UUID]:
    """Ours first."""
    return sorted(teams, key=lambda team: (team != ours, str(team)))


def in_words(teams: Iterable[UUID], ours: UUID | None) -> str:
    called = names()
    return ", ".join(name_of(t, ours, called) for t in in_order(set(teams), ours)) or "no team"
