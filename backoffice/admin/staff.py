"""Members of staff: who they are, what they may do, and the end of their accounts.

Nobody is deleted: audit rows point to them. Nobody takes the administration from themselves, so
somebody always has it; of two who take it from each other at once, the second waits and is refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.contrib.auth import password_validation
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils.decorators import method_decorator

from backoffice import audit
from backoffice.access import ADMINISTRATOR, PERMISSIONS, ROLES, SERVICE_ACCOUNT
from backoffice.accounts.fresh import fresh
from backoffice.accounts.passwords import others_of
from backoffice.admin import groups
from backoffice.admin.lists import Kind, display
from backoffice.admin.site import site
from backoffice.models import User
from backoffice.paging import Sort
from backoffice.preferences import PreferencesForm

YOURSELF: Final = "Nobody takes the administration from themselves: ask another administrator."
END_YOURSELF: Final = "Nobody ends their own account: ask another administrator."
NO_LONGER: Final = "You are no administrator any more: somebody took it from you just now."
TAKEN: Final = "Another account has this {}: everybody has one of their own."


class StaffForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    """`actor` is who fills it in. A person has a name and an e-mail address of their own."""

    actor: ClassVar[User]
    field_order = (
        *("first_name", "last_name", "email", "username", "password"),
        *("roles", "time_zone", "is_active"),
    )

    roles = forms.MultipleChoiceField(
        label="Roles", required=False, widget=forms.CheckboxSelectMultiple
    )
    password = forms.CharField(
        label="First password",
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "username", "time_zone", "is_active")
        labels = {"username": "Log-in name", "email": "E-mail", "is_active": "Active"}
        help_texts = {
            "username": "",
            "is_active": "Otherwise nobody can log in with it, and who is logged in is out at "
            "once. What was done under it stays on record.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        held = set(roles_of_account(self.instance)) if self.instance.pk else set()
        self.is_service = SERVICE_ACCOUNT in held
        for name in ("first_name", "last_name", "email"):
            self.fields[name].required = not self.is_service
        field = self.fields["roles"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [
            (role, role.capitalize())
            for role in ROLES
            if role != SERVICE_ACCOUNT or self.is_service
        ]
        self.initial["roles"] = sorted(held)
        first = self.instance._state.adding
        self.fields["password"].required = first
        self.fields["password"].help_text = (
            "Tell it to them, and have them choose another."
            if first
            else "Only where it was forgotten: it replaces theirs and ends their sessions."
        )
        if not first:
            self.fields["password"].label = "New first password"

    @property
    def boxes(self) -> list[tuple[Any, list[str]]]:
        """The box of each role, with what the role grants."""
        return [
            (box, [PERMISSIONS[name] for name in PERMISSIONS if name in ROLES[box.data["value"]]])
            for box in self["roles"]
        ]

    def clean_email(self) -> str:
        return self._own("email")

    def clean_username(self) -> str:
        return self._own("username")

    def _own(self, name: str) -> str:
        typed: str = self.cleaned_data[name]
        others = User.objects.exclude(pk=self.instance.pk)
        if typed and others.filter(**{f"{name}__iexact": typed}).exists():
            raise ValidationError(TAKEN.format(str(self.fields[name].label).lower()))
        return typed

    clean_time_zone = PreferencesForm.clean_time_zone

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        administrators = _administrators()
        if self.actor.pk not in administrators:
            raise ValidationError(NO_LONGER)
        if self.instance.pk == self.actor.pk:
            if ADMINISTRATOR not in given.get("roles", ()):
                self.add_error("roles", YOURSELF)
            if not given.get("is_active"):
                self.add_error("is_active", END_YOURSELF)
        return given

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # the stubs do not know it
        if typed := self.cleaned_data.get("password"):
            try:
                password_validation.validate_password(typed, self.instance)
            except ValidationError as error:
                self.add_error("password", error)


class RoleFilter(SimpleListFilter):
    title = "Role"
    parameter_name = "role"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(role, role) for role in ROLES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        role = self.value()
        if not role:
            return queryset
        holders = queryset.filter(groups__name=role)
        return queryset.filter(Q(pk__in=holders) | Q(is_superuser=role == ADMINISTRATOR))


@method_decorator(fresh, name="changelist_view")
@method_decorator(fresh, name="changeform_view")
class StaffAdmin(Kind):
    """Rights are given by somebody who proved a short while ago who they are."""

    group = groups.PEOPLE
    singular, plural = "member of staff", "staff"
    words = "Make accounts, give roles, end accounts"
    needs = ("staff.change",)
    changes = "staff.change"
    sort = Sort(("username",))
    form = StaffForm
    change_form_template = add_form_template = "administration/staff.html"
    list_filter = (RoleFilter, "is_active")
    search_fields = ("username", "first_name", "last_name", "email")
    found_by = "Name, log-in name or e-mail"
    actions = ("take_second_factors",)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return ("person", "log_in_name", "mail", "held", "second_factor", "last_seen", "is_active")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        factors = Authenticator.objects.filter(user=OuterRef("pk"))
        rows = super().get_queryset(request).prefetch_related("groups")
        told: QuerySet[Any] = rows.annotate(factor=Exists(factors))
        return told

    def called(self, row: User) -> str:
        return row.get_full_name() or row.get_username()

    @display("Name")
    def person(self, user: User) -> str:
        return self.called(user)

    @display("Log-in name")
    def log_in_name(self, user: User) -> str:
        return user.get_username()

    @display("E-mail")
    def mail(self, user: User) -> str:
        return user.email

    @display("Last log-in")
    def last_seen(self, user: User) -> datetime | None:
        return user.last_login

    @display("Roles")
    def held(self, user: User) -> str:
        return ", ".join(sorted(roles_of_account(user)))

    @display("Second factor")
    def second_factor(self, user: Any) -> bool:
        return bool(user.factor)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # `roles` and `password` are the form's own: Django looks for columns of these names.
        form = super().get_form(request, obj, change, fields=StaffForm.Meta.fields)
        return type("Form", (form,), {"actor": request.user})

    @admin.action(description="Take away second factors")
    def take_second_factors(self, request: HttpRequest, people: QuerySet[User]) -> None:
        with transaction.atomic():
            for user in people:
                Authenticator.objects.filter(user=user).delete()
                others_of(user.pk, request).delete()
                audit.asked(request, "second factor", [user.pk], (), "taken away")
        messages.success(request, "They are logged out, and set up a new one at their next log-in.")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """The account, its roles and the entry about both, in the transaction of the request."""
        before = _told(User.objects.get(pk=obj.pk)) if change else {}
        given = form.cleaned_data
        if ADMINISTRATOR not in given["roles"]:
            obj.is_superuser = False
        if given["password"]:
            obj.set_password(given["password"])
        obj.save()
        obj.groups.set([*Group.objects.filter(name__in=given["roles"]), *_others(obj)])
        after = _told(User.objects.get(pk=obj.pk))
        told = {**after, "password": "set anew"} if change and given["password"] else after
        audit.changed(request, "member of staff", [obj.pk], before=before, after=told)
        if obj.pk != getattr(request.user, "pk", None) and _lesser(before, told):
            others_of(obj.pk, request).delete()


def roles_of_account(user: User) -> list[str]:
    """Roles given to an account, open or not: from its groups, prefetched or not."""
    names = {group.name for group in user.groups.all()} & ROLES.keys()
    return sorted(names | {ADMINISTRATOR} if user.is_superuser else names)


def _administrators() -> set[int]:
    """All who are it now. Their rows are locked: of two who take it from each other, the second
    sees what the first did."""
    rows = User.objects.filter(Q(groups__name=ADMINISTRATOR) | Q(is_superuser=True))
    ids = User.objects.filter(pk__in=rows.values("pk")).order_by("pk").values_list("pk", flat=True)
    locked = list(ids.select_for_update())
    return set(rows.filter(pk__in=locked, is_active=True).values_list("pk", flat=True))


def _others(user: User) -> QuerySet[Group]:
    """Groups that are no roles stay as they are."""
    return user.groups.exclude(name__in=ROLES)


def _told(user: User) -> dict[str, str]:
    return {
        "name": user.get_full_name(),
        "e-mail": user.email,
        "log-in name": user.username,
        "roles": ", ".join(roles_of_account(user)),
        "time zone": user.time_zone,
        "account": "open" if user.is_active else "closed",
    }


def _lesser(before: dict[str, str], after: dict[str, str]) -> bool:
    """Whether open sessions stand for something that is no longer so."""
    watched = ("roles", "account", "password")
    return bool(before) and any(before.get(one) != after.get(one) for one in watched)


site.register(User, StaffAdmin)
