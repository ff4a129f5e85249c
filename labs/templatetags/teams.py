"""Names of teams."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django import template

register = template.Library()


@register.simple_tag
def team_name(team: UUID, names: Mapping[UUID, str]) -> str:
    """The name a team was given; empty for none."""
    return names.get(team, "")
