"""Messages of the service on a refusal, for the form of the command."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop

from backoffice.outbox.command import Command
from backoffice.outbox.record_names import with_names
from backoffice.service import errors

MAX_MESSAGE_LENGTH: Final = 500
"""Characters kept of each message of the service."""

# These are stored with the command, and translated where they are shown.
SOME_FIELDS: Final = gettext_noop("The lab service did not accept some fields.")
NOT_ALLOWED: Final = gettext_noop("The lab service does not allow this team to do that.")
WAITING: Final = gettext_noop("The lab service asked us to wait.")
UNREACHABLE: Final = gettext_noop("The lab service cannot be reached.")
UNANSWERED: Final = gettext_noop(
    "The lab service does not provide the data that must be checked before this is sent."
)


def refusal_message(
    error: errors.ServiceError, command: Command
) -> tuple[str, list[dict[str, str]]]:
    """Return the service's general message, and its messages on single fields of the form.

    Ids of mirrored records have their names beside them.
    """
    fields = []
    general = [error.message[:MAX_MESSAGE_LENGTH]] if error.message else []
    for problem in getattr(error, "fields", ()):
        form_field = _form_field(problem.path, command.fields)
        fields.append(
            {"field": form_field, "path": problem.path, "words": problem.msg[:MAX_MESSAGE_LENGTH]}
        )
        if not form_field:
            general.append(
                f"{problem.path}: {problem.msg}"[:MAX_MESSAGE_LENGTH]
                if problem.path
                else problem.msg[:MAX_MESSAGE_LENGTH]
            )
    if not general:
        if fields:
            general = [SOME_FIELDS]
        elif isinstance(error, errors.Denied):
            general = [NOT_ALLOWED]
        else:
            general = [f"The lab service refused this without a reason (status {error.status})."]
    message, *texts = with_names([" ".join(general), *(field["words"] for field in fields)])
    for field, text in zip(fields, texts, strict=True):
        field["words"] = text
    return message[: 4 * MAX_MESSAGE_LENGTH], fields


def _form_field(path: str, names: dict[str, str]) -> str:
    """Return the form field for the longest known beginning of the path."""
    while path:
        if path in names:
            return names[path]
        path = path.rpartition(".")[0]
    return ""


def obstacle_message(error: errors.ServiceError) -> str:
    """Return why a command cannot be sent now, for staff."""
    if isinstance(error, errors.Limited):
        return WAITING
    if isinstance(error, errors.Unreachable):
        return UNREACHABLE
    return UNANSWERED
