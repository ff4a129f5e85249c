"""Names of teams."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID


def team_name(team: UUID, names: Mapping[UUID, str]) -> str:
    """Return the name of a team; empty if it has none."""
    return names.get(team, "")
