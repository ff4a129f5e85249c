"""Every identity requests every URL: access follows the roles, and nothing leaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from backoffice.accounts.access import ADMINISTRATOR, PERMISSIONS
from backoffice.pages.lists.registry import all_lists
from orders.documents.kinds import KINDS
from tests.access.routes import SEARCHES, Route, all_routes, sample_id
from tests.access.visits import (
    ANONYMOUS,
    IDENTITIES,
    NARROW_TOKEN,
    TOKEN,
    Visit,
    Visitor,
    granted_permissions,
    probes_of,
)

pytestmark = pytest.mark.django_db

EXTRA_PERMISSIONS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("unmatched:detail", "POST"): ("results.match",),
}
"""Routes and methods with views that need more permissions than the route declares, depending on
the record."""
OWNER_ONLY: Final = {
    *(f"{each.name}:{route}" for each in all_lists() for route in ("run", "run-strip")),
    "team:open",
    *("documents:job", "documents:job-progress", "documents:job-file"),
}
"""Shown only to their owner, here the administrator; 404 for others."""
WITH_SECOND_FACTOR: Final = {
    *("mfa_deactivate_totp", "mfa_remove_webauthn", "mfa_view_recovery_codes"),
}
"""Not available without a second factor, which nobody has here."""
UNAVAILABLE: Final = {*(f"documents:{kind}" for kind in KINDS), "operations:health"}
"""Routes that report a service or workers that do not answer, as here."""

PARAMETERS: Final = frozenset({"orders:refused"})
"""Answer 400 without parameters, which no probe has."""

Visits = Callable[[str], list[Visit]]


@pytest.fixture(scope="module")
def visits(small_data_set: None) -> Visits:
    visits_by_identity: dict[str, list[Visit]] = {}

    def get_visits(identity: str) -> list[Visit]:
        if identity not in visits_by_identity:
            visits_by_identity[identity] = Visitor(identity).visit_all()
        return visits_by_identity[identity]

    return get_visits


def test_every_parameter_has_a_sample(small_data_set: None) -> None:
    without = []
    for route in all_routes():
        try:
            if not route.is_api:
                route.fill_path(sample_id)
        except LookupError as error:
            without.append(str(error))
    assert without == []


def test_matrix_has_at_least_3000_probes(small_data_set: None) -> None:
    assert sum(len(probes_of(identity)) for identity in IDENTITIES) >= 3000


@pytest.mark.parametrize("identity", IDENTITIES)
def test_access_follows_the_roles(visits: Visits, identity: str) -> None:
    wrong = [
        f"{visit.probe} answers {visit.status}, but {expected}"
        for visit in visits(identity)
        if (expected := contradiction(identity, visit))
    ]
    assert not wrong, "\n".join(wrong)


def contradiction(identity: str, visit: Visit) -> str:
    """Return the expected response if it differs; empty otherwise."""
    route, status = visit.probe.route, visit.status
    if status >= 500 and not (status == 503 and route and route.name in UNAVAILABLE):
        return "never a server error"
    if route is None:
        return "" if status in (301, 404) else "there is no such URL"
    if route.is_public:
        return ""
    if route.is_api:
        return _api_contradiction(identity, route, visit)
    if identity in (ANONYMOUS, TOKEN, NARROW_TOKEN):
        return "" if visit.location.startswith("/accounts/login/") else "to the sign-in page"
    needed = {*route.required_permissions}
    if visit.probe.is_real:
        needed.update(EXTRA_PERMISSIONS.get((route.name, visit.probe.method), ()))
    if not needed <= granted_permissions(identity):
        return "" if status == 403 else f"needs {needed - granted_permissions(identity)}"
    if visit.is_refused:
        return "access is expected"
    if not visit.probe.is_real or visit.probe.method != "GET" or route.name in UNAVAILABLE:
        return ""
    if route.name in PARAMETERS:
        return "" if status == 400 else "its parameters are missing"
    if route.name in WITH_SECOND_FACTOR:
        return "" if status in (302, 404) else "there is no second factor here"
    if route.name in OWNER_ONLY and identity != ADMINISTRATOR:
        return "" if status == 404 else "it belongs to another person"
    return "" if status in (200, 204, 302, 405) else "the page exists"


def _api_contradiction(identity: str, route: Route, visit: Visit) -> str:
    is_search = route.name in SEARCHES
    if visit.probe.method != ("POST" if is_search else "GET"):
        expected_status = 405
    elif identity == ANONYMOUS or identity not in IDENTITIES:
        expected_status = 401
    elif not granted_permissions(identity).issuperset(route.required_permissions):
        expected_status = 403
    elif is_search:
        expected_status = 400  # The probe sends no JSON.
    else:
        expected_status = 200 if visit.probe.is_real else 404
    return "" if visit.status == expected_status else f"should answer {expected_status}"


@pytest.mark.parametrize("identity", IDENTITIES)
def test_no_identity_receives_hidden_data(visits: Visits, identity: str) -> None:
    shown = granted_permissions(identity)
    leaks = [
        f"{visit.probe} tells {visit.names or visit.values}"
        for visit in visits(identity)
        if (visit.names and "patients.view" not in shown)
        or (visit.values and "results.view" not in shown)
    ]
    assert not leaks, "\n".join(leaks)


def test_canaries_are_found_by_administrator(visits: Visits) -> None:
    admin_visits = visits(ADMINISTRATOR)
    assert sum(bool(visit.names) for visit in admin_visits) > 40
    assert sum(bool(visit.values) for visit in admin_visits) > 5
    assert granted_permissions(ADMINISTRATOR) == set(PERMISSIONS)
