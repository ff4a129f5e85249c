"""Messages of the service on a refusal, for the form of the command."""

from __future__ import annotations

from typing import Final

from backoffice.outbox.command import Command
from backoffice.outbox.record_names import with_names
from backoffice.service import errors

MAX_MESSAGE_LENGTH: Final = 500
"""Characters kept of each message of the service."""


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
            general = ["The service did not accept what stands in some fields."]
        elif isinstance(error, errors.Denied):
            general = ["The service does not allow this team to do that."]
        else:
            general = [f"The service refused it without a reason (answer {error.status})."]
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
        return "The service asks us to wait."
    if isinstance(error, errors.Unreachable):
        return "The service cannot be reached."
    return "The service refuses to tell what has to be known before this is sent."
