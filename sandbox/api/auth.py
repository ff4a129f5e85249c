"""Keys: the team key of the interface, and the management key apart from it.

A key of the one kind is refused by the other (specification, Authentication).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from hmac import compare_digest
from typing import Literal

from django.conf import settings
from django.http import HttpRequest

from sandbox.api.errors import Refusal


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: the team of a team key, or the organization of a management key."""

    team_id: uuid.UUID | None
    org_id: uuid.UUID | None

    @property
    def team(self) -> uuid.UUID:
        """The team; refused with 403 for a management key."""
        if self.team_id is None:
            raise Refusal(403, "A team key is required")
        return self.team_id


_NOBODY = Caller(None, None)


def _equal(given: str | None, expected: str) -> bool:
    return given is not None and compare_digest(given.encode(), expected.encode())


def check(request: HttpRequest, key: Literal["team", "management", "none"]) -> Caller:
    """Return the caller of a request; 401 if its key is missing, wrong or of the other kind."""
    if key == "none":
        return _NOBODY
    if key == "team":
        given = request.headers.get(settings.TEAM_KEY_HEADER)
        for known, team in (
            (settings.TEAM_KEY, settings.TEAM_ID),
            (settings.OTHER_TEAM_KEY, settings.OTHER_TEAM_ID),
        ):
            if _equal(given, known):
                return Caller(uuid.UUID(team), None)
        raise Refusal(401, "Missing or invalid API key")
    for header in settings.MANAGEMENT_KEY_HEADERS:
        if _equal(request.headers.get(header), settings.MANAGEMENT_KEY):
            return Caller(None, uuid.UUID(settings.ORG_ID))
    raise Refusal(401, "Missing or invalid management key")
