"""Orders, their status history, and the transactions that group them (orders.md 3, 4, 8.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from django.contrib.postgres.indexes import BrinIndex, OpClass
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.lookups import GreaterThan

from backoffice.core import vocabulary
from backoffice.core.identifiers import IdentifierKey, same_identifier
from backoffice.models import Mirrored, Read
from backoffice.pages.paging.keys import EVERYBODY, unguessed
from orders.models.name import OrderName, OrderNameWord
from patients.models import id_range_for_prefix, mirrored_patient
from patients.names import birth_date, words

LIST_COLUMNS: Final = (
    "id",
    "user_id",
    "created_at",
    "updated_at",
    "last_event_at",
    "quiet_at",
    "low_level_status",
    "status_detail",
    "bucket",
    "method",
    "priority",
    "origin",
    "activate_by",
    "sample_id",
    "lab_test_name",
    "interpretation",
    "patient_first_name",
    "patient_last_name",
    "patient_name",
    "patient_dob",
    "missing_since",
)

CANCELED: Final = frozenset({"cancelled", "do_not_process"})
"""Statuses of orders that were canceled, by whomever."""

TROUBLE: Final[dict[str, tuple[str, ...]]] = {
    "lost": ("lost", "sample_error"),
    "stuck": ("lab_processing_blocked",),
    "delivery": (
        "problem_in_transit_customer",
        "problem_in_transit_lab",
        "failure_to_deliver_to_customer",
        "failure_to_deliver_to_lab",
    ),
    "draw": ("redraw_available", "appointment_cancelled"),
}
"""Statuses that need a person, by what is done about them."""

OTHER_TROUBLE: Final = Q(bucket=vocabulary.NEEDS_ACTION) & ~Q(
    low_level_status__in=tuple(status for each in TROUBLE.values() for status in each)
)
"""Orders that need a person because people decided so of their status (`orders.status_groups`)."""

CAN_GO_QUIET: Final = (
    vocabulary.PREPARING,
    vocabulary.WITH_PATIENT,
    vocabulary.ON_THE_WAY,
    vocabulary.AT_LAB,
)
"""Buckets of orders that are on their way to a result."""


TO_BOOK: Final = ("requisition_bypassed", "requisition_created")
"""Statuses of an order whose paperwork is there, and whose draw may be booked."""


ALONG: Final = (
    *("bucket", "low_level_status", "method", "interpretation", "lab_slug"),
    *("names", "quiet_at", "activate_by"),
)
"""What lists are filtered by, behind the key of each index a list is sorted by.

