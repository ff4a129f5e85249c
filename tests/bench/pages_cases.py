"""The addresses that are measured: lists with filters, their combinations and depth; pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Model, QuerySet
from django.urls import NoReverseMatch, reverse

from backoffice.accounts.models import User
from backoffice.pages.paging.pages import Sort, _encode_cursor
from orders.exceptions.queue import EXCEPTION_GROUPS
from orders.forms import SORTS as ORDER_SORTS
from orders.forms import OrderFilters
from orders.models import Order
from orders.order_list.definition import ORDER_LIST
from patients.forms import PatientFilters
from patients.models import Demographics, Patient
from tests.bench import combinations


@dataclass(frozen=True)
class Case:
    """One address. Worst and middle of a `group` are what is judged."""

    group: str
    name: str
    path: str
    posted: dict[str, str] = field(default_factory=dict)
    """Form that is sent; empty: the address is only opened."""
    seldom: bool = False
    """One of many: asked fewer times, and compared with the small world alone."""


@dataclass(frozen=True)
class Samples:
    """Things of a world that addresses name, found in it: each world has its own."""

    order: Order
    patient: Demographics

    @classmethod
    def found(cls) -> Samples:
        """A patient with about ten orders, and an order of theirs that has come to its lab."""
        busy = _one(
            "SELECT user_id FROM orders_order WHERE sample_id IS NOT NULL"
            " GROUP BY user_id ORDER BY abs(count(*) - 10), user_id LIMIT 1"
        )
        order = Order.objects.filter(user_id=busy).exclude(sample_id=None).order_by("pk")[0]
        return cls(order, Demographics.objects.get(pk=busy))


def _one(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def cases(samples: Samples, user: User | None = None) -> Iterator[Case]:
    """All that can be measured with what is in the URLconf; with a user, the combinations of
    filters that they may use."""
    yield from _orders(samples)
    yield from _patients(samples)
    yield from _appointments()
    yield from _single(samples)
    if user is not None:
        yield from _combined(samples, user)


def _orders(samples: Samples) -> Iterator[Case]:
    path = reverse("orders:list")
    yield Case("orders", "unfiltered", path)
    for key in ORDER_SORTS:
        for direction in ("asc", "desc"):
            asked = {"order_key": key, "order_direction": direction}
            yield Case("orders, sorted", f"{key} {direction}", f"{path}?{urlencode(asked)}")
            sort = Sort(ORDER_SORTS[key], direction == "desc", key == "patient_name")
            for place, cursor in depths(Order.objects.all(), sort):
                yield Case(
                    "orders, deep",
                    f"{key} {direction}, {place}",
                    f"{path}?{urlencode({**asked, 'after': cursor})}",
                )
    for key in ("created_at", "patient_name"):
        given = {"patient_name": "a", "order_key": key, "order_direction": "desc"}
        form = OrderFilters(given, by_name=True, sees_results=True)
        assert form.is_valid()
        for place, cursor in depths(ORDER_LIST.rows(form, None), form.keyset()):
            address = _address(path, {**given, "after": cursor})
            yield Case("orders, deep", f"name a, {key} desc, {place}", address)
    filters = order_filters(samples)
    for name, given in filters.items():
        yield Case("orders, one filter", name, _address(path, given))


def _combined(samples: Samples, user: User) -> Iterator[Case]:
    path, given = reverse("orders:list"), written(samples)
    for group, some in (
        ("orders, every value", combinations.singles(user, given)),
        ("orders, every pair", combinations.pairs(user, given)),
    ):
        for one in some:
            yield Case(group, one.name, _address(path, one.given), seldom=True)


def written(samples: Samples) -> dict[str, list[str]]:
    """Values for the filters that have no choices."""
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
    """The day of the newest order, and the year before it."""
    newest = Order.objects.order_by("-created_at").values_list("created_at", flat=True)[0]
    return newest.date().isoformat(), newest.year - 1


def order_filters(samples: Samples) -> dict[str, dict[str, Any]]:
    """Every filter of the list, where it matters with a frequent and with a rare value."""
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
    path, sorts = reverse("patients:list"), PatientFilters.SORTS
    yield Case("patients", "unfiltered", path)
    yield Case("patients", "by name", f"{path}?order_key=name")
    newest, by_name = Sort(sorts["created_on"], True), Sort(sorts["name"], private=True)
    for place, cursor in depths(Patient.objects.all(), newest):
        yield Case("patients, deep", place, f"{path}?after={cursor}")
    for place, cursor in depths(Patient.objects.all(), by_name):
        yield Case("patients, deep", f"by name, {place}", f"{path}?order_key=name&after={cursor}")
    born = Sort(sorts["born"], private=True)
    for place, cursor in depths(Patient.objects.filter(dob__isnull=False), born):
        yield Case("patients, deep", f"by age, {place}", f"{path}?order_key=born&after={cursor}")
    for name, words in searches(samples).items():
        yield Case("patients, search", name, _address(path, {"q": words}))
        for sort in ("name", "born"):
            given = {"q": words, "order_key": sort}
            yield Case("patients, search", f"{name}, by {sort}", _address(path, given))
    found = {"sample id": samples.order.sample_id or "", "order id": str(samples.order.pk)[:8]}
    for name, words in {**searches(samples), **found}.items():
        if len(words) > 1:
            yield Case("search", name, reverse("find:suggestions"), {"q": words})


def searches(samples: Samples) -> dict[str, str]:
    person = samples.patient
    return {
        "one letter": "a",
        "two letters": "sa",
        "first name": person.first_name,
        "whole name": f"{person.first_name} {person.last_name}",
        "beginnings": f"{person.first_name[:3]} {person.last_name[:3]}",
        "phone": person.phone_number[-7:],
        "phone end": person.phone_number[-4:],
        "e-mail": person.email,
        "born": str(person.dob),
        "patient id": str(person.pk)[:8],
        "client id": "client-7",
        "nobody": "Zzyzx Nobody",
    }


def _appointments() -> Iterator[Case]:
    path = _known("appointments:list")
    if not path:
        return
    for tab in ("today", "upcoming", "requested", "past"):
        yield Case("appointments", tab, f"{path}?show={tab}")
    for name, given in {
        "type": {"show": "past", "type": "phlebotomy"},
        "status": {"show": "past", "status": "cancelled"},
        "city": {"show": "upcoming", "city": "Boise"},
        "state, past": {"show": "past", "state": "AK"},
    }.items():
        yield Case("appointments", name, _address(path, given))


SINGLE: Final = {
    "today": ("today:page", "today:hand-over"),
    "results queue": ("reviewing:queue",),
    "exceptions": ("exceptions:queue",),
    "appointments, otherwise": ("appointments:week", "appointments:sites", "appointments:sheet"),
    "labs": ("labs:list",),
}


def _single(samples: Samples) -> Iterator[Case]:
    yield Case("order page", "order", reverse("orders:detail", args=[samples.order.pk]))
    yield Case("patient page", "patient", reverse("patients:detail", args=[samples.patient.pk]))
    for group in EXCEPTION_GROUPS:
        yield Case("exceptions", group, reverse("exceptions:group", args=[group]))
    for name, routes in SINGLE.items():
        for route in routes:
            path = _known(route)
            if path:
                yield Case(name, route, path)


def _known(route: str) -> str:
    """Address of a page, empty while there is none of that name."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return ""


def _address(path: str, given: dict[str, Any]) -> str:
    return f"{path}?{urlencode(given, doseq=True)}"


def depths(rows: QuerySet[Any], sort: Sort) -> list[tuple[str, str]]:
    """Cursors that lead to the middle of a list, and to its last page."""
    up = [name if not sort.descending else f"-{name}" for name in sort.columns]
    down = [f"-{name}" if not sort.descending else name for name in sort.columns]
    count = rows.count()
    middle, last = _row(rows, up, count // 2), _row(rows, down, min(30, count // 3))
    return [("middle", _encode_cursor(middle, sort)), ("last page", _encode_cursor(last, sort))]


def _row(rows: QuerySet[Any], order: Sequence[str], place: int) -> Model:
    found: Model = rows.order_by(*order)[place]
    return found
