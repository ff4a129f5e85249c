"""The form that changes the teams of a lab account."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any
from uuid import UUID

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext, gettext_lazy

from backoffice.outbox.forms import CommandForm
from labs.allowlists.effects import TeamEffect
from labs.allowlists.teams import sort_teams

MAX_REASON_LENGTH = 500
MAX_TEAMS = 500


def parse_team_ids(text: str) -> set[UUID]:
    """Return the team ids in a text, separated by spaces, commas or semicolons.

    Raises ValueError for anything else.
    """
    words = text.replace(",", " ").replace(";", " ").split()
    if len(words) > MAX_TEAMS:
        raise ValueError("too many teams")
    return {UUID(word) for word in words}


def join_team_ids(teams: Collection[UUID]) -> str:
    return " ".join(str(team) for team in sorted(teams))


class TeamIdsField(forms.CharField):
    """Team ids as one text."""

    def clean(self, value: Any) -> set[UUID]:
        text = super().clean(value)
        try:
            return parse_team_ids(text)
        except ValueError:
            raise forms.ValidationError(
                gettext("This is not a team ID. A team ID looks like %(example)s.")
                % {"example": UUID(int=0)}
            ) from None


class TeamsForm(CommandForm):
    """The teams of an account.

    `expected`: the list that the person saw. `looked_at`: the list whose effects were shown.
    `listed`: teams that have a checkbox, besides the chosen ones.
    """

    expected = TeamIdsField(required=False, widget=forms.HiddenInput)
    looked_at = TeamIdsField(required=False, widget=forms.HiddenInput)
    teams = forms.TypedMultipleChoiceField(coerce=UUID, required=False, label=gettext_lazy("Teams"))
    another = TeamIdsField(
        label=gettext_lazy("Another team"),
        required=False,
        help_text=gettext_lazy("ID of a team that is not listed above."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON_LENGTH,
        help_text=gettext_lazy("Shown in the change log."),
        error_messages={"required": gettext_lazy("Enter a reason for the change log.")},
    )
    confirm = forms.CharField(label=gettext_lazy("Confirm"), max_length=200, required=False)

    def __init__(
        self, *args: Any, listed: Collection[UUID], our_team: UUID | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["teams"]
        assert isinstance(field, forms.TypedMultipleChoiceField)
        # A team typed in "Another team" is a checkbox when the page is shown again.
        choices = sort_teams({*listed, *self.target()}, our_team)
        field.choices = [(str(team), str(team)) for team in choices]

    def target(self) -> set[UUID]:
        """Return the chosen teams, also for an invalid form. Unreadable ids are left out."""
        if not self.is_bound:
            return {UUID(team) for team in self.initial.get("teams", ())}
        chosen: set[UUID] = set()
        assert isinstance(self.data, QueryDict)
        for text in (*self.data.getlist("teams"), self.data.get("another", "")):
            with suppress(ValueError):
                chosen |= parse_team_ids(text)
        return chosen

    def show(self, *, expected: Collection[UUID], looked_at: Collection[UUID]) -> None:
        """Set the two lists of the page that is shown, for its next submission."""
        texts = {"expected": join_team_ids(expected), "looked_at": join_team_ids(looked_at)}
        self.initial = {**self.initial, **texts}
        if isinstance(self.data, QueryDict):
            self.data = self.data.copy()
            for name, value in texts.items():
                self.data[name] = value

    def is_confirmed(self, effects: Collection[TeamEffect]) -> bool:
        """Whether the person typed the name of every team that loses its last account."""
        typed = " ".join(self.cleaned_data["confirm"].casefold().split())
        names = {
            " ".join(effect.name.casefold().split())
            for effect in effects
            if effect.loses_last_account
        }
        for name in sorted(names, key=len, reverse=True):  # One name may begin with another one.
            if name not in typed:
                return False
            typed = typed.replace(name, "", 1)
        return True
