"""The list of members of staff: who has which roles, signs in, and has a second factor."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import SERVICE_ACCOUNT, role_label
from backoffice.accounts.models import User
from backoffice.accounts.staff_changes import TOPIC, roles_of_account
from backoffice.accounts.staff_queries import has_role, with_second_factor
from backoffice.admin.staff_filters import NEVER, NO_ROLE, StaffFilterSet
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet

SIGN_IN_NOTICE: Final = gettext_noop(
    "Sorted by last sign-in. People who have never signed in are not listed, here or in downloads."
)

COLUMNS: Final = (
    Column(
        "name",
        gettext_noop("Name"),
        (ExportCell(gettext_noop("Name"), lambda row: row.get_full_name()),),
        sort="name",
    ),
    Column(
        "username",
        gettext_noop("Username"),
        (ExportCell(gettext_noop("Username"), lambda row: row.username),),
        sort="username",
    ),
    Column(
        "email",
        gettext_noop("Email"),
        (ExportCell(gettext_noop("Email"), lambda row: row.email),),
        cell_css="wrap",
    ),
    Column(
        "roles",
        gettext_noop("Roles"),
        (ExportCell(gettext_noop("Roles"), lambda row: ", ".join(row.role_names)),),
    ),
    Column(
        "second_factor",
        gettext_noop("Second factor"),
        (ExportCell(gettext_noop("Second factor"), lambda row: row.has_second_factor),),
    ),
    Column(
        "last_login",
        gettext_noop("Last sign-in"),
        (ExportCell(gettext_noop("Last sign-in"), lambda row: row.last_login, is_timestamp=True),),
        sort="last_login",
        cell_css="nowrap",
    ),
    Column(
        "active",
        gettext_noop("Account"),
        (ExportCell(gettext_noop("Active"), lambda row: row.is_active),),
    ),
    Column(
        "date_joined",
        gettext_noop("Created"),
        (ExportCell(gettext_noop("Created"), lambda row: row.date_joined, is_timestamp=True),),
        sort="date_joined",
        shown=False,
        cell_css="nowrap",
    ),
    Column(
        "time_zone",
        gettext_noop("Time zone"),
        (ExportCell(gettext_noop("Time zone"), lambda row: row.time_zone),),
        shown=False,
    ),
)


class StaffList(ListPage):
    """A clinic has some hundred accounts, so no index serves the sorts."""

    name = "staff"
    title = gettext_noop("Staff")
    template = "administration/staff_list.html"
    subject = TOPIC
    nouns = (gettext_noop("person"), gettext_noop("people"))
    needs = ("staff.change",)
    needs_recent_authentication = True
    columns = COLUMNS
    row_macros = "administration/staff_rows.html"
    filter_set = StaffFilterSet
    presets: ClassVar = (
        Preset(NEVER, gettext_noop("Never signed in"), {"active": ["true"], "signed_in": [NEVER]}),
        Preset(
            "factor",
            gettext_noop("No second factor"),
            {"active": ["true"], "second_factor": ["false"]},
        ),
        Preset("role", gettext_noop("No role"), {"active": ["true"], "role": [NO_ROLE]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[User]:
        people = User.objects.exclude(has_role([SERVICE_ACCOUNT]))
        return with_second_factor(people.prefetch_related("groups"))

    def with_related(self, rows: list[User], user: Any) -> list[User]:
        for row in rows:
            row.role_names = list(map(role_label, roles_of_account(row)))  # type: ignore[attr-defined]
        return rows

    def notices(self, filters: ListFilterSet) -> list[str]:
        return [gettext(SIGN_IN_NOTICE)] if filters.form.sort[0] == "last_login" else []


STAFF_LIST: Final = StaffList()
