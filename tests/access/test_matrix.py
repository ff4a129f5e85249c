"""Everybody to every address: let in or refused exactly as the roles say, and nothing leaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from backoffice.accounts.access import ADMINISTRATOR, PERMISSIONS
from orders.documents.kinds import KINDS
from tests.access.routes import SEARCHES, Route, everything, of_world
from tests.access.visits import (
    IDENTITIES,
    NARROW_TOKEN,
    STRANGER,
    TOKEN,
    Visit,
    Visitor,
    granted,
    probes_of,
)

pytestmark = pytest.mark.django_db

FURTHER: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("unmatched:detail", "POST"): ("results.match",),
}
"""Route and method whose view asks for more than the route declares, of what is there."""
OWN: Final = {
    *("orders:run", "orders:run-strip", "team:open"),
    *("documents:job", "documents:job-progress", "documents:job-file"),
}
"""Shown to the person they belong to alone, here the administrator; to others there is nothing."""
WITH_SECOND_FACTOR: Final = {
    *("mfa_deactivate_totp", "mfa_remove_webauthn", "mfa_view_recovery_codes"),
}
"""Nothing to see for people without one, as all are here."""
AWAY: Final = {*(f"documents:{kind}" for kind in KINDS), "operations:health"}
"""Say that something does not answer, as here the service and the workers."""

PARAMETERS: Final = frozenset({"orders:refused"})
"""Answer 400 without parameters, which no probe has."""

Visits = Callable[[str], list[Visit]]


@pytest.fixture(scope="module")
def visits(small_world: None) -> Visits:
    known: dict[str, list[Visit]] = {}

    def of(identity: str) -> list[Visit]:
        if identity not in known:
            known[identity] = Visitor(identity).goes()
        return known[identity]

    return of


def test_every_parameter_has_a_sample(small_world: None) -> None:
    without = []
    for route in everything():
        try:
            if not route.is_api:
                route.filled(of_world)
        except LookupError as error:
            without.append(str(error))
    assert without == []


def test_the_matrix_is_as_large_as_promised(small_world: None) -> None:
    assert sum(len(probes_of(identity)) for identity in IDENTITIES) >= 3000


@pytest.mark.parametrize("identity", IDENTITIES)
def test_let_in_or_refused_as_the_roles_say(visits: Visits, identity: str) -> None:
    wrong = [
        f"{visit.probe} answers {visit.status}, but {expected}"
        for visit in visits(identity)
        if (expected := contradicts(identity, visit))
    ]
    assert not wrong, "\n".join(wrong)


def contradicts(identity: str, visit: Visit) -> str:
    """What should have been answered instead; empty when all is well."""
    route, status = visit.probe.route, visit.status
    if status >= 500 and not (status == 503 and route and route.name in AWAY):
        return "never an error of ours"
    if route is None:
        return "" if status in (301, 404) else "there is no such address"
    if route.is_public:
        return ""
    if route.is_api:
        return _of_api(identity, route, visit)
    if identity in (STRANGER, TOKEN, NARROW_TOKEN):
        return "" if visit.location.startswith("/accounts/login/") else "to the log-in page"
    needed = {*route.needs}
    if visit.probe.real:
        needed.update(FURTHER.get((route.name, visit.probe.method), ()))
    if not needed <= granted(identity):
        return "" if status == 403 else f"needs {needed - granted(identity)}"
    if visit.refused:
        return "to be let in"
    if not visit.probe.real or visit.probe.method != "GET" or route.name in AWAY:
        return ""
    if route.name in PARAMETERS:
        return "" if status == 400 else "its parameters are missing"
    if route.name in WITH_SECOND_FACTOR:
        return "" if status in (302, 404) else "nobody here has a second factor"
    if route.name in OWN and identity != ADMINISTRATOR:
        return "" if status == 404 else "it belongs to somebody else"
    return "" if status in (200, 204, 302, 405) else "there is something to see"


def _of_api(identity: str, route: Route, visit: Visit) -> str:
    is_search = route.name in SEARCHES
    if visit.probe.method != ("POST" if is_search else "GET"):
        wanted = 405
    elif identity == STRANGER or identity not in IDENTITIES:
        wanted = 401
    elif not granted(identity).issuperset(route.needs):
        wanted = 403
    elif is_search:
        wanted = 400  # The probe sends no JSON.
    else:
        wanted = 200 if visit.probe.real else 404
    return "" if visit.status == wanted else f"should answer {wanted}"


@pytest.mark.parametrize("identity", IDENTITIES)
def test_nobody_receives_what_their_role_does_not_show(visits: Visits, identity: str) -> None:
    shown = granted(identity)
    leaks = [
        f"{visit.probe} tells {visit.names or visit.values}"
        for visit in visits(identity)
        if (visit.names and "patients.view" not in shown)
        or (visit.values and "results.view" not in shown)
    ]
    assert not leaks, "\n".join(leaks)


def test_canaries_are_there_to_be_found(visits: Visits) -> None:
    everywhere = visits(ADMINISTRATOR)
    assert sum(bool(visit.names) for visit in everywhere) > 40
    assert sum(bool(visit.values) for visit in everywhere) > 5
    assert granted(ADMINISTRATOR) == set(PERMISSIONS)
