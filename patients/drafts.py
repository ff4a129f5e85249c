"""What is kept of a registration until it is sent, for the member of staff who types it."""

from __future__ import annotations

from typing import Any, Final

from django.db import transaction
from django.http import QueryDict

from backoffice import outbox
from backoffice.core.urls import build_query, parse_uuid
from backoffice.models import CommandRecord, User
from backoffice.pages.drafts import WRITTEN
from patients.commands import CreateUser
from patients.models import RegistrationDraft
from patients.registration_forms import RegisterForm

KEPT_OUT: Final = ("csrfmiddlewaretoken", "do", "find_payor", "shown", WRITTEN)
GIVEN: Final = {
    *("form_id", "client_user_id", "relationship"),
    *("country", "proxy_country", "payor_country", "guarantor_country"),
}
"""What a form holds before anybody typed in it."""


def of(user: Any) -> tuple[RegistrationDraft, QueryDict] | None:
    """The draft, and what stood in its form. It outlives the registration where it was kept while
    that was asked for: then it is none."""
    draft = RegistrationDraft.objects.filter(user=user).first()
    if draft is None:
        return None
    typed = build_query(draft.typed)
    if sent_with(user, typed.get("form_id", "")) is not None:
        draft.delete()
        return None
    return draft, typed


def keep(user: Any, typed: QueryDict) -> None:
    """What was sent is no draft any more, and neither is a form in which nothing stands."""
    assert isinstance(user, User)
    if sent_with(user, typed.get("form_id", "")) is not None:
        return
    if set(RegisterForm(typed).changed_data) <= GIVEN:
        drop(user, typed.get("form_id", ""), typed.get(WRITTEN, ""))
    else:
        RegistrationDraft.keep(
            outbox.storable_values(typed, KEPT_OUT), typed.get(WRITTEN, ""), user=user
        )


def drop(user: Any, form_id: str, written: str = "") -> None:
    """The draft of this form; somebody else may be half registered in another one."""
    with transaction.atomic():
        draft = RegistrationDraft.objects.select_for_update().filter(user=user).first()
        if draft is None or draft.typed.get("form_id") != [form_id] or draft.overtakes(written):
            return
        draft.delete()


def begin_anew(user: Any) -> None:
    RegistrationDraft.objects.filter(user=user).delete()


def sent_with(user: Any, form_id: str) -> CommandRecord | None:
    """The registration that this person asked for with this very form."""
    key = parse_uuid(form_id)
    if key is None:
        return None
    rows = CommandRecord.objects.filter(kind=CreateUser.kind, requested_by=user.pk)
    return rows.filter(form_id=key).first()
