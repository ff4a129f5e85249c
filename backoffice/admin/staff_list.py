"""The list of members of staff: who has which roles, signs in, and has a second factor."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.db.models import QuerySet

from backoffice.accounts.access import SERVICE_ACCOUNT
from backoffice.accounts.models import User
from backoffice.accounts.staff_changes import TOPIC, roles_of_account
from backoffice.accounts.staff_queries import has_role, with_second_factor
from backoffice.admin.staff_filters import NEVER, NO_ROLE, StaffFilterSet
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet

SIGN_IN_NOTICE: Final = (
    "Sorted by last sign-in, here and in a download: people who have never signed in are not"
    " listed."
)

COLUMNS: Final = (
    Column(
        "name",
        "Name",
        (ExportCell("Name", lambda row: row.get_full_name()),),
        sort="name",
    ),
    Column(
        "username",
        "Username",
        (ExportCell("Username", lambda row: row.username),),
        sort="username",
    ),
    Column(
        "email",
        "Email",
        (ExportCell("Email", lambda row: row.email),),
        cell_css="wrap",
    ),
    Column(
        "roles",
        "Roles",
        (ExportCell("Roles", lambda row: ", ".join(row.role_names)),),
    ),
    Column(
        "second_factor",
        "Second factor",
        (ExportCell("Second factor", lambda row: row.has_second_factor),),
    ),
    Column(
        "last_login",
        "Last sign-in",
        (ExportCell("Last sign-in", lambda row: row.last_login, is_timestamp=True),),
        sort="last_login",
        cell_css="nowrap",
    ),
    Column(
        "active",
        "Account",
        (ExportCell("Active", lambda row: row.is_active),),
    ),
    Column(
        "date_joined",
        "Created",
        (ExportCell("Created", lambda row: row.date_joined, is_timestamp=True),),
        sort="date_joined",
        shown=False,
        cell_css="nowrap",
    ),
    Column(
        "time_zone",
        "Time zone",
        (ExportCell("Time zone", lambda row: row.time_zone),),
        shown=False,
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
    needs_recent_authentication = True
    columns = COLUMNS
    row_macros = "administration/staff_rows.html"
    filter_set = StaffFilterSet
    presets: ClassVar = (
        Preset(NEVER, "Never signed in", {"active": ["true"], "signed_in": [NEVER]}),
        Preset("factor", "No second factor", {"active": ["true"], "second_factor": ["false"]}),
        Preset("role", "No role", {"active": ["true"], "role": [NO_ROLE]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[User]:
        people = User.objects.exclude(has_role([SERVICE_ACCOUNT]))
        return with_second_factor(people.prefetch_related("groups"))

    def with_related(self, rows: list[User], user: Any) -> list[User]:
        for row in rows:
            row.role_names = roles_of_account(row)  # type: ignore[attr-defined]
        return rows

    def notices(self, filters: ListFilterSet) -> list[str]:
        return [SIGN_IN_NOTICE] if filters.form.sort[0] == "last_login" else []


STAFF_LIST: Final = StaffList()
