"""Write audit entries: who viewed and who changed what. The only writer of `AuditEntry`.

An entry is committed before the first byte of the page is sent. If it cannot be written, the page
is not shown (`AuditUnavailable`, answered with 503). A list leaves one entry with the ids that it
shows, never the words that were searched for.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final
from uuid import UUID

from django.contrib.auth.models import AbstractUser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_noop
from rest_framework.exceptions import APIException

from backoffice.audit.models import AuditEntry
from backoffice.core import live_changes, prepared_queries, request_ids


class AuditUnavailable(APIException):
    """The audit trail could not be written, so nothing may be shown."""

    status_code = 503
    default_detail = "This cannot be shown now because the access log cannot be written."
    default_code = "audit_unavailable"


KIND_LABELS: Final = {
    "access log": gettext_noop("Access log"),
    "activity": gettext_noop("Activity"),
    "appointment": gettext_noop("Appointment"),
    "assignment": gettext_noop("Assignment"),
    "audit check": gettext_noop("Audit check"),
    "audit entry": gettext_noop("Audit entry"),
    "audit review": gettext_noop("Audit review"),
    "bulk assign": gettext_noop("Bulk assignment"),
    "bulk note": gettext_noop("Bulk note"),
    "bulk take": gettext_noop("Bulk assignment"),
    "changes": gettext_noop("Change log"),
    "command": gettext_noop("Request"),
    "contact": gettext_noop("Contact"),
    "device data": gettext_noop("Device data"),
    "difference": gettext_noop("Difference"),
    "event": gettext_noop("Event"),
    "event payload": gettext_noop("Event payload"),
    "exception": gettext_noop("Exception"),
    "insurance": gettext_noop("Insurance"),
    "lab account": gettext_noop("Lab account"),
    "lab test": gettext_noop("Lab test"),
    "make token": gettext_noop("API token created"),
    "member of staff": gettext_noop("Staff member"),
    "not the same person": gettext_noop("Marked as different people"),
    "note": gettext_noop("Note"),
    "order": gettext_noop("Order"),
    "own entries": gettext_noop("Own audit entries"),
    "password": gettext_noop("Password"),
    "patient": gettext_noop("Patient"),
    "payor": gettext_noop("Insurance company"),
    "permission": gettext_noop("Permission"),
    "print job": gettext_noop("Print job"),
    "provider": gettext_noop("Device provider"),
    "pull": gettext_noop("Historical pull"),
    "registration": gettext_noop("Registration"),
    "report": gettext_noop("Lab report"),
    "result": gettext_noop("Result"),
    "revoke token": gettext_noop("API token revoked"),
    "second factor": gettext_noop("Second factor"),
    "session": gettext_noop("Session"),
    "sessions": gettext_noop("Sessions"),
    "single sign-on": gettext_noop("Single sign-on"),
    "sync run": gettext_noop("Sync run"),
    "team": gettext_noop("Team"),
    "unmatched result": gettext_noop("Unmatched result"),
    "unread record": gettext_noop("Unread record"),
}
"""Labels of kinds; other kinds are their own labels."""


def kind_label(kind: str) -> str:
    """Return the label of a kind of record or command, such as `lab_account.allowlist`."""
    spelled_out = kind.replace("_", " ").replace(".", " ").capitalize()
    return gettext(KIND_LABELS.get(kind, spelled_out))


def record_entry(
    request: HttpRequest,
    action: str,
    object_type: str,
    *,
    ids: Iterable[object] = (),
    patients: Iterable[UUID | None] = (),
    outcome: str = "ok",
    reason: str = "",
    row_count: int | None = None,
) -> None:
    """Write one entry and commit it. Raise AuditUnavailable if that fails.

    `action` is a key of `ACTION_LABELS`. Call this outside any open transaction: a page that is
    rolled back must not take its entry with it.
    """
    entry = _entry(
        request,
        action,
        object_type,
        ids=ids,
        patients=patients,
        outcome=outcome,
        reason=reason,
        row_count=row_count,
    )
    try:
        with _own_transaction():
            _write(entry)
    except DatabaseError as error:
        raise AuditUnavailable from error


ACTION_LABELS: Final = {
    "view": gettext_noop("Opened"),
    "list": gettext_noop("Viewed in list"),
    "search": gettext_noop("Found in search"),
    "export": gettext_noop("Downloaded"),
    "print": gettext_noop("Printed"),
    "change": gettext_noop("Changed"),
    "login": gettext_noop("Sign-in"),
    "denied": gettext_noop("Access denied"),
}
"""Labels of the actions."""
MAX_CHANGE_LENGTH: Final = 20_000
"""Characters of the JSON text of `before`, and of `after`."""

_COLUMNS: Final = (
    *("actor_id", "actor_kind", "action", "object_type", "object_ids", "patient_ids", "route"),
    *("request_id", "ip", "outcome", "reason", "row_count", "before", "after"),
)
_INSERT: Final = (
    f"INSERT INTO {AuditEntry._meta.db_table} ({', '.join(_COLUMNS)})"  # noqa: S608 - our names
    f" VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
)


def _own_transaction() -> contextlib.AbstractContextManager[None]:
    """Refuse an open transaction. Without one, each statement commits by itself."""
    if connection.in_atomic_block:
        return transaction.atomic(durable=True)
    return contextlib.nullcontext()


def _write(entry: AuditEntry) -> None:
    """Insert the row with plain SQL.

    Every page waits for it, and `save` takes three times as long as the statement alone.
    """
    values = {name: getattr(entry, name) for name in _COLUMNS}
    for name in ("object_ids", "patient_ids"):
        values[name] = prepared_queries.array(values[name])
    for name in ("before", "after"):
        values[name] = _to_json(values[name])
    with prepared_queries.cursor() as cursor:
        cursor.execute(_INSERT, list(values.values()))


def record_action(
    request: HttpRequest,
    kind: str,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
    reason: str = "",
) -> None:
    """Record that somebody did something to records of `kind`, such as sending a command.

    The entry joins the caller's transaction: action and entry are committed together or not at all.
    """
    _save_change(_entry(request, "change", kind, ids=ids, patients=patients, reason=reason))


def record_change(
    request: HttpRequest,
    kind: str,
    ids: Iterable[object],
    *,
    before: Mapping[str, object],
    after: Mapping[str, object],
    patients: Iterable[UUID | None] = (),
    reason: str = "",
) -> None:
    """Record that the back office itself changed `kind` from `before` to `after`.

    Only the names whose values differ are stored. Values are JSON values, times, and ids. The entry
    joins the caller's transaction: change and entry are committed together or not at all. Raise
    ValueError for more than `MAX_CHANGE_LENGTH` characters: nobody could read such a change.
    """
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    entry = _entry(request, "change", kind, ids=ids, patients=patients, reason=reason)
    if names:
        entry.before = {name: before[name] for name in names if name in before}
        entry.after = {name: after[name] for name in names if name in after}
    _save_change(entry)


def record_follow_up(
    actor: AbstractUser, kind: str, ids: Iterable[object], patients: Iterable[UUID | None]
) -> None:
    """Record that a command of `kind` follows one that `actor` requested.

    The entry joins the caller's transaction.
    """
    _save_change(
        AuditEntry(
            actor_id=actor.pk,
            action="change",
            object_type=kind,
            object_ids=[str(key) for key in ids],
            patient_ids=_patient_ids(patients),
        )
    )


def record_console_action(kind: str, ids: Iterable[object], reason: str = "") -> None:
    """Record a change that somebody made with `manage.py`.

    The entry joins the caller's transaction.
    """
    keys = [str(key) for key in ids]
    entry = AuditEntry(
        actor_kind="machine", action="change", object_type=kind, object_ids=keys, reason=reason
    )
    _save_change(entry)


def _save_change(entry: AuditEntry) -> None:
    """Write the entry and announce the change to open pages."""
    _write(entry)
    subjects = set(entry.patient_ids)
    for key in entry.object_ids:
        with contextlib.suppress(ValueError):
            subjects.add(UUID(key))
    live_changes.record_change(entry.object_type[:40], subjects)


def record_view(
    request: HttpRequest,
    object_type: str,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
) -> None:
    """Record that a page about one record, or a record and its siblings, is about to be shown."""
    record_entry(request, "view", object_type, ids=ids, patients=patients)


def record_list(
    request: HttpRequest,
    object_type: str,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
    *,
    searched: bool = False,
) -> None:
    """Record that a page of a list is about to be shown.

    `searched` says that staff typed words to search for.
    """
    row_ids = list(ids)
    action = "search" if searched else "list"
    record_entry(
        request, action, object_type, ids=row_ids, patients=patients, row_count=len(row_ids)
    )


def record_denied(request: HttpRequest, permission: str) -> None:
    """Record that a signed-in person asked for something that their roles do not grant."""
    record_entry(request, "denied", "permission", ids=[permission], outcome="refused")


def record_sign_in(request: HttpRequest) -> None:
    """Record that `request.user` signed in."""
    record_entry(request, "login", "session")


def record_failed_sign_in(request: HttpRequest, reason: str = "") -> None:
    """Record a failed sign-in without the typed text: it may be a password in the wrong field."""
    record_entry(request, "login", "session", outcome="refused", reason=reason)


def _patient_ids(patients: Iterable[UUID | None]) -> list[UUID]:
    return sorted({key for key in patients if key is not None}, key=attrgetter("int"))


def _entry(
    request: HttpRequest,
    action: str,
    object_type: str,
    *,
    ids: Iterable[object],
    patients: Iterable[UUID | None],
    outcome: str = "ok",
    reason: str = "",
    row_count: int | None = None,
) -> AuditEntry:
    user = request.user if isinstance(request.user, AbstractUser) else None
    match = request.resolver_match
    return AuditEntry(
        actor=user,
        actor_kind=_actor_kind(request, user),
        action=action,
        object_type=object_type,
        object_ids=[str(key) for key in ids],
        patient_ids=_patient_ids(patients),
        route=(match.view_name if match else "")[:100],
        request_id=request_ids.request_id_of(request),
        ip=request_ids.client_address(request),
        outcome=outcome,
        reason=reason,
        row_count=row_count,
    )


def _to_json(value: object) -> str | None:
    if value is None:
        return None
    text = json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
    if len(text) > MAX_CHANGE_LENGTH:
        raise ValueError(f"a change of more than {MAX_CHANGE_LENGTH} characters")
    return text


def _actor_kind(request: HttpRequest, user: AbstractUser | None) -> str:
    if user is None:
        return "anonymous"
    return "token" if getattr(request, "auth", None) else "staff"
