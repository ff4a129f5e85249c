"""Bulk actions on records of any kind: assign them, and add a note to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts.access import staff_user
from backoffice.accounts.models import User
from backoffice.core.time_formats import spoken
from backoffice.outbox.forms import CommandForm, name_of
from backoffice.pages.lists.bulk import BulkAction, RowNotDone
from backoffice.pages.models import BulkRow
from backoffice.team.actions import MAX_NOTE_LENGTH, AlreadyAssigned, add_note, assign, colleagues


class SubjectAction(BulkAction):
    """Base of actions on records that people are assigned to and write notes about.

    `subject` is the type of record (`team.subjects`), `noun` its plural for people.
    """

    needs = ("notes.write",)

    def __init__(self, subject: str, noun: str) -> None:
        self.subject, self.noun = subject, noun

    def _assign(self, request: HttpRequest, row: BulkRow, to: User, *, anyhow: bool) -> None:
        try:
            assign(request, self.subject, row.key, to, row.patient_id, take=anyhow)
        except AlreadyAssigned as error:
            since = spoken(timezone.localtime(error.at), timezone.localtime())
            raise RowNotDone(f"Assigned to {name_of(error.user)} since {since}.") from error


class AssignToMe(SubjectAction):
    name = "take"
    label = gettext_noop("Assign to me")
    needs_confirmation = False

    @property
    def button_label(self) -> str:
        return gettext("Assign to me:")

    @property
    def heading(self) -> str:
        return gettext("Assign %(things)s to me") % {"things": gettext(self.noun)}

    def title(self, values: Mapping[str, Any]) -> str:
        return f"Assign {self.noun} to me"

    def apply(self, request: HttpRequest, row: BulkRow, values: Mapping[str, Any]) -> UUID | None:
        self._assign(request, row, staff_user(request), anyhow=False)
        return None


class AssignForm(CommandForm):
    to = forms.ModelChoiceField(
        label=gettext_lazy("Assign to"),
        queryset=User.objects.none(),
        empty_label=gettext_lazy("Choose…"),
    )
    anyhow = forms.BooleanField(
        label=gettext_lazy("Also reassign those assigned to someone else"),
        required=False,
        initial=False,
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["to"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = colleagues().order_by("first_name", "last_name", "username")
        field.label_from_instance = name_of  # type: ignore[method-assign,assignment]


class Assign(SubjectAction):
    name = "assign"
    label = gettext_noop("Assign…")
    form = AssignForm

    @property
    def heading(self) -> str:
        return gettext("Assign %(things)s") % {"things": gettext(self.noun)}

    def title(self, values: Mapping[str, Any]) -> str:
        return f"Assign {self.noun} to {values['name']}"

    def parameters(self, form: CommandForm) -> dict[str, Any]:
        to = form.cleaned_data["to"]
        return {"to": to.pk, "name": name_of(to), "anyhow": form.cleaned_data["anyhow"]}

    def apply(self, request: HttpRequest, row: BulkRow, values: Mapping[str, Any]) -> UUID | None:
        to = colleagues().filter(pk=values["to"]).first()
        if to is None:
            raise RowNotDone(f"{values['name']} can no longer be assigned {self.noun}.")
        self._assign(request, row, to, anyhow=values["anyhow"])
        return None


class NoteForm(CommandForm):
    text = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


class AddNote(SubjectAction):
    name = "note"
    label = gettext_noop("Add note…")
    form = NoteForm

    @property
    def button_label(self) -> str:
        return gettext("Add note to")

    @property
    def heading(self) -> str:
        return gettext("Add note to %(things)s") % {"things": gettext(self.noun)}

    def title(self, values: Mapping[str, Any]) -> str:
        return f"Add note to {self.noun}"

    def parameters(self, form: CommandForm) -> dict[str, Any]:
        return {"text": form.cleaned_data["text"]}

    def apply(self, request: HttpRequest, row: BulkRow, values: Mapping[str, Any]) -> UUID | None:
        add_note(request, self.subject, row.key, values["text"], row.patient_id)
        return None
