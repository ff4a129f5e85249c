"""What every form that asks something of the service has in common."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from django import forms
from django.http import HttpRequest, QueryDict
from django.utils import timezone

from backoffice.core.urls import build_query
from backoffice.models import CommandRecord, User
from backoffice.outbox.command import Command, PreconditionFailed
from backoffice.outbox.enqueueing import Conflict, FormAlreadyUsed, enqueue, typed_values
from backoffice.templatetags.ages import spoken

LATELY: Final = timedelta(hours=1)


class CommandForm(forms.Form):
    """A form shown once asks once: its id is drawn when it is first shown, and kept."""

    form_id = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.is_bound:
            # What was typed stands only on this page: it does not go on by itself.
            self.fields["form_id"].widget.attrs["data-filled"] = ""

    @classmethod
    def from_request(cls, request: HttpRequest, **options: Any) -> Self:
        """The form as posted, as it was for a refused command (`?again=`), or new."""
        if request.method == "POST":
            return cls(request.POST, **options)
        row = resubmitted_command(request)
        return cls(**options) if row is None else cls.from_refused(row, **options)

    @classmethod
    def from_refused(cls, row: CommandRecord, **options: Any) -> Self:
        """The form as it was filled for an earlier command, with the service's words on it."""
        form = cls(_query(row.form_data, form_id=str(uuid.uuid4())), **options)
        form.is_valid()
        for told in row.refusal_fields:
            if told["field"] in form.fields:
                form.add_error(told["field"], told["words"])
        if row.refusal:
            form.add_error(None, row.refusal)
        return form

    def enqueue(
        self, request: HttpRequest, command: Command, reason: str = ""
    ) -> CommandRecord | None:
        """Ask; None, and the form says why, where it cannot be asked now. It must be valid."""
        form_id: UUID = self.cleaned_data["form_id"]
        try:
            return enqueue(request, command, form_id, reason, typed_values(request))
        except FormAlreadyUsed as error:
            self.add_error(None, error.message)
            self.data = _query(dict(request.POST.lists()), form_id=str(uuid.uuid4()))
        except PreconditionFailed as error:
            words = error.message + _lately(command, request.user)
            self.add_error(error.field if error.field in self.fields else None, words)
        except Conflict as error:
            self.add_error(None, conflict_message(error.other, request.user))
        return None


def resubmitted_command(request: HttpRequest, **about: Any) -> CommandRecord | None:
    """The command of `?again=`: among those `about` finds, else those of this very form. Any other
    is about other people."""
    try:
        key = UUID(request.GET.get("again", ""))
    except ValueError:
        return None
    about = about or {"form_url": request.path}
    return CommandRecord.objects.filter(pk=key, **about).first()


def conflict_message(other: CommandRecord, user: Any) -> str:
    """Who asked for what about the same thing, when, and how it stands."""
    return f"{_who(other, user)} asked for something about this already: {other.title}, " + (
        f"{_when(other.requested_at)}. It is now: {other.get_state_display()}."
    )


def _lately(command: Command, user: Any) -> str:
    """What was done about the same thing in the last hour: most often it is why this cannot be."""
    done = CommandRecord.objects.filter(
        state=CommandRecord.State.DONE, finished_at__gt=timezone.now() - LATELY
    )
    kind, key = command.subject()
    last = done.about(kind, key).order_by("-finished_at").first()
    if last is None or last.finished_at is None:
        return ""
    return f" {_who(last, user)} asked for this: {last.title}, done {_when(last.finished_at)}."


def _who(row: CommandRecord, user: Any) -> str:
    return "You" if row.requested_by == user else name_of(row.requested_by)


def _when(moment: datetime) -> str:
    return spoken(timezone.localtime(moment), timezone.localtime())


def name_of(user: User) -> str:
    return user.get_full_name()


def _query(lists: dict[str, list[str]], **more: str) -> QueryDict:
    data = build_query(lists)
    for name, value in more.items():
        data[name] = value
    return data
