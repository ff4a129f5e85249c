"""Controls rendered without templates equal those of Django, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates
from django.forms.widgets import Widget
from django.utils.safestring import SafeString

from backoffice.pages.form_controls import Controls

SPECIAL_CHARACTERS = '<b a="1">&\'é'
CHOICES = [
    ("", "Any"),
    ("<1>", 'a "b" & c'),
    ("Group & more", [("x", "X"), (SPECIAL_CHARACTERS, SPECIAL_CHARACTERS)]),
]


@pytest.mark.parametrize(
    "value", [None, "", 0, "x", SPECIAL_CHARACTERS, SafeString("&amp;"), True, 1.5]
)
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"id": "id_q", "required": True, "disabled": False, "title": SPECIAL_CHARACTERS, "size": 2},
    ],
)
@pytest.mark.parametrize(
    "widget",
    [
        forms.TextInput(),
        forms.NumberInput(),
        forms.EmailInput(),
        forms.URLInput(),
        forms.PasswordInput(render_value=True),
        forms.HiddenInput(),
        forms.DateInput(attrs={"type": "date"}),
        forms.DateTimeInput(attrs={"type": "datetime-local"}),
        forms.CheckboxInput(),
        forms.Select(choices=CHOICES),
        forms.Textarea(),
        forms.RadioSelect(choices=CHOICES),
    ],
    ids=lambda widget: type(widget).__name__,
)
def test_widget_equals_that_of_django(widget: Widget, attrs: dict[str, Any], value: Any) -> None:
    rendered = [
        str(widget.render("a<b", value, attrs, renderer=renderer))
        for renderer in (Controls(), DjangoTemplates())
    ]
    assert rendered[0] == rendered[1]


@pytest.mark.parametrize("wrap_label", [False, True])
@pytest.mark.parametrize("value", ["", "<1>", SPECIAL_CHARACTERS])
def test_each_radio_button_equals_that_of_django(value: str, wrap_label: bool) -> None:
    class Chosen(forms.Form):
        one = forms.ChoiceField(choices=CHOICES, widget=forms.RadioSelect, initial=value)

    rendered = [
        [option.tag(wrap_label=wrap_label) for option in Chosen(renderer=renderer)["one"]]
        for renderer in (Controls(), DjangoTemplates())
    ]
    assert rendered[0] == rendered[1] and len(rendered[0]) == 4
