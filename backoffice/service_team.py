"""Whether the service's key is of the team whose records are here.

With another team's key every list is another's: its patients would be added to ours, and ours
would be found gone. So before a process reads or sends anything, it asks the service once for one
record and compares its team with that of the patients here. An empty mirror takes any team.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary

from django.apps import apps

from backoffice.remote import service
from backoffice.service import Page, Service, errors

ANOTHER_TEAM: Final = "SERVICE_API_KEY is of another team than the records here."
"""How the error of every refused reading and the hindrance of every request begins."""
SAMPLE: Final = 1_000
"""Patients that are asked for their team: ids are random, and a few of another team may be left
from a time when this was not checked."""
EMPTY: Final = 10
"""From so many patients on, a service that lists no user and no order is taken for another team's:
ours cannot have vanished all at once."""
PROBE_SECONDS: Final = 5.0
UNCLEAR: Final = (errors.Missing, errors.Malformed, errors.NotEnabled)
"""Answers of a list that say nothing about the team."""


class AnotherTeam(Exception):
    """The key is of another team: nothing may be stored, found gone, or sent."""

    def __init__(self, theirs: UUID | None, ours: UUID) -> None:
        shown = f"It is of team {theirs}" if theirs else "It lists no user and no order"
        super().__init__(f"{ANOTHER_TEAM} {shown}, the records here are of team {ours}.")


def mirror_team() -> UUID | None:
    """The team whose patients are here; None before the first of them is read."""
    patients = apps.get_model("patients", "Patient").objects.order_by("pk")
    teams = Counter(patients.values_list("team_id", flat=True)[:SAMPLE])
    return teams.most_common(1)[0][0] if teams else None


def verified() -> Service:
    """The service, once its key is known to be of our team. Raises AnotherTeam, or a ServiceError
    where the service does not answer."""
    client = service()
    if client not in _checked:
        with _checking:
            ours = mirror_team()
            if client not in _checked and ours is not None and _is_of(client, ours):
                _checked[client] = True
    return client


def refuse_others(teams: Iterable[UUID], ours: UUID | None) -> None:
    """Raise AnotherTeam where one of these records is not of our team."""
    for team in teams:
        if ours is not None and team != ours:
            raise AnotherTeam(team, ours)


_checked: Final[WeakKeyDictionary[Service, bool]] = WeakKeyDictionary()
_checking: Final = threading.Lock()
"""One thread asks, and the others wait for what it finds."""


def _is_of(client: Service, ours: UUID) -> bool:
    """True where the service shows a record of ours; False where its answers do not tell. Raises
    AnotherTeam."""
    quick = client.within(PROBE_SECONDS)
    lists: tuple[Callable[[], Page[Any]], ...] = (
        lambda: quick.users.list(0, 1),
        lambda: quick.orders.list(page=1, size=1),
    )
    trouble: errors.ServiceError | None = None
    empty = 0
    for read in lists:
        try:
            page = read()
        except UNCLEAR:
            continue
        except errors.ServiceError as error:
            trouble = error
            continue
        for record in page.records:
            refuse_others([record.data.team_id], ours)
            return True
        empty += not page.unreadable
    if trouble is not None:
        raise trouble
    present = apps.get_model("patients", "Patient").objects.filter(missing_since=None)
    if empty == len(lists) and len(present.values_list("pk")[:EMPTY]) == EMPTY:
        raise AnotherTeam(None, ours)
    return False
