"""The filters of the order list: the parameters of `GET /v3/orders`, and filters of this product.

The filters for parameters of the service have the names of the parameters.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q, TextField, UUIDField
from django.db.models.functions import Cast

from backoffice.accounts.models import User
from backoffice.core import prepared_queries, vocabulary
from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    OpenVocabularyField,
    TimestampField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from backoffice.team.models import Assignment

SORTS: Final[dict[str, tuple[str, ...]]] = {
    "created_at": ("created_at", "id"),
    "updated_at": ("updated_at", "id"),
    "patient_name": ("patient_name", "id"),
    "last_status": ("low_level_status", "created_at", "id"),
    "quiet_at": ("quiet_at", "id"),
}
FALLING: Final = frozenset({"created_at", "updated_at"})
"""Sort keys whose first click shows the newest first."""

WORD_BEGINNINGS: Final = "Beginnings of words, in any order."
"""Help text. The service matches any part of a name; here an index finds beginnings of words."""

YES_NO: Final = (("", "Either"), ("true", "Yes"), ("false", "No"))

ME: Final = "me"
NOBODY: Final = "nobody"


class UuidsField(forms.Field):
    """Several ids: as a repeated parameter, or in one box, separated by spaces or commas."""

    widget = forms.TextInput

    def clean(self, value: object) -> list[UUID]:
        parts = str(value or "").replace(",", " ").split()
        try:
            return [UUID(item) for item in parts]
        except ValueError as error:
            raise ValidationError("Type whole order ids.") from error


class RepeatedText(forms.TextInput):
    """A text box that joins the values of a repeated parameter, the service's form of a list."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        values: Iterable[str] = data.getlist(name) if hasattr(data, "getlist") else [data.get(name)]
        return " ".join(value for value in values if value)


_CHOICES_SQL: Final = """
SELECT ARRAY(
 SELECT ARRAY[id::text, coalesce(nullif(trim(first_name || ' ' || last_name), ''), username)]
 FROM accounts_user
 WHERE is_active AND NOT EXISTS (SELECT FROM api_apitoken WHERE user_id = accounts_user.id)
 ORDER BY first_name, last_name, username LIMIT 200
), ARRAY(SELECT ARRAY[slug, name] FROM labs_lab WHERE missing_since IS NULL ORDER BY name)
"""


def assignees_and_labs() -> dict[str, list[tuple[str, str]]]:
    """Return the choices of assignees and labs, by one query."""
    with prepared_queries.cursor() as cursor:
        cursor.execute(_CHOICES_SQL)
        people, labs = cursor.fetchone()
    return {
        "assigned": [(ME, "Me"), (NOBODY, "Nobody"), *map(tuple, people)],
        "lab": list(map(tuple, labs)),
    }


def _choices(
    name: str, read: Callable[[], dict[str, list[tuple[str, str]]]]
) -> list[tuple[str, str]]:
    return read()[name]


class AssignedField(DeferredChoiceField):
    def valid_value(self, value: object) -> bool:
        text = str(value)
        return text in (ME, NOBODY) or (text.isascii() and text.isdigit() and len(text) < 10)


def assigned_to(people: list[str], user: Any) -> Q:
    """Return the condition for orders assigned to these people, to `me`, or to nobody."""
    assignments = Assignment.objects.filter(subject_type="order")
    keys = [int(one) for one in people if one.isdigit()]
    if ME in people and user is not None:
        keys.append(user.pk)
    wanted = Q(pk__in=[])
    if keys:
        assigned = assignments.filter(user_id__in=keys).annotate(
            key=Cast("subject_id", UUIDField())
        )
        wanted |= Q(pk__in=assigned.values("key"))
    if NOBODY in people:
        # Orders of an inactive assignee count as assigned to nobody.
        active = assignments.filter(user__is_active=True)
        wanted |= ~Q(Exists(active.filter(subject_id=Cast(OuterRef("pk"), TextField()))))
    return wanted


