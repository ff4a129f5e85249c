"""Check that the service key belongs to the team of the stored records.

With the key of another team every list shows other patients: they would be added, and the stored
ones would be marked missing. The installation therefore remembers the team of the first records
that a sync stores. Before a process reads or sends anything, it fetches one record and compares its
team with the remembered one. `manage.py adoptteam` moves an installation to another team.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

from django.apps import apps
from django.utils.translation import gettext_noop

from backoffice.core.installation import INSTALLATION_ID
from backoffice.core.models import Installation
from backoffice.core.service_client import service
from backoffice.service import RecordPage, Service, errors
from backoffice.service.orders import OrderPayload
from backoffice.service.users import UserPayload

ANOTHER_TEAM: Final = gettext_noop("SERVICE_API_KEY is of another team than the records here.")
"""First sentence of the error of every refused read and command."""
TEAM_SAMPLE_SIZE: Final = 1_000
"""Number of patients to read when no team is remembered. Ids are random, and a few patients of
another team may be left from releases that did not check."""
SUSPICIOUS_PATIENT_COUNT: Final = 10
"""With this many stored patients, a service that lists no user and no order has another team's key:
ours cannot have vanished all at once."""
PROBE_SECONDS: Final = 5.0
INCONCLUSIVE_ERRORS: Final = (errors.Missing, errors.Malformed, errors.NotEnabled)
"""Errors of a list that say nothing about the team."""


class AnotherTeam(Exception):
    """The key is of another team: nothing may be stored, marked missing, or sent."""

    def __init__(self, their_team: UUID | None, our_team: UUID) -> None:
        their_records = (
            f"It is of team {their_team}" if their_team else "It lists no user and no order"
        )
        super().__init__(
            f"{ANOTHER_TEAM} {their_records}, the records here are of team {our_team}."
        )


def mirror_team() -> UUID | None:
    """Return the team that this installation remembers; None before the first sync.

    A database of an earlier release remembers none until its next sync; the team of
    most patients is returned then.
    """
    remembered = (
        Installation.objects.filter(pk=INSTALLATION_ID).values_list("team_id", flat=True).first()
    )
    if remembered is not None:
        return remembered
    patients = apps.get_model("patients", "Patient").objects.order_by("pk")
    teams = Counter(patients.values_list("team_id", flat=True)[:TEAM_SAMPLE_SIZE])
    return teams.most_common(1)[0][0] if teams else None


def remember_team(teams: Collection[UUID]) -> UUID | None:
    """Remember the team of the first records, in the transaction that stores them, and return it.

    Raises AnotherTeam if there are several `teams`, or if another process has remembered another
    team meanwhile. Returns None if `teams` is empty and no team is remembered.
    """
    if teams:
        Installation.objects.filter(pk=INSTALLATION_ID, team_id=None).update(team_id=min(teams))
    our_team = mirror_team()
    check_teams(teams, our_team)
    return our_team


def verified_service() -> Service:
    """Return the client after checking that its key is of our team.

    Raises AnotherTeam, or a ServiceError when the service does not answer.
    """
    client = service()
    our_team = mirror_team()
    if our_team is not None and _team_of_client.get(client) != our_team:
        with _check_lock:
            if _team_of_client.get(client) != our_team and is_our_key(
                read_key_team(client), our_team
            ):
                _team_of_client[client] = our_team
    return client


def check_teams(teams: Iterable[UUID], our_team: UUID | None) -> None:
    """Raise AnotherTeam if one of these teams is not ours."""
    for team in teams:
        if our_team is not None and team != our_team:
            raise AnotherTeam(team, our_team)


_team_of_client: Final[WeakKeyDictionary[Service, UUID]] = WeakKeyDictionary()
"""The team of the key of each client that was checked."""
_check_lock: Final = threading.Lock()
"""Held by the thread that checks; the others wait for its result."""


@dataclass(frozen=True, slots=True)
class KeyTeam:
    """The team of a client's key, according to the lists of users and orders.

    `team` is that of the first record; None without a record. `lists_nothing`: both lists were
    answered, and both are empty.
    """

    team: UUID | None
    lists_nothing: bool


def read_key_team(client: Service, seconds: float = PROBE_SECONDS) -> KeyTeam:
    """Read one user and, if there is none, one order, each within `seconds`.

    Raises the ServiceError of a service that does not answer.
    """
    client = client.within(seconds)
    lists: tuple[Callable[[], RecordPage[UserPayload | OrderPayload]], ...] = (
        lambda: client.users.list(0, 1),
        lambda: client.orders.list(page=1, size=1),
    )
    failure: errors.ServiceError | None = None
    empty_count = 0
    for read in lists:
        try:
            page = read()
        except INCONCLUSIVE_ERRORS:
            continue
        except errors.ServiceError as error:
            failure = error
            continue
        for record in page.records:
            return KeyTeam(record.data.team_id, lists_nothing=False)
        empty_count += not page.unreadable
    if failure is not None:
        raise failure
    return KeyTeam(None, lists_nothing=empty_count == len(lists))


def is_our_key(key: KeyTeam, our_team: UUID) -> bool:
    """Return True if the key is of our team, and False if the service does not show it.

    Raises AnotherTeam.
    """
    if key.team is not None:
        check_teams([key.team], our_team)
        return True
    present = apps.get_model("patients", "Patient").objects.filter(
        missing_since=None, team_id=our_team
    )
    if (
        key.lists_nothing
        and len(present.values_list("pk")[:SUSPICIOUS_PATIENT_COUNT]) == SUSPICIOUS_PATIENT_COUNT
    ):
        raise AnotherTeam(None, our_team)
    return False
