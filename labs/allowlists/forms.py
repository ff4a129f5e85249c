"""The form that changes a lab account's teams."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any
from uuid import UUID

from django import forms
from django.http import QueryDict

from backoffice.outbox import CommandForm
from labs.allowlists.effects import Effect
from labs.allowlists.teams import in_order

REASON_LETTERS = 500
MOST_TEAMS = 500


def ids(text: str) -> set[UUID]:
    """Team ids in a text, whatever stands between them; ValueError for anything else."""
    words = text.replace(",", " ").replace(";", " ").split()
    if len(words) > MOST_TEAMS:
        raise ValueError("too many teams")
    return {UUID(word) for word in words}


def joined(teams: Collection[UUID]) -> str:
    return " ".join(str(team) for team in sorted(teams))


class TeamIds(forms.CharField):
    """Team ids as one text."""

    def clean(self, value: Any) -> set[UUID]:
        text = super().clean(value)
        try:
            return ids(text)
        except ValueError:
            raise forms.ValidationError(
                f"This is no team id; one looks like {UUID(int=0)}."
            ) from None


class TeamsForm(CommandForm):
    """`expected`: the list the person saw. `looked_at`: the list whose effects were on screen."""

    expected = TeamIds(required=False, widget=forms.HiddenInput)
    looked_at = TeamIds(required=False, widget=forms.HiddenInput)
    teams = forms.TypedMultipleChoiceField(coerce=UUID, required=False, label="Teams")
    another = TeamIds(
        label="Another team",
        required=False,
        help_text="The id of a team that is not among these.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    reason = forms.CharField(
        label="Reason",
        max_length=REASON_LETTERS,
        help_text="Shown in the change log.",
        error_messages={"required": "Say why, for the change log."},
    )
    confirm = forms.CharField(label="Confirm", max_length=200, required=False)

    def __init__(
        self, *args: Any, known: Collection[UUID], ours: UUID | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["teams"]
        assert isinstance(field, forms.TypedMultipleChoiceField)
        # A team typed in "Another team" is a checkbox when the page is shown again.
        choices = in_order({*known, *self.target()}, ours)
        field.choices = [(str(team), str(team)) for team in choices]

    def target(self) -> set[UUID]:
        """The list that is wanted, as far as it can be read: also of a form that is not valid."""
        if not self.is_bound:
            return {UUID(team) for team in self.initial.get("teams", ())}
        wanted: set[UUID] = set()
        assert isinstance(self.data, QueryDict)
        for text in (*self.data.getlist("teams"), self.data.get("another", "")):
            with suppress(ValueError):
                wanted |= ids(text)
        return wanted

    def show(self, *, expected: Collection[UUID], looked_at: Collection[UUID]) -> None:
        """What the page shows now is what the next sending answers to."""
        shown = {"expected": joined(expected), "looked_at": joined(looked_at)}
        self.initial = {**self.initial, **shown}
        if isinstance(self.data, QueryDict):
            self.data = self.data.copy()
            for name, value in shown.items():
                self.data[name] = value

    def confirmed(self, effects: Collection[Effect]) -> bool:
        """True when every team that is left without an account was named."""
        typed = " ".join(self.cleaned_data["confirm"].casefold().split())
        names = {" ".join(one.name.casefold().split()) for one in effects if one.left_with_none}
        for name in sorted(names, key=len, reverse=True):  # One may be the beginning of another.
            if name not in typed:
                return False
            typed = typed.replace(name, "", 1)
        return True
