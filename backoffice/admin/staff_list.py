"""The list of members of staff: who has which roles, signs in, and has a second factor."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from backoffice.accounts.access import ROLES
from backoffice.accounts.models import User
from backoffice.accounts.staff_changes import TOPIC, roles_of_account
from backoffice.accounts.staff_queries import has_role, has_second_factor, with_second_factor
from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.forms import Filter, FilterForm
from backoffice.pages.paging.pages import Page, PagePosition

NO_ROLE: Final = "none"
NEVER: Final = "never"
DORMANT_DAYS: Final = 90
SEARCHED: Final = ("username", "first_name", "last_name", "email")
SIGN_IN_NOTICE: Final = (
    "Sorted by last sign-in, here and in a download: people who have never signed in are not"
    " listed."
)


class StaffFilters(FilterForm):
    """The search box, and filters by role, account, second factor and last sign-in."""

    q = forms.CharField(required=False, max_length=100, label="Search")
    role = forms.MultipleChoiceField(
        required=False,
        label="Role",
        choices=[*((role, role.capitalize()) for role in ROLES), (NO_ROLE, "No role")],
        widget=forms.CheckboxSelectMultiple,
    )
    active = forms.ChoiceField(
        required=False,
        label="Account",
        choices=[("", "Either"), ("true", "Active"), ("false", "Closed")],
    )
    second_factor = forms.ChoiceField(
        required=False,
        label="Second factor",
        choices=[("", "Either"), ("true", "Set up"), ("false", "Not set up")],
    )
    signed_in = forms.ChoiceField(
        required=False,
        label="Last sign-in",
        choices=[
            ("", "Any time"),
            (NEVER, "Never"),
            ("dormant", f"Not in the last {DORMANT_DAYS} days"),
        ],
    )

    SORTS: ClassVar = {
        "name": ("last_name", "first_name", "id"),
        "username": ("username", "id"),
        "last_login": ("last_login", "id"),
        "date_joined": ("date_joined", "id"),
    }
    DESCENDING_FIRST = frozenset({"last_login", "date_joined"})
    PRIVATE_SORTS = frozenset({"name", "username"})
    WORDS = PersonalParameters("staff", frozenset({"q"}))
    FILTERS: ClassVar = (
        Filter("Role", ("role",), always_shown=True),
        Filter("Account", ("active",), always_shown=True),
        Filter("Second factor", ("second_factor",), always_shown=True),
        Filter("Last sign-in", ("signed_in",), always_shown=True),
    )

    def apply(self, rows: QuerySet[User]) -> QuerySet[User]:
        filters = self.cleaned_data
        for word in filters["q"].split():
            is_match = Q()
            for column in SEARCHED:
                is_match |= Q(**{f"{column}__icontains": word})
            rows = rows.filter(is_match)
        if filters["role"]:
            condition = has_role([role for role in filters["role"] if role != NO_ROLE])
            rows = rows.filter(
                condition | ~has_role(ROLES) if NO_ROLE in filters["role"] else condition
            )
        if filters["active"]:
            rows = rows.filter(is_active=filters["active"] == "true")
        if filters["second_factor"]:
            is_set_up = has_second_factor()
            rows = rows.filter(is_set_up if filters["second_factor"] == "true" else ~is_set_up)
        if filters["signed_in"] == NEVER:
            rows = rows.filter(last_login=None)
        elif filters["signed_in"]:
            rows = rows.filter(last_login__lt=timezone.now() - timedelta(days=DORMANT_DAYS))
        return rows


COLUMNS: Final = (
    Column(
        "name",
        "Name",
        (ExportCell("Name", lambda row: row.get_full_name()),),
        sort="name",
        macro="name",
    ),
    Column(
        "username",
        "Username",
        (ExportCell("Username", lambda row: row.username),),
        sort="username",
        macro="username",
    ),
    Column(
        "email",
        "Email",
        (ExportCell("Email", lambda row: row.email),),
        macro="email",
        cell_css="wrap",
    ),
    Column(
        "roles",
        "Roles",
        (ExportCell("Roles", lambda row: ", ".join(row.role_names)),),
        macro="roles",
    ),
    Column(
        "second_factor",
        "Second factor",
        (ExportCell("Second factor", lambda row: row.has_second_factor),),
        macro="second_factor",
    ),
    Column(
        "last_login",
        "Last sign-in",
        (ExportCell("Last sign-in", lambda row: row.last_login, is_timestamp=True),),
        sort="last_login",
        macro="last_login",
        cell_css="nowrap",
    ),
    Column(
        "active",
        "Account",
        (ExportCell("Active", lambda row: row.is_active),),
        macro="active",
    ),
    Column(
        "date_joined",
        "Created",
        (ExportCell("Created", lambda row: row.date_joined, is_timestamp=True),),
        sort="date_joined",
        shown=False,
        macro="date_joined",
        cell_css="nowrap",
    ),
    Column(
        "time_zone",
        "Time zone",
        (ExportCell("Time zone", lambda row: row.time_zone),),
        shown=False,
        macro="time_zone",
    ),
)


class StaffList(ListPage):
    """A clinic has some hundred accounts, so no index serves the sorts."""

    name = "staff"
    title = "Staff"
    template = "administration/staff_list.html"
    subject = TOPIC
    nouns = ("person", "people")
    needs = ("staff.change",)
    columns = COLUMNS
    row_macros = "administration/staff_rows.html"
    words = StaffFilters.WORDS
    presets: ClassVar = (
        Preset(NEVER, "Never signed in", {"active": ["true"], "signed_in": [NEVER]}),
        Preset("factor", "No second factor", {"active": ["true"], "second_factor": ["false"]}),
        Preset("role", "No role", {"active": ["true"], "role": [NO_ROLE]}),
    )

    def form(self, data: QueryDict, user: Any) -> StaffFilters:
        return StaffFilters(data)

    def visible_rows(self, user: Any) -> QuerySet[User]:
        return with_second_factor(User.objects.prefetch_related("groups"))

    def rows(self, form: Any, user: Any) -> QuerySet[User]:
        rows: QuerySet[User] = form.apply(self.visible_rows(user))
        return with_sort_value(rows, form)

    def page(
        self, rows: QuerySet[User], form: FilterForm, size: int, place: PagePosition
    ) -> Page[User]:
        return super().page(with_sort_value(rows, form), form, size, place)

    def with_related(self, rows: list[User], user: Any) -> list[User]:
        for row in rows:
            row.role_names = roles_of_account(row)  # type: ignore[attr-defined]
        return rows

    def notices(self, form: FilterForm) -> list[str]:
        return [SIGN_IN_NOTICE] if form.sort[0] == "last_login" else []

    def patient_id_of(self, row: User) -> None:
        return None


def with_sort_value(rows: QuerySet[User], form: FilterForm) -> QuerySet[User]:
    """Return the accounts that have a value in the sorted column."""
    return rows.filter(last_login__isnull=False) if form.sort[0] == "last_login" else rows


STAFF_LIST: Final = StaffList()