A list is walked along the index of its sort until a page is full. Where few rows there pass the
filter, or none for a long way (open orders, oldest first), that was a visit to the table for every
row: seconds at a million orders. With these columns in the index, rows are passed over inside it,
and the table is visited only for those that are shown. That serves every filter with every sort,
where an index per pair would take thirty. Statistics over the same columns together
(`order_kinds`) tell the planner what goes with what. Where it is shorter to find all that match
than to walk, the same columns find and sort them inside one index (`orders.order_list.query_plan`).
"""


BY_NAME: Final = ("patient_name",)
"""Beside what few are found by, who are then sorted by name: thousands of names would be read from
as many pages of the table."""


def _walked(name: str, *key: str, **options: Any) -> models.Index:
    """An index for a sort, with the columns of the filters `ALONG`."""
    bare = [column.removeprefix("-") for column in key]
    moments = [column for column in ("created_at", "updated_at") if column not in bare]
    along = [column for column in ALONG if column not in bare]
    return models.Index(fields=[*key, *moments, *along], name=name, **options)


class Transaction(Mirrored):
    """Orders that belong together: an initial order with its redraws and recreations."""

    id = models.UUIDField(primary_key=True)
    status = models.TextField()


class OrderQuerySet(models.QuerySet["Order"]):
    """Reads of orders; each condition is answered by an index of `Order`."""

    def listed(self) -> Self:
        """With the columns a row of a list shows."""
        return self.only(*LIST_COLUMNS)

    def filtered(self, given: Mapping[str, Any], sort: str) -> Self:
        """Orders by the parameters of `GET /v3/orders` (orders.md 4), as `OrderFilters` read them,
        all but words; `sort` is what they will be sorted by."""
        plain: dict[str, Any] = {
            "bucket": given["bucket"],
            "low_level_status__in": given["status"],
            "method__in": given["order_type"],
            "interpretation": given["interpretation"],
            "user_id": given["user_id"],
            "pk__in": given["order_ids"],
            "order_transaction_id": given["order_transaction_id"],
        }
        rows = self.filter(**{name: value for name, value in plain.items() if value})
        rows = rows.created(given["start_date"], given["end_date"], sort)
        # Results that are not normal stand in an index by when they were ordered.
        found_by = "created_at" if given["interpretation"] not in ("", "normal") else sort
        rows = rows.updated(
            given["updated_start_date"], given["updated_end_date"], found_by, given["start_date"]
        )
        if never_usual(*until_and_since(given)):
            rows = rows.filter(STILL_UPDATED)
        if given["is_critical"] == "true":
            rows = rows.filter(interpretation="critical")
        elif given["is_critical"] == "false":
            rows = rows.filter(~Q(interpretation="critical") | Q(interpretation=None))
        return rows.activated(given["order_activation_types"])

    def created(self, first: datetime | None, last: datetime | None, sort: str) -> Self:
        """Ordered in a time. Nothing is updated before it is ordered: a list sorted by its updates
        begins, or ends, there too. Only then this is said: the planner takes the two moments for
        independent, and would expect thirty times too few orders of a month."""
        rows = self.filter(created_at__gte=first) if first else self
        if first and sort == "updated_at":
            rows = rows.filter(updated_at__gte=_earlier(first, _CLOCKS))
        return rows.filter(created_at__lte=last) if last else rows

    def updated(
        self,
        first: datetime | None,
        last: datetime | None,
        sort: str,
        ordered_since: datetime | None,
    ) -> Self:
        """Updated in a time: the same the other way round. Of what was `ordered_since` nearly all
        was updated since, and the planner is not to make fewer of them of that."""
        rows = self
        if first:
            since = Q(updated_at__gte=first)
            implied = ordered_since is not None and ordered_since >= first
            rows = rows.filter(unguessed(since) if implied else since)
        if last and sort == "created_at":
            rows = rows.filter(created_at__lte=_later(last, _CLOCKS))
        return rows.filter(updated_at__lte=last) if last else rows

    def activated(self, types: Sequence[str]) -> Self:
        """`current`: no date or a past one; `scheduled`: a date to come (orders.md 2.10)."""
        if not types:
            return self
        today = datetime.now(UTC).date()
        wanted = Q(pk__in=[])
        if "current" in types:
            wanted |= Q(activate_by=None) | Q(activate_by__lte=today)
        if "scheduled" in types:
            wanted |= Q(activate_by__gt=today)
        return self.filter(wanted)

    def worded(self, given: Mapping[str, Any], *, by_name: bool) -> Self:
        """Those of them that fit the words that were typed."""
        rows, typed = self.numbered(given, by_name=by_name)
        return rows.called(typed) if typed else rows

    def numbered(self, given: Mapping[str, Any], *, by_name: bool) -> tuple[Self, dict[str, str]]:
        """Those of them that fit what was typed as far as it is no name, and what of it is: words
        by column, as `called` takes them.

        `search_input` is the beginning of an order id or user id, a name, a recipient, a birth date
        in any spelling (specification: whole ids, ISO dates) or a sample id; without `by_name` it
        matches ids, never people. Where it may be a name as well as a number it is a union:
        alternatives in one condition would be tried on every order.
        """
        typed = {column: given[name] for name, column in WORDED.items() if given[name]}
        rows, text = self, given["search_input"].strip()
        named, numbered = _readings(text, by_name=by_name) if text else (False, Q())
        if named and numbered:
            everything = Order.objects.order_by()
            both = everything.named(text).values("pk"), everything.filter(numbered).values("pk")
            rows = rows.filter(pk__in=both[0].union(both[1], all=True))
        elif named:
            typed["names"] = text
        elif text:
            rows = rows.filter(numbered)
        return rows, typed

    def with_sample_id(self, *texts: str) -> Self:
        """Orders that have one of these sample IDs, in any spelling."""
        return self.filter(same_identifier("sample_id", *texts))

    def named(self, text: str) -> Self:
        """Orders whose patient or recipient is called so: beginnings of words, in any order."""
        return self.called({"names": text})

    def called(self, typed: Mapping[str, str], *, along: bool = False) -> Self:
        """Orders of those who are called so (`OrderNameWord.called`). `along`: they are told from
        others one after the other, as they are walked."""
        fit = Q(names__in=OrderNameWord.called(typed).values("names")[:EVERYBODY])
        return self.filter(unguessed(fit) if along else fit)


def _readings(text: str, *, by_name: bool) -> tuple[bool, Q]:
    """Whether it may be a name, and what else it may be."""
    born, ids = birth_date(text), id_range_for_prefix(text)
    named = by_name and not born and bool(words(text))
    numbered = Q()
    if not named or any(mark.isdigit() for mark in text):
        numbered |= same_identifier("sample_id", text)
    if ids and not born:
        numbered |= Q(pk__range=ids) | Q(user__gte=ids[0], user__lte=ids[1])
    if by_name and born:
        numbered |= Q(patient_dob=born)
    return named, numbered


WORDED: Final = {"patient_name": "patient_name", "shipping_recipient_name": "recipient_name"}
"""Parameters that take words, and the columns that these begin words of."""


USUALLY_DONE: Final = timedelta(days=30)
"""Most orders are updated for the last time within this time of being placed."""
STILL_UPDATED: Final = Q(GreaterThan(F("updated_at") - F("created_at"), Value(USUALLY_DONE)))
"""The others. They have an index of their own."""


def until_and_since(given: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The last moment at which they were ordered, and the first one at which they were updated."""
    until = given["end_date"] or (given.get("ordered") or (None, None))[1]
    since = given["updated_start_date"] or (given.get("changed") or (None, None))[0]
    return until, since


