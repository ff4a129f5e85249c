"""Pages of the catalog: labs, lab accounts, lab tests and markers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires, staff_user
from backoffice.pages.paging.counts import capped_count
from backoffice.pages.paging.pages import Sort, fetch_page, page_position
from labs.account_catalogs import compare_markers, compare_tests
from labs.details import billing_by_state, questions
from labs.lab_tests.views import actions_of
from labs.models import Lab, LabAccount, LabAccountTeam, LabTest, Marker
from labs.search_texts import clean_search_text

PAGE_SIZE: Final = 50
BY_NAME: Final = Sort(("name", "id"))
CATALOG_TABS: Final = {
    "tests": gettext_noop("Lab tests offered"),
    "missing-tests": gettext_noop("Lab tests not offered"),
    "markers": gettext_noop("Markers offered"),
    "missing-markers": gettext_noop("Markers not offered"),
}
TABS: Final = {
    "accounts": gettext_noop("Accounts"),
    "tests": gettext_noop("Lab tests"),
    "markers": gettext_noop("Markers"),
}


@dataclass(frozen=True, slots=True)
class LabRow:
    """A lab with the team's accounts and its numbers of lab tests and markers."""

    lab: Lab
    accounts: list[LabAccount]
    tests: int
    markers: int


@requires("labs.view")
@require_safe
def labs(request: HttpRequest) -> HttpResponse:
    """List labs with the state of the team's accounts there."""
    by_lab: dict[str, list[LabAccount]] = defaultdict(list)
    for account in LabAccount.in_list_order():
        by_lab[account.lab].append(account)
    rows = [
        LabRow(lab, by_lab.pop(lab.slug, []), lab.test_count, lab.marker_count)
        for lab in Lab.with_counts()
    ]
    without_lab = [account for accounts in by_lab.values() for account in accounts]
    context = {"rows": rows, "strays": without_lab}
    return render(request, "labs/list.html", context)


@requires("labs.view")
@require_safe
def lab(request: HttpRequest, lab_id: int) -> HttpResponse:
    """Show one lab, with a tab each for accounts, lab tests and markers."""
    shown_lab = get_object_or_404(Lab, pk=lab_id)
    tab = request.GET.get("show", "accounts")
    tab = tab if tab in TABS else "accounts"
    text = clean_search_text(request.GET.get("q", ""))
    accounts = LabAccount.objects.filter(lab=shown_lab.slug)
    tests = LabTest.objects.filter(lab=shown_lab)
    markers = Marker.objects.filter(lab=shown_lab)
    counts = {
        "accounts": capped_count(accounts),
        "tests": capped_count(tests),
        "markers": capped_count(markers),
    }
    context: dict[str, object] = {
        "lab": shown_lab,
        "tab": tab,
        "q": text,
        "tabs": [(name, gettext(label), counts[name]) for name, label in TABS.items()],
    }
    if tab == "accounts":
        context["accounts"] = _accounts(list(accounts.order_by("status", "account_name", "id")))
    else:
        rows: QuerySet[Any] = tests.matching(text) if tab == "tests" else markers.matching(text)
        context["total"] = capped_count(rows) if text else counts[tab]
        context["page"] = fetch_page(
            rows.defer("record"), BY_NAME, size=PAGE_SIZE, **page_position(request)
        )
    return render(request, "labs/lab.html", context)


@requires("labs.view")
@require_safe
def account_catalog(request: HttpRequest, account_id: UUID) -> HttpResponse:
    """Show what one lab account offers and what it lacks of its lab, with tabs and a search."""
    account = get_object_or_404(LabAccount.objects.defer("record"), pk=account_id)
    tab = request.GET.get("show", "tests")
    tab = tab if tab in CATALOG_TABS else "tests"
    text = clean_search_text(request.GET.get("q", ""))
    tests, markers = compare_tests(account), compare_markers(account)
    rows = {
        "tests": tests.offered,
        "missing-tests": tests.lacking,
        "markers": markers.offered,
        "missing-markers": markers.lacking,
    }
    counts = {name: capped_count(rows_of_tab) for name, rows_of_tab in rows.items()}
    matching: QuerySet[Any] = rows[tab].matching(text)
    context = {
        "account": account,
        "lab": account.find_lab(),
        "tab": tab,
        "tabs": [(name, gettext(label), counts[name]) for name, label in CATALOG_TABS.items()],
        "of_tests": tab in ("tests", "missing-tests"),
        "q": text,
        "total": capped_count(matching) if text else counts[tab],
        "page": fetch_page(matching, BY_NAME, size=PAGE_SIZE, **page_position(request)),
    }
    return render(request, "labs/account_catalog.html", context)


@requires("labs.view")
@require_safe
def lab_test(request: HttpRequest, lab_test_id: UUID) -> HttpResponse:
    """Show one lab test and its markers, reflex markers included."""
    test = get_object_or_404(LabTest.objects.select_related("lab"), pk=lab_test_id)
    context = {
        "test": test,
        "actions": actions_of(test, staff_user(request)),
        "markers": Marker.objects.filter(in_tests__lab_test=test)
        .defer("record")
        .order_by("in_tests__position"),
    }
    return render(request, "labs/test.html", context)


@requires("labs.view")
@require_safe
def marker(request: HttpRequest, marker_id: int) -> HttpResponse:
    """Show one marker: expected results, order-entry questions, and lab tests with it."""
    shown_marker = get_object_or_404(Marker.objects.select_related("lab"), pk=marker_id)
    tests = LabTest.objects.filter(test_markers__marker=shown_marker).defer("record")
    context = {
        "item": shown_marker,
        "expected": list(shown_marker.expected_results.order_by("position")),
        "questions": questions(shown_marker),
        "tests": list(tests.order_by("name", "id")[:PAGE_SIZE]),
    }
    return render(request, "labs/marker.html", context)


def _accounts(accounts: list[LabAccount]) -> list[dict[str, object]]:
    """Return accounts with their teams and billing table. One query reads all teams."""
    teams: dict[UUID, list[UUID]] = defaultdict(list)
    memberships = LabAccountTeam.objects.filter(account__in=accounts).order_by(
        "account_id", "team_id"
    )
    for account_id, team_id in memberships.values_list("account_id", "team_id"):
        teams[account_id].append(team_id)
    return [
        {"account": account, "teams": teams[account.pk], "billing": billing_by_state(account)}
        for account in accounts
    ]
