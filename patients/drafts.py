"""Drafts of registrations: each staff member has at most one."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.http import QueryDict

from backoffice.accounts.models import User
from backoffice.core.urls import build_query, parse_uuid
from backoffice.outbox.enqueueing import WRITTEN, storable_values
from backoffice.outbox.models import CommandRecord
from patients.commands import CreateUser
from patients.models import RegistrationDraft
from patients.registration_forms import RegisterForm

NOT_SAVED: Final = ("csrfmiddlewaretoken", "do", "find_payor", "shown", WRITTEN)
PREFILLED: Final = {
    *("form_id", "client_user_id", "relationship"),
    *("country", "proxy_country", "payor_country", "guarantor_country"),
}
"""Fields that have a value in an untouched form."""


def load(user: User) -> tuple[RegistrationDraft, QueryDict] | None:
    """Return the draft of a user and its form data, or None.

    A draft that was saved while its form was submitted still exists after the registration. It is
    deleted here.
    """
    draft = RegistrationDraft.objects.filter(user=user).first()
    if draft is None:
        return None
    typed = build_query(draft.typed)
    if submitted_with(user, typed.get("form_id", "")) is not None:
        draft.delete()
        return None
    return draft, typed


def save(user: User, typed: QueryDict) -> None:
    """Save the draft of a user, unless the form was submitted; delete it if the form is empty."""
    if submitted_with(user, typed.get("form_id", "")) is not None:
        return
    if set(RegisterForm(typed).changed_data) <= PREFILLED:
        discard(user, typed.get("form_id", ""), typed.get(WRITTEN, ""))
    else:
        RegistrationDraft.save_inputs(
            storable_values(typed, NOT_SAVED), typed.get(WRITTEN, ""), user=user
        )


def discard(user: User, form_id: str, written: str = "") -> None:
    """Delete the draft of this form. A draft of another form may be of another person."""
    with transaction.atomic():
        draft = RegistrationDraft.objects.select_for_update().filter(user=user).first()
        if draft is None or draft.typed.get("form_id") != [form_id] or draft.overtakes(written):
            return
        draft.delete()


def discard_any(user: User) -> None:
    """Delete the draft of a user, whichever form it is of."""
    RegistrationDraft.objects.filter(user=user).delete()


def submitted_with(user: User, form_id: str) -> CommandRecord | None:
    """Return the registration that this user submitted with this form, or None."""
    key = parse_uuid(form_id)
    if key is None:
        return None
    rows = CommandRecord.objects.filter(kind=CreateUser.kind, requested_by=user.pk)
    return rows.filter(form_id=key).first()
