"""Names of teams."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django import template

register = template.Library()


@register.simple_tag
def team_name(team: UUID, names: Mapping[UUID, str]) -> str:
    """Return the name of a team; empty if it has none."""
    return names.get(team, "")
