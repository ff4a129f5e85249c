"""Members of staff: their accounts, their roles, and closing accounts.

Nobody is deleted, because audit entries refer to them. Nobody removes the administrator role from
themselves, so there is always an administrator. Of two who remove it from each other at once, the
second one waits and is refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from allauth.mfa.models import Authenticator
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms.boundfield import BoundWidget
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts import (
    emails,
    first_passwords,
    role_summary,
    single_sign_on,
    staff_changes,
)
from backoffice.accounts.access import (
    ADMINISTRATOR,
    PERMISSIONS,
    ROLES,
    SERVICE_ACCOUNT,
    role_label,
)
from backoffice.accounts.models import User
from backoffice.accounts.passwords import other_sessions
from backoffice.accounts.recent_authentication import require_recent_authentication
from backoffice.accounts.staff_queries import has_role, with_second_factor
from backoffice.admin import groups
from backoffice.admin.lists import BaseAdmin, display
from backoffice.admin.site import site
from backoffice.audit.recording import record_action, record_change
from backoffice.pages.paging.pages import Sort
from backoffice.pages.preferences import PreferencesForm
from backoffice.team.template_functions import staff_name

OWN_ADMINISTRATION: Final = gettext_noop(
    "You can’t remove your own administrator role. Ask another administrator."
)
OWN_ACCOUNT: Final = gettext_noop(
    "You can’t deactivate your own account. Ask another administrator."
)
WITHOUT_ROLE: Final = gettext_noop("%(name)s has no role and can’t open any page. Choose a role.")
NO_LONGER_ADMINISTRATOR: Final = gettext_noop(
    "You are no longer an administrator: another administrator just removed the role."
)
PASSWORD_SHOWN: Final = gettext_noop(
    "Use this if the password was forgotten or someone else knows it. You’ll see a temporary "
    "password, and the person is signed out everywhere."
)
PASSWORD_MAILED: Final = gettext_noop(
    "Use this if the password was forgotten or someone else knows it. The person gets an email "
    "with a link to set a new one."
)
NOT_UNIQUE: Final = gettext_noop("Another account already has this %(field)s. Use a different one.")


class StaffForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    """The form of an account. `actor` is the administrator who fills it in."""

    actor: ClassVar[User]
    field_order = (
        *("first_name", "last_name", "email", "username"),
        *("roles", "time_zone", "is_active", "anew"),
    )

    roles = forms.MultipleChoiceField(
        label=gettext_lazy("Roles"), required=False, widget=forms.CheckboxSelectMultiple
    )
    anew = forms.BooleanField(label=gettext_lazy("Reset password"), required=False)

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "username", "time_zone", "is_active")
        labels = {
            "username": gettext_lazy("Username"),
            "email": gettext_lazy("Email"),
            "time_zone": gettext_lazy("Time zone"),
            "is_active": gettext_lazy("Active"),
        }
        help_texts = {
            "username": "",
            "time_zone": gettext_lazy("For example America/New_York"),
            "is_active": gettext_lazy(
                "Uncheck to deactivate the account: nobody can sign in with it, and open sessions "
                "end right away. Its past activity stays on record."
            ),
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        roles = set(staff_changes.roles_of_account(self.instance)) if self.instance.pk else set()
        self.is_service = SERVICE_ACCOUNT in roles
        for name in ("first_name", "last_name", "email"):
            self.fields[name].required = not self.is_service
        field = self.fields["roles"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [
            (role, role_label(role)) for role in ROLES if role != SERVICE_ACCOUNT or self.is_service
        ]
        self.initial["roles"] = sorted(roles)
        if self.instance._state.adding or self.is_service:
            del self.fields["anew"]
        else:
            self.fields["anew"].help_text = gettext(
                PASSWORD_MAILED if settings.EMAIL_URL else PASSWORD_SHOWN
            )

    @property
    def boxes(self) -> list[tuple[BoundWidget, str, list[str]]]:
        """Return the checkbox of each role, the summary of the role, and its permissions."""
        granted = [(box, ROLES[box.data["value"]]) for box in self["roles"]]
        return [
            (
                box,
                role_summary.summarize(names),
                [gettext(PERMISSIONS[name]) for name in PERMISSIONS if name in names],
            )
            for box, names in granted
        ]

    @property
    def warning(self) -> str:
        """Return the warning about the stored account, or ""."""
        account = self.instance
        if not account.pk or not account.is_active or staff_changes.roles_of_account(account):
            return ""
        return _no_role_warning(account)

    def clean_email(self) -> str:
        return self._unique_value("email")

    def clean_username(self) -> str:
        return self._unique_value("username")

    def _unique_value(self, name: str) -> str:
        typed: str = self.cleaned_data[name]
        others = User.objects.exclude(pk=self.instance.pk)
        if typed and others.filter(**{f"{name}__iexact": typed}).exists():
            label = str(self.fields[name].label).lower()
            raise ValidationError(gettext(NOT_UNIQUE) % {"field": label})
        return typed

    clean_time_zone = PreferencesForm.clean_time_zone

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        administrators = _locked_administrators()
        if self.actor.pk not in administrators:
            raise ValidationError(gettext(NO_LONGER_ADMINISTRATOR))
        if self.instance.pk == self.actor.pk:
            if ADMINISTRATOR not in cleaned.get("roles", ()):
                self.add_error("roles", gettext(OWN_ADMINISTRATION))
            if not cleaned.get("is_active"):
                self.add_error("is_active", gettext(OWN_ACCOUNT))
        return cleaned


class RoleFilter(SimpleListFilter):
    title = gettext_lazy("Role")
    parameter_name = "role"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(role, role_label(role)) for role in ROLES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:
        role = self.value()
        return queryset.filter(has_role([role])) if role else queryset


@method_decorator(require_recent_authentication, name="changelist_view")
@method_decorator(require_recent_authentication, name="changeform_view")
class StaffAdmin(BaseAdmin):
    """Accounts, which can be changed only after recent authentication."""

    group = groups.PEOPLE
    singular, plural = gettext_noop("staff member"), gettext_noop("staff")
    words = gettext_noop("Create accounts, assign roles, deactivate accounts")
    needs = ("staff.change",)
    changes = "staff.change"
    sort = Sort(("username",))
    form = StaffForm
    change_form_template = add_form_template = "administration/staff.html"
    list_filter = (RoleFilter, "is_active")
    search_fields = ("username", "first_name", "last_name", "email")
    search_hint = gettext_noop("Name, username or email")
    actions = ("take_second_factors", "unlink_single_sign_on")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return (
            "person",
            "log_in_name",
            "mail",
            "role_names",
            "second_factor",
            "last_seen",
            "is_active",
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return with_second_factor(super().get_queryset(request).prefetch_related("groups"))

    def display_name(self, row: User) -> str:
        return staff_name(row)

    @display(gettext_noop("Name"))
    def person(self, user: User) -> str:
        return self.display_name(user)

    @display(gettext_noop("Username"))
    def log_in_name(self, user: User) -> str:
        return user.get_username()

    @display(gettext_noop("Email"))
    def mail(self, user: User) -> str:
        return user.email

    @display(gettext_noop("Last sign-in"))
    def last_seen(self, user: User) -> datetime | None:
        return user.last_login

    @display(gettext_noop("Roles"))
    def role_names(self, user: User) -> str:
        nothing = gettext("None: can’t open any page") if user.is_active else ""
        return ", ".join(map(role_label, staff_changes.roles_of_account(user))) or nothing

    @display(gettext_noop("Second factor"))
    def second_factor(self, user: Any) -> bool:
        return bool(user.has_second_factor)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # `roles` and `anew` are fields of the form only; Django would look for such columns.
        form = super().get_form(request, obj, change, fields=StaffForm.Meta.fields)
        return type("Form", (form,), {"actor": request.user})

    @admin.action(description=gettext_lazy("Remove second factors"))
    def take_second_factors(self, request: HttpRequest, people: QuerySet[User]) -> None:
        with transaction.atomic():
            for user in people:
                Authenticator.objects.filter(user=user).delete()
                other_sessions(user.pk, request).delete()
                record_action(
                    request, "second factor", [user.pk], (), "removed by an administrator"
                )
                emails.notify_owner(request, user, gettext_noop("Your second factors were removed"))
        messages.success(
            request,
            gettext(
                "Second factors removed. The selected staff are signed out and set up a new second "
                "factor at the next sign-in."
            ),
        )

    @admin.action(description=gettext_lazy("Unlink from single sign-on"))
    def unlink_single_sign_on(self, request: HttpRequest, people: QuerySet[User]) -> None:
        with transaction.atomic():
            unlinked = [user for user in people if single_sign_on.unlink(request, user)]
            for user in unlinked:
                other_sessions(user.pk, request).delete()
        text = gettext(
            "Unlinked: %(unlinked)s of %(total)s accounts. The next single sign-on with a verified "
            "email address links an account again."
        )
        messages.success(request, text % {"unlinked": len(unlinked), "total": len(people)})

    def save_model(self, request: HttpRequest, obj: User, form: StaffForm, change: bool) -> None:
        """Save the account, its roles, and the audit entry in the transaction of the request."""
        before = staff_changes.account_snapshot(obj) if change else {}
        cleaned = form.cleaned_data
        obj.save()
        staff_changes.set_roles(obj, cleaned["roles"])
        after = staff_changes.account_snapshot(obj)
        if not change or cleaned.get("anew"):
            first = first_passwords.issue(obj, voided=change)
            request.first_password = first  # type: ignore[attr-defined]  # for `_first_password_page`
        recorded = {**after, "password": "reset"} if cleaned.get("anew") else after
        record_change(request, staff_changes.TOPIC, [obj.pk], before=before, after=recorded)
        if obj.pk != getattr(request.user, "pk", None) and _ends_sessions(before, recorded):
            other_sessions(obj.pk, request).delete()
        if obj.is_active and not cleaned["roles"]:
            messages.warning(request, _no_role_warning(obj))
        if change:
            _notify_owner(request, obj, before["email"], voided=bool(cleaned.get("anew")))

    def response_add(self, request: HttpRequest, obj: User, *args: Any) -> HttpResponse:
        return self._first_password_page(request, obj) or super().response_add(request, obj, *args)

    def response_change(self, request: HttpRequest, obj: User) -> HttpResponse:
        return self._first_password_page(request, obj) or super().response_change(request, obj)

    def _first_password_page(self, request: HttpRequest, user: User) -> HttpResponse | None:
        """Return the page that shows a first password once; no message and no session stores it."""
        first: str | None = getattr(request, "first_password", None)
        if first == "":
            text = gettext("A link to set a password is on its way to %(email)s.")
            messages.success(request, text % {"email": user.email})
        if not first:
            return None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "kind": self,
            "heading": self.display_name(user),
            "person": user,
            "password": first,
            "hours": first_passwords.HOURS,
            "warning": "" if staff_changes.roles_of_account(user) else _no_role_warning(user),
        }
        return render(request, "administration/first_password.html", context)


def _no_role_warning(user: User) -> str:
    return gettext(WITHOUT_ROLE) % {"name": staff_name(user)}


def _locked_administrators() -> set[int]:
    """Return the ids of all active administrators, and lock their rows.

    Of two who remove the role from each other, the second sees what the first did.
    """
    rows = User.objects.filter(Q(groups__name=ADMINISTRATOR) | Q(is_superuser=True))
    ids = User.objects.filter(pk__in=rows.values("pk")).order_by("pk").values_list("pk", flat=True)
    locked = list(ids.select_for_update())
    return set(rows.filter(pk__in=locked, is_active=True).values_list("pk", flat=True))


def _notify_owner(request: HttpRequest, user: User, email: str, *, voided: bool) -> None:
    """Notify the owner at their old address: the person who voided the password may have changed
    the address, too."""
    if voided:
        emails.notify_owner(request, user, gettext_noop("Your password was reset"), email=email)
    if email != user.email:
        what = gettext_noop("Your email address was changed")
        emails.notify_owner(request, user, what, email=email)


def _ends_sessions(before: dict[str, str], after: dict[str, str]) -> bool:
    """Return whether a change requires that the open sessions of the account end."""
    watched = ("roles", "account", "password")
    return bool(before) and any(before.get(name) != after.get(name) for name in watched)


site.register(User, StaffAdmin)
