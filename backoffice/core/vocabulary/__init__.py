"""Every open enumeration of the interface: label, color family, and glyph of each value.

All enumerations of the service are open (specification, "Conventions"). A value that is not listed
here is rendered, sorted, filtered, and counted like any other. Its label is the raw value and its
family is ``unknown``, until an administrator gives it a label and a bucket (`decisions`). No code
in the back office may require a known value.

`VOCABULARIES` is the data. `term` reads it and never fails. `is_known` tells which values a sync
must count as unknown. `order_bucket` and `order_term` contain the one rule that depends on more
than the status.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.core.vocabulary import decisions, interpretations
from backoffice.core.vocabulary.data import ALIASES, LISTS, VOCABULARIES
from backoffice.core.vocabulary.status_groups import (
    ABNORMAL,
    AT_LAB,
    BUCKETS,
    CLOSED,
    CRITICAL,
    GLYPHS,
    NEEDS_ACTION,
    ON_THE_WAY,
    PLAIN,
    PREPARING,
    RESULT_IN,
    UNKNOWN,
    WITH_PATIENT,
)
from backoffice.core.vocabulary.terms import COURIER, LAB, PATIENT, SERVICE, US, Term

_REQUISITION: Final = frozenset({"requisition_created", "requisition_bypassed"})
_READY: Final[dict[str, str]] = {
    "testkit": gettext_noop("Paperwork ready"),
    "walk_in_test": gettext_noop("Ready to walk in"),
    "at_home_phlebotomy": gettext_noop("Ready to book"),
    "on_site_collection": gettext_noop("Ready to collect"),
}
_READY_TURN: Final[dict[str, str]] = {
    "walk_in_test": PATIENT,
    "at_home_phlebotomy": PATIENT,
    "on_site_collection": US,
}
_READY_QUIET: Final[dict[str, timedelta]] = {"walk_in_test": timedelta(days=7)}
_BUCKET_TURN: Final[dict[str, str]] = {WITH_PATIENT: PATIENT, ON_THE_WAY: COURIER}


def canonical(vocabulary: str, value: str) -> str:
    """Return the main spelling of a value.

    A value with one spelling, or an unknown value, is returned unchanged.
    """
    if vocabulary in interpretations.VOCABULARIES:
        return interpretations.canonical(value)
    if vocabulary == "result.status":
        return interpretations.read_status(value)
    return ALIASES.get(vocabulary, {}).get(value, value)


def term(vocabulary: str, value: str | None) -> Term:
    """Return the term of a value.

    A value that no release knows has the term that an administrator gave it, or an unknown term. A
    missing value (None or empty) is not unknown: it has an empty plain term.
    """
    if not value:
        return Term("", "", PLAIN)
    terms = VOCABULARIES[vocabulary]
    item = terms.get(value) or terms.get(canonical(vocabulary, value))
    item = item or decisions.term(vocabulary, value)
    if item is None and vocabulary in interpretations.VOCABULARIES:
        label = gettext("Not interpreted: %(value)s") % {"value": value}
        return Term(value, label, UNKNOWN, GLYPHS[UNKNOWN])
    return item or Term(value, value, UNKNOWN, GLYPHS[UNKNOWN])


def is_known(vocabulary: str, value: str | None) -> bool:
    """Return False for a value that the unknown-values page should count."""
    if value and vocabulary in interpretations.VOCABULARIES:
        return interpretations.is_blank(value) or interpretations.is_known(value)
    return not value or canonical(vocabulary, value) in VOCABULARIES[vocabulary]


def low_level(dotted: str) -> str:
    """Return the third part of ``<high_level>.<method>.<low_level>``, in its main spelling.

    A string without dots is the low-level status itself (orders.md 4).
    """
    return canonical("order.low_level_status", dotted.split(".", 2)[-1])


def bucket_of(dotted: str) -> str:
    """Return the high-level status, the first part of a dotted status; empty without dots."""
    head, dot, _ = dotted.partition(".")
    return head if dot else ""


def order_bucket(low_level_status: str, method: str, history: Iterable[str]) -> str:
    """Return the working bucket (a key of `BUCKETS`) of an order.

    `history` holds the statuses of its events, dotted or not, in any order. The meaning of the
    requisition statuses depends on the method: a kit that was not sent yet, a patient who may walk
    in, or a draw that must be booked.
    """
    status = canonical("order.low_level_status", low_level_status)
    if status not in _REQUISITION:
        return term("order.low_level_status", status or "unknown").family
    if method in ("walk_in_test", "at_home_phlebotomy"):
        return WITH_PATIENT
    if method == "testkit":
        past_statuses = {low_level(entry) for entry in history}
        if past_statuses & {"with_customer", "registered"}:
            return WITH_PATIENT
        if "transit_customer" in past_statuses:
            return ON_THE_WAY
    return PREPARING


def order_term(
    low_level_status: str, method: str, history: Iterable[str], bucket: str = ""
) -> Term:
    """Return the term of an order's status, with the bucket rule applied to it.

    `bucket` is the stored bucket, for callers that do not have the history.
    """
    status_term = term("order.low_level_status", low_level_status or "unknown")
    if status_term.value not in _REQUISITION:
        return status_term
    bucket = bucket or order_bucket(low_level_status, method, history)
    is_imported = status_term.value == "requisition_bypassed"
    return replace(
        status_term,
        label=status_term.label if is_imported else _READY.get(method, status_term.label),
        family=bucket,
        glyph=GLYPHS[bucket],
        turn=_READY_TURN.get(method) or _BUCKET_TURN.get(bucket, status_term.turn),
        quiet_after=_READY_QUIET.get(method, status_term.quiet_after),
    )


def choices(vocabulary: str) -> list[tuple[str, Any]]:
    """Return (value, label) pairs for a filter, translated; forms must accept any other value."""
    terms = VOCABULARIES[vocabulary]
    decided = [item for item in decisions.terms_of(vocabulary) if item.value not in terms]
    return [(item.value, gettext_lazy(item.label)) for item in (*terms.values(), *decided)]


__all__ = [
    "ABNORMAL",
    "ALIASES",
    "AT_LAB",
    "BUCKETS",
    "CLOSED",
    "COURIER",
    "CRITICAL",
    "GLYPHS",
    "LAB",
    "LISTS",
    "NEEDS_ACTION",
    "ON_THE_WAY",
    "PATIENT",
    "PLAIN",
    "PREPARING",
    "RESULT_IN",
    "SERVICE",
    "UNKNOWN",
    "US",
    "VOCABULARIES",
    "WITH_PATIENT",
    "Term",
    "bucket_of",
    "canonical",
    "choices",
    "decisions",
    "interpretations",
    "is_known",
    "low_level",
    "order_bucket",
    "order_term",
    "term",
]
