"""The filters of the list of staff."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import or_
from typing import ClassVar, Final

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy, gettext_noop
from django_filters import CharFilter, ChoiceFilter

from backoffice.accounts.access import ROLE_LABELS, ROLES
from backoffice.accounts.models import User
from backoffice.accounts.staff_queries import has_role, has_second_factor
from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.filters import ChoicesFilter, ListFilterSet
from backoffice.pages.lists.forms import FilterForm, FilterGroup

NO_ROLE: Final = "none"
NEVER: Final = "never"
DORMANT_DAYS: Final = 90
SEARCHED_FIELDS: Final = ("username", "first_name", "last_name", "email")


class StaffListForm(FilterForm):
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
        FilterGroup(gettext_noop("Role"), ("role",), always_shown=True),
        FilterGroup(gettext_noop("Account"), ("active",), always_shown=True),
        FilterGroup(gettext_noop("Second factor"), ("second_factor",), always_shown=True),
        FilterGroup(gettext_noop("Last sign-in"), ("signed_in",), always_shown=True),
    )


class StaffFilterSet(ListFilterSet):
    q = CharFilter(max_length=100, label=gettext_lazy("Search"), method="filter_words")
    role = ChoicesFilter(
        "groups",
        label=gettext_lazy("Role"),
        choices=[
            *((role, gettext_lazy(label)) for role, label in ROLE_LABELS.items()),
            (NO_ROLE, gettext_lazy("No role")),
        ],
        method="filter_roles",
    )
    active = ChoiceFilter(
        "is_active",
        label=gettext_lazy("Account"),
        empty_label=gettext_lazy("Any"),
        choices=[("true", gettext_lazy("Active")), ("false", gettext_lazy("Inactive"))],
        method="filter_active",
    )
    second_factor = ChoiceFilter(
        label=gettext_lazy("Second factor"),
        empty_label=gettext_lazy("Any"),
        choices=[("true", gettext_lazy("Set up")), ("false", gettext_lazy("Not set up"))],
        method="filter_second_factor",
    )
    signed_in = ChoiceFilter(
        "last_login",
        label=gettext_lazy("Last sign-in"),
        empty_label=gettext_lazy("Any time"),
        choices=[
            (NEVER, gettext_lazy("Never")),
            ("dormant", gettext_lazy("Not in the last 90 days")),
        ],
        method="filter_last_sign_in",
    )

    class Meta:
        form = StaffListForm

    def filter_queryset(self, queryset: QuerySet[User]) -> QuerySet[User]:
        """Return the people who match. With a sort by sign-in, only those who have signed in."""
        people = super().filter_queryset(queryset)
        is_sorted_by_sign_in = self.form.is_valid() and self.form.sort[0] == "last_login"
        return people.filter(last_login__isnull=False) if is_sorted_by_sign_in else people

    def filter_words(self, people: QuerySet[User], name: str, text: str) -> QuerySet[User]:
        for word in text.split():
            matches = (Q(**{f"{field}__icontains": word}) for field in SEARCHED_FIELDS)
            people = people.filter(reduce(or_, matches))
        return people

    def filter_roles(self, people: QuerySet[User], name: str, roles: list[str]) -> QuerySet[User]:
        condition = has_role([role for role in roles if role != NO_ROLE])
        return people.filter(condition | ~has_role(ROLES) if NO_ROLE in roles else condition)

    def filter_active(self, people: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        return people.filter(is_active=value == "true")

    def filter_second_factor(self, people: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        return people.filter(has_second_factor() if value == "true" else ~has_second_factor())

    def filter_last_sign_in(self, people: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        if value == NEVER:
            return people.filter(last_login=None)
        return people.filter(last_login__lt=timezone.now() - timedelta(days=DORMANT_DAYS))
