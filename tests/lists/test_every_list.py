"""What every list page does, whatever its rows. A new list needs rows in `rows`."""

from __future__ import annotations

import csv
import io
import re
import uuid
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.http import HttpRequest, QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.access import PERMISSIONS, ROLES
from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.operations.run_list import RUN_LIST
from backoffice.outbox.command_list import COMMAND_LIST
from backoffice.outbox.forms import CommandForm
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists import bulk
from backoffice.pages.lists.bulk import BulkAction, RowNotDone
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.filters import (
    ChoicesFilter,
    DeferredChoiceFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.registry import all_lists
from backoffice.pages.lists.views.saved_views import selected_rows
from backoffice.pages.models import BulkRow, BulkRun, SavedView
from backoffice.sync.models import SyncRun
from labs.models import Report
from labs.reports.report_list import REPORT_LIST
from orders.exceptions import queue
from orders.exceptions.exception_list import ExceptionList
from orders.exceptions.queue import EXCEPTION_GROUPS
from orders.models import Appointment, Handling, Order, Review, UnmatchedResult
from orders.order_list.order_list import ORDER_LIST
from patients.models import Patient
from patients.patient_list import PATIENT_LIST
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import NOW, envelope, order, patient, report, staff, uid, unmatched_result
from tests.lists.bulk_runs import begin_bulk_action, run_bulk_action
from tests.webhooks.events import event
from webhooks.event_list import EVENT_LIST

pytestmark = pytest.mark.django_db

NOBODY: Any = AnonymousUser()
SORTS: Final = [
    (each, sort, direction)
    for each in all_lists()
    for sort in each.filter_set.form_class().SORTS
    for direction in ("asc", "desc")
]
PLAIN_FILTERS: Final = [
    pytest.param(each, name, id=f"{each.name}-{name}")
    for each in all_lists()
    for name, one in each.filter_set.base_filters.items()
    if type(one) in (VocabularyFilter, ChoicesFilter, DeferredChoiceFilter)
    if not one.method and hasattr(each.visible_rows(NOBODY).model, str(one.field_name))
]
"""Filters that compare a column with the chosen values."""
every_list = pytest.mark.parametrize("list_page", all_lists(), ids=lambda each: each.name)
ROWS: Final = 60
LABS: Final = ("lab-east", "lab-west")
SIZE: Final = 25


@pytest.fixture
def rows() -> None:
    """Create rows for three pages of each list. Some have the same values in sorted columns."""
    Patient.objects.bulk_create(
        patient(
            n,
            name_key=f"ada{n % 40} testperson",
            first_name=f"Ada{n % 40}",
            last_name="Testperson",
            dob=date(1980, 1, 1) + timedelta(days=n % 30),
        )
        for n in range(ROWS)
    )
    Order.objects.bulk_create(
        order(
            n,
            patient_name=f"ada{n % 4}",
            quiet_at=None if n % 2 else order(n).created_at,
            lab_slug=LABS[n % 2],
            updated_at=NOW - timedelta(days=n % 30),
        )
        for n in range(ROWS)
    )
    Order.objects.bulk_create(
        order(
            ROWS + n,
            patient_name=f"ada{n % 4}",
            low_level_status="lost",
            bucket="needs-action",
            updated_at=NOW - timedelta(days=n % 30),
            quiet_at=order(n % 50).created_at,
            lab_slug=LABS[n % 2],
        )
        for n in range(ROWS)
    )
    Review.objects.bulk_create(
        Review(
            order_id=order(n).pk,
            version=1,
            rank=n % 7,
            since=order(n % 50).created_at,
            lab_slug=LABS[n % 2],
            signed=n % 2,
        )
        for n in range(ROWS)
    )
    # These orders wait for a visit.
    home = {"method": "at_home_phlebotomy", "low_level_status": "requisition_created"}
    Order.objects.bulk_create(
        order(n, **home, updated_at=NOW - timedelta(days=n % 30)) for n in range(2 * ROWS, 3 * ROWS)
    )
    tomorrow = datetime.now(UTC).replace(hour=12) + timedelta(days=1)
    Appointment.objects.bulk_create(
        Appointment(
            id=uid("appointment", n),
            user_id=uid("patient", n),
            order_id=uid("order", n),
            type="phlebotomy",
            status="confirmed",
            start_at=tomorrow + timedelta(days=n % 40),
            draw_day=(tomorrow + timedelta(days=n % 40)).date(),
            iana_timezone="UTC",
            **envelope(),
        )
        for n in range(ROWS)
    )
    AuditEntry.objects.bulk_create(
        AuditEntry(
            action="view",
            object_type="order",
            object_ids=[str(n)],
            at=NOW - timedelta(days=n % 30),
        )
        for n in range(ROWS)
    )
    uploader = staff("front desk")
    Report.objects.bulk_create(
        report(n, uploaded_by=uploader if n % 2 else None, state="failed" if n % 3 else "refused")
        for n in range(ROWS)
    )
    UnmatchedResult.objects.bulk_create(
        unmatched_result(n % 30, id=uid("unmatched", n), last_name=f"Testperson{n % 4}")
        for n in range(ROWS)
    )
    for n in range(ROWS):
        event(n)
    people = User.objects.bulk_create(
        User(
            username=f"reader-{n:02}",
            first_name=f"Ada{n % 40:02}",
            last_name="Testperson",
            last_login=NOW - timedelta(days=n % 30),
            date_joined=NOW - timedelta(days=n % 20),
        )
        for n in range(ROWS)
    )
    CommandRecord.objects.bulk_create(
        CommandRecord(
            kind=("order.cancel", "order.create")[n % 2],
            title="Cancel the order",
            subject_type="order",
            subject_id=str(n),
            payload={},
            form_id=uid("form", n),
            idempotency_key=uid("key", n),
            requested_by=people[0],
            requested_at=NOW - timedelta(days=n % 30),
            state=("done", "refused", "undecided")[n % 3],
        )
        for n in range(ROWS)
    )
    SyncRun.objects.bulk_create(
        SyncRun(
            resource=("labs", "orders")[n % 2],
            full=n % 3 == 0,
            state=("done", "failed")[n % 2],
            created_at=NOW - timedelta(hours=n % 30),
        )
        for n in range(ROWS)
    )
    Drift.objects.bulk_create(
        Drift(
            resource=("labs", "orders")[n % 2],
            key=str(n),
            kind=("stale", "schema")[n % 2],
            found_at=NOW - timedelta(hours=n % 30),
        )
        for n in range(ROWS)
    )
    UnreadRecord.objects.bulk_create(
        UnreadRecord(
            resource=("labs", "orders")[n % 2],
            key=str(n),
            record="{}",
            last_seen=NOW - timedelta(hours=n % 30),
        )
        for n in range(ROWS)
    )


@pytest.fixture
def reader(client: Client) -> Client:
    sign_in_recently_authenticated(client, staff("administrator"))
    return client


def open_list(client: Client, list_page: ListPage, **parameters: str | int) -> Any:
    """Return the response to a list, after the redirect that encrypts personal text."""
    return client.get(list_page.url(), parameters, follow=True)


def keys(answer: Any) -> list[Any]:
    assert answer.status_code == 200, answer.content.decode()[-2000:]
    return [row.pk for row in answer.context["page"].rows]


@every_list
def test_list_requires_its_permissions(client: Client, list_page: ListPage) -> None:
    assert client.get(list_page.url()).status_code == 302, "nobody is signed in"
    needed = frozenset(list_page.needs)
    assert needed <= PERMISSIONS.keys()
    for role, granted in ROLES.items():
        sign_in_recently_authenticated(client, staff(role, f"reader {role}"))
        expected = 200 if needed <= frozenset(granted) else 403
        assert client.get(list_page.url()).status_code == expected, role


@pytest.mark.parametrize(
    ("list_page", "sort", "direction"), SORTS, ids=lambda each: getattr(each, "name", each)
)
def test_paging_shows_every_row_once_in_order(
    reader: Client, rows: None, list_page: ListPage, sort: str, direction: str
) -> None:
    query: dict[str, str | int] = {"order_key": sort, "order_direction": direction, "size": SIZE}
    answer = open_list(reader, list_page, **query)
    pages = [keys(answer)]
    filters = answer.context["filters"]
    assert filters.sort[0] == sort or not filters.can_sort_by(sort), "it sorts by something else"
    keyset = filters.keyset()  # a tab may have other sorts than this one
    # Every visit adds an entry to the audit trail: more pages follow, but not endlessly.
    while (after := answer.context["page"].next) and len(pages) < 6:
        answer = open_list(reader, list_page, **query, after=after)
        pages.append(keys(answer))
        before = open_list(reader, list_page, **query, before=answer.context["page"].previous)
        assert keys(before) == pages[-2], "the page before is the same from behind"
    found = [key for page in pages for key in page]
    assert len(found) == len(set(found)) >= ROWS // 2
    by_key = list_page.visible_rows(None).in_bulk(found)
    sorted_values = [tuple(getattr(by_key[key], name) for name in keyset.columns) for key in found]
    assert sorted_values == sorted(sorted_values, reverse=keyset.descending)
    assert len({values[0] for values in sorted_values}) > 1, "`rows` has only one value"


def test_every_sort_of_exceptions_belongs_to_a_group() -> None:
    assert {key for group in EXCEPTION_GROUPS.values() for key in group.sorts} == queue.SORTS.keys()


@every_list
def test_every_column_has_header_and_cell(reader: Client, rows: None, list_page: ListPage) -> None:
    columns = [column.key for column in list_page.columns]
    reader.post(list_page.url("columns"), {"column": columns, "keep": "1", "here": ""})
    page = open_list(reader, list_page, size=SIZE).content.decode()
    table = page[page.index("<table>") : page.index("</table>")]
    assert table.count('<th scope="col"') == len(columns) + bool(list_page.bulk_actions)
    body = table[table.index("<tbody") :]
    assert body.count("<tr") == SIZE
    for column in list_page.columns[1:]:
        assert body.count(f'data-label="{column.label}"') == SIZE, column.key
    assert body.count('<th scope="row" class="lead') == SIZE


@every_list
def test_queries_do_not_grow_with_rows(reader: Client, rows: None, list_page: ListPage) -> None:
    """A column that `visible_rows` does not read takes a query for each row."""
    columns = [column.key for column in list_page.columns]
    reader.post(list_page.url("columns"), {"column": columns, "keep": "1", "here": ""})
    numbers = []
    for size in (SIZE, SIZE, 2 * SIZE):  # The first page of a session stores its form token.
        with CaptureQueriesContext(connection) as queries:
            open_list(reader, list_page, size=size)
        numbers.append(len(queries))
    assert numbers[1] == numbers[2], queries.captured_queries[-1]["sql"]


@every_list
def test_download_has_a_header_for_every_cell(
    reader: Client, rows: None, list_page: ListPage
) -> None:
    answer = reader.post(list_page.url("export"), {"query": "", "everything": "1"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    lines = list(csv.reader(io.StringIO(text)))
    shown = [column for column in list_page.columns if column.shown]
    assert len(lines[0]) == sum(len(column.cells) for column in shown)
    assert len(lines) > ROWS and {len(line) for line in lines} == {len(lines[0])}


@every_list
def test_saved_view_opens_with_its_sort(reader: Client, rows: None, list_page: ListPage) -> None:
    sort = list(list_page.filter_set.form_class().SORTS)[:2][-1]
    query = f"order_key={sort}&order_direction=desc"
    reader.post(list_page.url("views"), {"name": "Mine", "query": query, "opens_for": ""})
    view = SavedView.objects.get(listing=list_page.name)
    answer = reader.get(list_page.url("view", view.pk), follow=True)
    screen = answer.context["list"]
    assert (screen.view, screen.sort, screen.direction) == (view, sort, "desc")


@every_list
def test_unknown_filter_is_named_and_bad_one_refused(
    reader: Client, rows: None, list_page: ListPage
) -> None:
    page = open_list(reader, list_page, moonphase="full").content.decode()
    assert "This list has no filter called “moonphase”" in page
    answer = open_list(reader, list_page, order_key="nonsense")
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "This list cannot be sorted by that column." in page and ">Clear</a>" in page


@pytest.mark.parametrize(("list_page", "name"), PLAIN_FILTERS)
def test_filter_shows_the_rows_with_its_value(
    reader: Client, rows: None, list_page: ListPage, name: str
) -> None:
    """In the tab that opens."""
    column = str(list_page.filter_set.base_filters[name].field_name)
    everything = open_list(reader, list_page, size=100).context["page"].rows
    values = Counter(value for row in everything if (value := getattr(row, column)) is not None)
    assert values, f"`rows` gives this list no value of {column}"
    value = values.most_common()[-1][0]
    found = open_list(reader, list_page, size=100, **{name: value}).context["page"].rows
    assert {getattr(row, column) for row in found} == {value}
    expected = {row.pk for row in everything if getattr(row, column) == value}
    assert expected <= {row.pk for row in found} or len(found) == 100


class LeaveOrMark(BulkAction):
    name = "mark"
    label = "Mark"
    needs = ()

    def apply(self, request: HttpRequest, row: BulkRow, given: Any) -> None:
        if row.key == given["left"]:
            raise RowNotDone("It is not of this kind.")

    def parameters(self, form: CommandForm) -> dict[str, Any]:
        return {"left": form.data["left"]}


@every_list
def test_bulk_action_works_on_rows_of_any_list(rows: None, list_page: ListPage) -> None:
    """Whatever the primary key of its rows, or of a page with related values."""
    bulk_list = type("BulkList", (type(list_page),), {"bulk_actions": (LeaveOrMark(),)})()
    request = HttpRequest()
    request.user = staff("administrator")
    some = bulk_list.visible_rows(request.user)
    chosen = [str(row.pk) for row in some[:5]]
    request.POST = QueryDict(urlencode({"query": "", "key": chosen}, doseq=True))
    _, selected = selected_rows(request, bulk_list)
    assert {str(row.pk) for row in selected} == set(chosen)
    form = CommandForm({"form_id": str(uuid.uuid4()), "left": chosen[2]})
    assert form.is_valid()
    run = bulk.start_run(request, bulk_list, LeaveOrMark(), selected, form, query={})
    assert run is not None and run.total == 5
    while bulk.process_runs([bulk_list]):
        pass
    states = dict(BulkRow.objects.filter(run=run.pk).values_list("key", "state"))
    assert states == {key: "failed" if key == chosen[2] else "done" for key in chosen}
    assert bulk_list.labels_and_urls(chosen, request.user).keys() == set(chosen)
    failed = BulkRow.objects.filter(run=run.pk, state="failed")
    assert [str(row.pk) for row in bulk.rows_with_keys(some, failed)] == [chosen[2]]


@pytest.mark.parametrize("group", EXCEPTION_GROUPS)
def test_bulk_action_works_on_every_group_of_exceptions(rows: None, group: str) -> None:
    """Whose rows may be reviews or snoozed exceptions."""
    exceptions = type("BulkExceptions", (ExceptionList,), {"bulk_actions": (LeaveOrMark(),)})()
    request = HttpRequest()
    request.user = staff("administrator")
    request.POST = QueryDict(f"query=group%3D{group}&everything=1")
    Handling.objects.create(
        order_id=uid("order", ROWS),
        event_id=10**9,
        outcome="put-off",
        until=NOW + timedelta(days=900),
        by=request.user,
        at=NOW,
    )
    filters, selected = selected_rows(request, exceptions)
    assert filters is not None
    form = CommandForm({"form_id": str(uuid.uuid4()), "left": ""})
    assert form.is_valid()
    run = bulk.start_run(request, exceptions, LeaveOrMark(), selected, form, query={})
    assert (run.total if run else 0) == filters.qs.count()
    assert run or group not in ("put-off", "lost")


@pytest.mark.parametrize(
    ("list_page", "action"),
    [(each, action) for each in all_lists() for action in each.bulk_actions],
    ids=lambda each: each.name,
)
def test_bulk_action_begins_on_ticked_rows(
    reader: Client, rows: None, list_page: ListPage, action: BulkAction
) -> None:
    page = open_list(reader, list_page, size=SIZE)
    assert f'name="verb" value="{action.name}"' in page.content.decode()
    boxes = re.findall(r'name="key" value="([^"]*)"', page.content.decode())
    assert boxes == [str(key) for key in keys(page)]
    ticked = keys(page)[:2]
    if action.needs_confirmation:
        answer = begin_bulk_action(reader, list_page, action.name, ticked)
        assert answer.status_code == 200 and answer.context["total"] == 2
    else:
        run = run_bulk_action(reader, list_page, action.name, ticked)
        assert run == BulkRun.objects.get() and run.total == run.done == 2


@every_list
def test_page_has_search_box_of_top_bar_and_keyboard_rows(
    reader: Client, rows: None, list_page: ListPage
) -> None:
    page = open_list(reader, list_page).content.decode()
    assert page.count("data-find") == 1
    assert page.index("data-find") < page.index("<main") < page.index("data-rows")


@pytest.mark.parametrize(
    "list_page",
    [EVENT_LIST, ORDER_LIST, PATIENT_LIST, REPORT_LIST, COMMAND_LIST, RUN_LIST],
    ids=lambda each: each.name,
)
def test_list_without_rows_says_what_comes(reader: Client, list_page: ListPage) -> None:
    page = open_list(reader, list_page).content.decode()
    assert f"No {list_page.nouns[1]} yet" in page and "<table>" not in page