def usually(ordered_until: datetime | None, updated_since: datetime | None) -> Q | None:
    """What most orders that were ordered until, or updated since, these moments fulfil as well: a
    list sorted by the other moment begins, or ends, there. None: nothing.

    Those that do not are `STILL_UPDATED`.
    """
    if ordered_until is None and updated_since is None:
        return None
    near = Q()
    if ordered_until is not None:
        near &= Q(updated_at__lte=_later(ordered_until, USUALLY_DONE))
    if updated_since is not None:
        near &= Q(created_at__gte=_earlier(updated_since, USUALLY_DONE))
    return near


def never_usual(ordered_until: datetime | None, updated_since: datetime | None) -> bool:
    """Whether whatever was ordered until, and updated since, is `STILL_UPDATED`."""
    if ordered_until is None or updated_since is None:
        return False
    return updated_since - ordered_until > USUALLY_DONE


_CLOCKS: Final = timedelta(days=1)
"""How far the moments of one order may be out of order: clocks differ."""


def _earlier(moment: datetime, by: timedelta) -> datetime:
    return moment - min(by, moment - _FIRST)


def _later(moment: datetime, by: timedelta) -> datetime:
    return moment + min(by, _LAST - moment)


_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 30, tzinfo=UTC)


class Order(Mirrored):
    """One order. `status` and `low_level_status` are parts of the latest event's dotted status."""

    id = models.UUIDField(primary_key=True)
    team_id = models.UUIDField()
    user = mirrored_patient("orders")
    order_transaction = models.ForeignKey(
        Transaction,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        null=True,
        related_name="orders",
    )
    parent_id = models.UUIDField(null=True, help_text="The order this one redraws or recreates")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    last_event_id = models.BigIntegerField(default=0)
    last_event_at = models.DateTimeField(null=True)
    quiet_at = models.DateTimeField(
        null=True, help_text="When it is over its usual time (`orders.turnaround`); null: never"
    )
    last_status = models.TextField(default="", help_text="Dotted, as received")
    status = models.TextField(default="")
    low_level_status = models.TextField(default="")
    status_detail = models.TextField(null=True)
    bucket = models.TextField(help_text="Working bucket, from `vocabulary.order_bucket`")
    method = models.TextField(default="")
    origin = models.TextField(null=True)
    priority = models.BooleanField(default=False)
    activate_by = models.DateField(null=True)
    sample_id = models.TextField(null=True)
    lab_test_id = models.UUIDField(null=True)
    lab_test_name = models.TextField(default="")
    lab_slug = models.TextField(null=True)
    billing_type = models.TextField(null=True)
    interpretation = models.TextField(
        null=True, help_text="The worse of the two below; a trigger sets it where there is a result"
    )
    service_interpretation = models.TextField(
        null=True, help_text="Our reading of the order's word"
    )
    result_interpretation = models.TextField(null=True, help_text="That of its result")
    interpretation_received = models.TextField(
        null=True, help_text="The order's word, where it is not the reading"
    )
    has_missing_results = models.BooleanField(null=True)
    has_abn = models.BooleanField(null=True)
    expected_result_by_date = models.DateField(null=True)
    worst_case_result_by_date = models.DateField(null=True)
    passthrough = models.TextField(null=True)
    patient_first_name = models.TextField(default="")
    patient_last_name = models.TextField(default="")
    patient_name = models.TextField(default="", help_text="First and last name, folded")
    patient_dob = models.DateField(null=True)
    patient_gender = models.TextField(default="")
    patient_phone = models.TextField(
        default="", db_default="", help_text="The patient's, or else of the address in their name"
    )
    patient_email = models.TextField(default="", db_default="")
    recipient_name = models.TextField(default="", help_text="Shipping recipient, folded")
    names = models.ForeignKey(
        OrderName,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        editable=False,
        related_name="orders",
        help_text="Both of them; a trigger sets it",
    )

    # Where `order_with_move` reads them: of its last move to another patient, and its transaction.
    last_move: int | None = None
    moved_from: UUID | None = None
    moved_name: str | None = None
    moved_at: datetime | None = None
    move_waits: bool | None = None
    transaction_status: str | None = None

    objects = OrderQuerySet.as_manager()

    class Meta:
        indexes = [
            _walked("order_newest", "-created_at", "-id", include=BY_NAME),
            _walked("order_last_updated", "-updated_at", "-id", include=BY_NAME),
            _walked("order_by_patient_name", "patient_name", "id"),
            _walked("order_by_status", "low_level_status", "created_at", "id", include=BY_NAME),
            _walked("order_by_bucket", "bucket", "-updated_at", "-id"),
            # Reader: the API's filter by the first part of the status.
            models.Index(fields=["status", "id"], name="order_by_stage"),
            _walked("order_by_method", "method", "-created_at", "-id"),
            # Readers: the patient's page; the search box, which asks of many patients what is open.
            models.Index(
                fields=["user", "-created_at"], include=["id", "bucket"], name="order_of_patient"
            ),
            models.Index(fields=["patient_dob"], name="order_patient_dob"),
            BrinIndex(fields=["as_of"], name="order_as_of"),
            # Readers: the groups of the exception queue (`orders.exceptions.queue`). What tells
            # whether an order waits stands beside, for the counts.
            *(
                models.Index(
                    fields=["quiet_at", "id"],
                    condition=Q(low_level_status__in=statuses),
                    include=["last_event_id", "missing_since"],
                    name=f"exception_{name}",
                )
                for name, statuses in TROUBLE.items()
            ),
            models.Index(
                fields=["quiet_at", "id"],
                condition=OTHER_TROUBLE,
                include=["last_event_id", "missing_since"],
                name="exception_other",
            ),
            # And of lists of what is over its usual time, sorted by it or not; of one lab, too.
            _walked(
                "exception_quiet",
                "quiet_at",
                "id",
                condition=Q(quiet_at__isnull=False),
                include=["last_event_id", "missing_since"],
            ),
            _walked("order_quiet_of_lab", "lab_slug", "id", condition=Q(quiet_at__isnull=False)),
            # Readers: imports, by a sample ID in any spelling; the search box, by its beginning.
            models.Index(
                OpClass(IdentifierKey("sample_id"), name="text_pattern_ops"),
                condition=Q(sample_id__isnull=False),
                name="order_sample",
            ),
            # Reader: appointments to book. Statuses in which nothing but a draw is missing.
            models.Index(
                fields=["method", "created_at", "id"],
                condition=Q(low_level_status__in=TO_BOOK),
                include=["missing_since"],
                name="order_to_book",
            ),
            # Readers: the filters `interpretation` and `is_critical`. Most results are normal.
            _walked(
                "order_rare_interpretation",
                "interpretation",
                "-created_at",
                "-id",
                condition=Q(interpretation__isnull=False) & ~Q(interpretation="normal"),
                include=BY_NAME,
            ),
            # Reader: `orders.results.ranking`, orders with a word that was ranked.
            models.Index(
                fields=["interpretation_received"],
                condition=Q(interpretation_received__isnull=False),
                name="order_odd_interpretation",
            ),
            models.Index(
                fields=["activate_by"],
                condition=Q(activate_by__isnull=False),
                name="order_scheduled",
            ),
            _walked("order_of_name", "names", "id"),
            # Reader: lists of what was ordered until, or updated since, a moment.
            _walked("order_still_updated", "created_at", "id", condition=STILL_UPDATED),
        ]

    def quiet_since(self, now: datetime) -> datetime | None:
        """When its usual time was over, if it is. What needs a person anyway does not go quiet."""
        is_over = self.quiet_at is not None and self.quiet_at <= now
        return self.quiet_at if is_over and self.bucket in CAN_GO_QUIET else None

    def was_canceled(self) -> bool:
        """Whether it was canceled: it stays so, even where the event of its visit is later."""
        if self.low_level_status in CANCELED:
            return True
        return OrderEvent.objects.filter(order_id=self.pk, low_level_status__in=CANCELED).exists()


class OrderEvent(Read):
    """One step of an order's history. Rows are added, never changed."""

    pk = models.CompositePrimaryKey("order_id", "event_id")
    order = models.ForeignKey(
        Order,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    event_id = models.BigIntegerField(help_text="The service's id of the event")
    created_at = models.DateTimeField()
    status = models.TextField(help_text="Dotted, as received")
    low_level_status = models.TextField()
    status_detail = models.TextField(null=True)