class OrderFilters(FilterForm):
    """All parameters of `GET /v3/orders` except the page; also bucket, lab, assignee, overdue."""

    bucket = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    search_input = forms.CharField(required=False, max_length=100, label="Search")
    status = OpenVocabularyField("order.low_level_status", label="Status")
    order_type = OpenVocabularyField("order.method", label="Method")
    interpretation = forms.ChoiceField(
        required=False,
        label="Interpretation",
        choices=[("", "Any"), *vocabulary.choices("order.interpretation")],
    )
    is_critical = forms.ChoiceField(required=False, label="Critical", choices=YES_NO)
    order_activation_types = OpenVocabularyField("order.activation_type", label="Activation")
    ordered = DaysField("ordered", label="Ordered")
    start_date = TimestampField(label="Ordered from")
    end_date = TimestampField(label="Ordered until", end_of_day=True, help_text="The whole day.")
    changed = DaysField("changed", label="Changed")
    updated_start_date = TimestampField(label="Changed from")
    updated_end_date = TimestampField(label="Changed before", help_text="The start of that day.")
    assigned = AssignedField(
        required=False, label="Assigned to", widget=forms.CheckboxSelectMultiple
    )
    lab = DeferredChoiceField(required=False, label="Lab", widget=forms.CheckboxSelectMultiple)
    quiet = forms.ChoiceField(required=False, label="Over its usual time", choices=YES_NO)
    patient_name = forms.CharField(
        required=False, max_length=100, label="Patient name", help_text=WORD_BEGINNINGS
    )
    shipping_recipient_name = forms.CharField(
        required=False, max_length=100, label="Name on the parcel", help_text=WORD_BEGINNINGS
    )
    user_id = UuidField(label="Patient ID")
    order_ids = UuidsField(required=False, label="Order ids", widget=RepeatedText)
    order_transaction_id = UuidField(label="Transaction ID")

    SORTS = SORTS
    DESCENDING_FIRST = FALLING
    PRIVATE_SORTS = frozenset({"patient_name"})
    WORDS = PersonalParameters(
        "orders", frozenset({"search_input", "patient_name", "shipping_recipient_name"})
    )
    TAB_FIELDS = frozenset({"bucket"})
    FILTERS: ClassVar = (
        Filter("Status", ("status",), always_shown=True),
        Filter("Method", ("order_type",), always_shown=True),
        Filter(
            "Date",
            ("ordered", "start_date", "end_date", "changed", "updated_start_date",
             "updated_end_date"),
            always_shown=True,
            shows_zone=True,
        ),
        Filter("Assigned to", ("assigned",), always_shown=True),
        Filter("Usual time", ("quiet",)),
        Filter("Result", ("interpretation", "is_critical")),
        Filter("Lab", ("lab",)),
        Filter("Dispatch", ("order_activation_types",)),
        Filter("Name", ("patient_name", "shipping_recipient_name")),
        Filter("Ids", ("user_id", "order_ids", "order_transaction_id")),
    )  # fmt: skip

    def __init__(
        self,
        data: Any = None,
        *,
        by_name: bool,
        sees_results: bool,
        user: User | AnonymousUser | None = None,
    ) -> None:
        super().__init__(data, by_name=by_name)
        self.user = user
        read = cache(assignees_and_labs)
        for name in ("assigned", "lab"):
            field = self.fields[name]
            assert isinstance(field, DeferredChoiceField)
            field.offer(partial(_choices, name, read))
        if not by_name:
            names = ("patient_name", "shipping_recipient_name")
            self.hidden |= dict.fromkeys(names, "who a patient is")
        if not sees_results:
            self.hidden |= dict.fromkeys(("interpretation", "is_critical"), "results")

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "start_date", "end_date")
        check_day_order(self, "updated_start_date", "updated_end_date")

    def clean_status(self) -> list[str]:
        return [
            vocabulary.canonical("order.low_level_status", value)
            for value in self.cleaned_data["status"]
        ]

    @property
    def sort(self) -> tuple[str, str]:
        """Return the sort key and direction.

        A sort by the time of becoming overdue needs the filter for overdue orders: other orders
        have no such time.
        """
        key, direction = super().sort
        if key == "quiet_at" and self.cleaned_data.get("quiet") != "true":
            return "created_at", "desc"
        return key, direction

    def can_sort_by(self, key: str) -> bool:
        return super().can_sort_by(key) and (
            key != "quiet_at" or self.cleaned_data.get("quiet") == "true"
        )
