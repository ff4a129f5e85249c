"""The base class of forms that enqueue a command."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from django import forms
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.translation import gettext

from backoffice.accounts.models import User
from backoffice.core.time_formats import spoken
from backoffice.core.urls import build_query
from backoffice.outbox.command import Command, PreconditionFailed
from backoffice.outbox.enqueueing import Conflict, FormAlreadyUsed, enqueue, typed_values
from backoffice.outbox.models import CommandRecord

RECENT: Final = timedelta(hours=1)


class CommandForm(forms.Form):
    """A form that enqueues at most one command. Its id is created when it is first shown."""

    form_id = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.is_bound:
            # The entered values are only on this page, so it must not redirect by itself.
            self.fields["form_id"].widget.attrs["data-filled"] = ""

    @classmethod
    def from_request(cls, request: HttpRequest, **options: Any) -> Self:
        """Return the posted form, the form of a refused command (`?again=`), or a new form."""
        if request.method == "POST":
            return cls(request.POST, **options)
        row = resubmitted_command(request)
        return cls(**options) if row is None else cls.from_refused(row, **options)

    @classmethod
    def from_refused(cls, row: CommandRecord, **options: Any) -> Self:
        """Return the form with the values and refusal messages of an earlier command."""
        form = cls(_query_dict(row.form_data, form_id=str(uuid.uuid4())), **options)
        form.is_valid()
        for refusal in row.refusal_fields:
            if refusal["field"] in form.fields:
                form.add_error(refusal["field"], gettext(refusal["words"]))
        if row.refusal:
            form.add_error(None, gettext(row.refusal))
        return form

    def enqueue(
        self, request: HttpRequest, command: Command, reason: str = ""
    ) -> CommandRecord | None:
        """Enqueue `command`; if that fails, add the reason to the form and return None.

        The form must be valid.
        """
        form_id: UUID = self.cleaned_data["form_id"]
        try:
            return enqueue(request, command, form_id, reason, typed_values(request))
        except FormAlreadyUsed as error:
            self.add_error(None, error.message)
            self.data = _query_dict(dict(request.POST.lists()), form_id=str(uuid.uuid4()))
        except PreconditionFailed as error:
            message = error.message + _recent_message(command, request.user)
            self.add_error(error.field if error.field in self.fields else None, message)
        except Conflict as error:
            self.add_error(None, conflict_message(error.other, request.user))
        return None


def resubmitted_command(request: HttpRequest, **filters: object) -> CommandRecord | None:
    """Return the command of `?again=`, if it matches `filters`; by default, if it is of this form.

    Another command may be about other people.
    """
    try:
        key = UUID(request.GET.get("again", ""))
    except ValueError:
        return None
    filters = filters or {"form_url": request.path}
    return CommandRecord.objects.filter(pk=key, **filters).first()


def conflict_message(other: CommandRecord, user: User | AnonymousUser) -> str:
    """Describe the open command: who requested it, when, and its state."""
    values = {
        "name": name_of(other.requested_by),
        "title": gettext(other.title),
        "time": _spoken_time(other.requested_at),
        "state": other.get_state_display(),
    }
    if other.requested_by == user:
        message = gettext(
            "You already sent a request about this: %(title)s, %(time)s. Status: %(state)s."
        )
    else:
        message = gettext(
            "%(name)s already sent a request about this: %(title)s, %(time)s. Status: %(state)s."
        )
    return message % values


def _recent_message(command: Command, user: User | AnonymousUser) -> str:
    """Describe the last command on the same subject done in the last hour; empty if none.

    Most often it is the reason why the new one fails.
    """
    done = CommandRecord.objects.done_since(timezone.now() - RECENT)
    last = done.about(*command.subject()).order_by("-finished_at").first()
    if last is None or last.finished_at is None:
        return ""
    values = {
        "name": name_of(last.requested_by),
        "title": gettext(last.title),
        "time": _spoken_time(last.finished_at),
    }
    if last.requested_by == user:
        message = gettext("You requested this: %(title)s, done %(time)s.")
    else:
        message = gettext("%(name)s requested this: %(title)s, done %(time)s.")
    return f" {message % values}"


def _spoken_time(moment: datetime) -> str:
    return spoken(timezone.localtime(moment), timezone.localtime())


def name_of(user: User) -> str:
    return user.get_full_name()


def _query_dict(lists: dict[str, list[str]], **values: str) -> QueryDict:
    data = build_query(lists)
    for name, value in values.items():
        data[name] = value
    return data
