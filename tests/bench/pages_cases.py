"""The URLs that are measured: lists with filters, filter combinations and deep pages, and single
pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Model, QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.pages.paging.pages import Sort, _encode_cursor
from orders.exceptions.queue import EXCEPTION_GROUPS
from orders.models import Order
from orders.models.name import name_condition
from orders.models.order import CAN_GO_QUIET
from orders.order_list.filters import SORTS as ORDER_SORTS
from patients.filters import PatientListForm
from patients.models import Demographics, Patient
from patients.search_text import required_prefixes
from tests.bench import combinations


@dataclass(frozen=True)
class Case:
    """One URL. The slowest and the median of a `group` are compared with the goals."""

    group: str
    name: str
    path: str
    posted: dict[str, str] = field(default_factory=dict)
    """The form that is posted. If empty, the URL is opened with GET."""
    is_combination: bool = False
    """One of many filter combinations: measured fewer times."""
    empty_path: str = ""
    """The same page without data, in an empty database."""

    def __post_init__(self) -> None:
        if not self.empty_path:
            object.__setattr__(self, "empty_path", self.path.partition("?")[0])


@dataclass(frozen=True)
class Samples:
    """Objects of a data set that URLs name. Each data set has its own."""

    order: Order
    patient: Demographics

    @classmethod
    def from_database(cls) -> Samples:
        """Return a patient with about ten orders, and one of these orders that has reached its
        lab."""
        patient_id = _read_value(
            "SELECT user_id FROM orders_order WHERE sample_id IS NOT NULL"
            " GROUP BY user_id ORDER BY abs(count(*) - 10), user_id LIMIT 1"
        )
        order = Order.objects.filter(user_id=patient_id).exclude(sample_id=None).order_by("pk")[0]
        return cls(order, Demographics.objects.get(pk=patient_id))


def _read_value(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def cases(samples: Samples, user: User | None = None) -> Iterator[Case]:
    """Yield everything that can be measured with the URLs that exist.

    With a user, also yield the filter combinations that this user may use.
    """
    yield from _orders(samples)
    yield from _patients(samples)
    yield from _appointments()
    yield from _single(samples)
    if user is not None:
        yield from _combinations(samples, user)


def _orders(samples: Samples) -> Iterator[Case]:
    path = reverse("orders:list")
    yield Case("orders", "unfiltered", path)
    for key in ORDER_SORTS:
        for direction in ("asc", "desc"):
            sorting = {"order_key": key, "order_direction": direction}
            orders = Order.objects.all()
            if key == "quiet_at":  # Only overdue orders have such a time; see OrderListForm.sort.
                sorting["quiet"] = "true"
                orders = orders.filter(bucket__in=CAN_GO_QUIET, quiet_at__lte=timezone.now())
            yield Case("orders, sorted", f"{key} {direction}", f"{path}?{urlencode(sorting)}")
            sort = Sort(ORDER_SORTS[key], direction == "desc", key == "patient_name")
            for position, cursor in deep_cursors(orders, sort):
                yield Case(
                    "orders, deep",
                    f"{key} {direction}, {position}",
                    f"{path}?{urlencode({**sorting, 'after': cursor})}",
                )
    for key in ("created_at", "patient_name"):
        parameters = {"patient_name": "a", "order_key": key, "order_direction": "desc"}
        named = Order.objects.filter(name_condition({"patient_name": required_prefixes("a")}))
        sort = Sort(ORDER_SORTS[key], descending=True, private=key == "patient_name")
        for position, cursor in deep_cursors(named, sort):
            address = _address(path, {**parameters, "after": cursor})
            yield Case("orders, deep", f"name a, {key} desc, {position}", address)
    filters = order_filters(samples)
    for name, parameters in filters.items():
        yield Case("orders, one filter", name, _address(path, parameters))


def _combinations(samples: Samples, user: User) -> Iterator[Case]:
    path, values = reverse("orders:list"), text_values(samples)
    for group, group_combinations in (
        ("orders, every value", combinations.singles(user, values)),
        ("orders, every pair", combinations.pairs(user, values)),
    ):
        for combination in group_combinations:
            yield Case(
                group, combination.name, _address(path, combination.parameters), is_combination=True
            )


def text_values(samples: Samples) -> dict[str, list[str]]:
    """Return values for the filters without choices."""
    order, person = samples.order, samples.patient
    day, year = _newest()
    return {
        "search_input": [
            "a",
            "xu",
            f"{person.first_name} {person.last_name[:3]}",
            str(person.dob),
            order.sample_id or "",
            str(order.pk)[:8],
        ],
        "patient_name": ["a", person.name_key, f"{person.first_name[:2]} {person.last_name[:3]}"],
        "shipping_recipient_name": ["a", person.last_name[:4]],
        "start_date": [day, f"{year}-03-02"],
        "end_date": [day, f"{year}-03-08", f"{year - 1}-06-30"],
        "updated_start_date": [day, f"{year}-03-02"],
        "updated_end_date": [f"{year}-01-31", day],
        "user_id": [str(order.user_id)],
        "order_ids": [str(order.pk)],
        "order_transaction_id": [str(order.order_transaction_id)],
    }


def _newest() -> tuple[str, int]:
    """Return the day of the newest order, and the year before it."""
    newest = Order.objects.order_by("-created_at").values_list("created_at", flat=True)[0]
    return newest.date().isoformat(), newest.year - 1


def order_filters(samples: Samples) -> dict[str, dict[str, Any]]:
    """Return every filter of the list, with a frequent and a rare value where that matters."""
    order, person = samples.order, samples.patient
    day, year = _newest()
    return {
        "bucket result-in": {"bucket": "result-in"},
        "bucket needs-action": {"bucket": "needs-action"},
        "status completed": {"status": "completed"},
        "status lost": {"status": "lost"},
        "statuses": {"status": ["sample_error", "redraw_available", "delivered_to_lab"]},
        "method testkit": {"order_type": "testkit"},
        "method on site": {"order_type": "on_site_collection"},
        "interpretation normal": {"interpretation": "normal"},
        "interpretation critical": {"interpretation": "critical"},
        "interpretation abnormal": {"interpretation": "abnormal"},
        "critical": {"is_critical": "true"},
        "not critical": {"is_critical": "false"},
        "scheduled": {"order_activation_types": "scheduled"},
        "current": {"order_activation_types": "current"},
        "from today": {"start_date": day},
        "until a year ago": {"end_date": f"{year}-06-30"},
        "a week, long ago": {"start_date": f"{year}-03-02", "end_date": f"{year}-03-08"},
        "updated today": {"updated_start_date": day},
        "lab": {"lab": order.lab_slug},
        "over usual time": {"quiet": "true"},
        "mine": {"assigned": "me"},
        "nobody's": {"assigned": "nobody"},
        "updated before": {"updated_end_date": f"{year}-01-31"},
        "name a": {"patient_name": "a"},
        "name whole": {"patient_name": person.name_key},
        "name begun": {"patient_name": f"{person.first_name[:2]} {person.last_name[:3]}"},
        "parcel": {"shipping_recipient_name": person.last_name[:4]},
        "search name": {"search_input": f"{person.first_name} {person.last_name[:3]}"},
        "search a": {"search_input": "a"},
        "search born": {"search_input": str(person.dob)},
        "search sample": {"search_input": order.sample_id},
        "search id": {"search_input": str(order.pk)[:8]},
        "patient": {"user_id": str(order.user_id)},
        "transaction": {"order_transaction_id": str(order.order_transaction_id)},
        "order ids": {"order_ids": str(order.pk)},
    }


def _patients(samples: Samples) -> Iterator[Case]:
    path, sorts = reverse("patients:list"), PatientListForm.SORTS
    yield Case("patients", "unfiltered", path)
    yield Case("patients", "by name", f"{path}?order_key=name")
    newest, by_name = Sort(sorts["created_on"], True), Sort(sorts["name"], private=True)
    for position, cursor in deep_cursors(Patient.objects.all(), newest):
        yield Case("patients, deep", position, f"{path}?after={cursor}")
    for position, cursor in deep_cursors(Patient.objects.all(), by_name):
        yield Case(
            "patients, deep", f"by name, {position}", f"{path}?order_key=name&after={cursor}"
        )
    born = Sort(sorts["born"], private=True)
    for position, cursor in deep_cursors(Patient.objects.filter(dob__isnull=False), born):
        yield Case("patients, deep", f"by age, {position}", f"{path}?order_key=born&after={cursor}")
    for name, text in search_terms(samples).items():
        yield Case("patients, search", name, _address(path, {"q": text}))
        for sort in ("name", "born"):
            given = {"q": text, "order_key": sort}
            yield Case("patients, search", f"{name}, by {sort}", _address(path, given))
    order_searches = {
        "sample id": samples.order.sample_id or "",
        "order id": str(samples.order.pk)[:8],
        "tracking number": _read_value(
            "SELECT outbound_tracking_number FROM orders_order"
            " WHERE outbound_tracking_number IS NOT NULL LIMIT 1"
        ),
    }
    for name, text in {**search_terms(samples), **order_searches}.items():
        if len(text) > 1:
            yield Case("search", name, reverse("find:suggestions"), {"q": text})


def search_terms(samples: Samples) -> dict[str, str]:
    person = samples.patient
    return {
        "one letter": "a",
        "two letters": "sa",
        "first name": person.first_name,
        "whole name": f"{person.first_name} {person.last_name}",
        "beginnings": f"{person.first_name[:3]} {person.last_name[:3]}",
        "phone": person.phone_number[-7:],
        "phone end": person.phone_number[-4:],
        "email": person.email,
        "born": str(person.dob),
        "patient id": str(person.pk)[:8],
        "client id": "client-7",
        "nobody": "Zzyzx Nobody",
    }


def _appointments() -> Iterator[Case]:
    list_path = _path_or_empty("appointments:list")
    if not list_path:
        return
    for tab in ("today", "upcoming", "requested", "past"):
        yield Case("appointments", tab, f"{list_path}?show={tab}")
    for name, given in {
        "type": {"show": "past", "type": "phlebotomy"},
        "status": {"show": "past", "status": "cancelled"},
        "city": {"show": "upcoming", "city": "Boise"},
        "state, past": {"show": "past", "state": "AK"},
    }.items():
        yield Case("appointments", name, _address(list_path, given))


SINGLE_PAGES: Final = {
    "today": ("today:page", "today:hand-over"),
    "results queue": ("reviewing:queue",),
    "exceptions": ("exceptions:list",),
    "appointments, otherwise": ("appointments:week", "appointments:sites", "appointments:sheet"),
    "labs": ("labs:list",),
}


def _single(samples: Samples) -> Iterator[Case]:
    order_page = reverse("orders:detail", args=[samples.order.pk])
    yield Case("order page", "order", order_page, empty_path=reverse("orders:list"))
    patient_page = reverse("patients:detail", args=[samples.patient.pk])
    yield Case("patient page", "patient", patient_page, empty_path=reverse("patients:list"))
    for group in EXCEPTION_GROUPS:
        yield Case("exceptions", group, f"{reverse('exceptions:list')}?group={group}")
    for name, routes in SINGLE_PAGES.items():
        for route in routes:
            path = _path_or_empty(route)
            if path:
                yield Case(name, route, path)


def _path_or_empty(route: str) -> str:
    """Return the path of a page, or an empty string if no page has that name."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return ""


def _address(path: str, given: dict[str, Any]) -> str:
    return f"{path}?{urlencode(given, doseq=True)}"


def deep_cursors(rows: QuerySet[Any], sort: Sort) -> list[tuple[str, str]]:
    """Return cursors to the middle of a list and to its last page."""
    up = [name if not sort.descending else f"-{name}" for name in sort.columns]
    down = [f"-{name}" if not sort.descending else name for name in sort.columns]
    count = rows.count()
    middle, last = _row(rows, up, count // 2), _row(rows, down, min(30, count // 3))
    return [("middle", _encode_cursor(middle, sort)), ("last page", _encode_cursor(last, sort))]


def cursor_of_page(rows: QuerySet[Any], sort: Sort, number: int, size: int) -> str:
    """Return the cursor to page `number` of a list. Page 1 has none."""
    order = [f"-{name}" if sort.descending else name for name in sort.columns]
    return _encode_cursor(_row(rows, order, (number - 1) * size - 1), sort)


def _row(rows: QuerySet[Any], order: Sequence[str], position: int) -> Model:
    row: Model = rows.order_by(*order)[position]
    return row
