"""Details of catalog records without a column: billing by state, order-entry questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from backoffice.core import vocabulary
from backoffice.service.json_text import JsonObject
from labs.models import LabAccount, Marker

BILLING_TYPES: Final = tuple(vocabulary.VOCABULARIES["order.billing_type"])


@dataclass(frozen=True, slots=True)
class BillingRow:
    """States with the same allowed billing types."""

    states: Sequence[str]
    allowed: Sequence[str]
    refused: Sequence[str]


@dataclass(frozen=True, slots=True)
class OrderQuestion:
    """An order-entry question (catalogue.md 5)."""

    text: str
    code: str
    type: str
    required: bool
    hint: str = ""
    answers: Sequence[str] = field(default_factory=list)


def billing_by_state(account: LabAccount) -> list[BillingRow]:
    """Return `allowed_billing` grouped by state (catalogue.md 7), most allowed types first.

    Empty if the record has no states. The lab refuses a state or type that is missing.
    """
    allowed = {
        kind: {str(state) for state in states}
        for kind, states in account.record_at("allowed_billing").items()
        if isinstance(states, list)
    }
    types = [kind for kind in BILLING_TYPES if kind in allowed]
    types += sorted(allowed.keys() - set(types))
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for state in sorted(set[str]().union(*allowed.values())):
        groups[tuple(kind for kind in types if state in allowed[kind])].append(state)
    best_first = sorted(groups, key=lambda kinds: (-len(kinds), groups[kinds]))
    return [
        BillingRow(groups[kinds], kinds, [kind for kind in types if kind not in kinds])
        for kinds in best_first
    ]


def questions(marker: Marker) -> list[OrderQuestion]:
    """Return the order-entry questions of a marker, in the order of the lab."""
    received = marker.record_at("aoe").get("questions")
    items = received if isinstance(received, list) else ()
    rows: list[JsonObject] = [item for item in items if isinstance(item, dict)]
    rows.sort(key=lambda row: row.get("sequence") or 0)
    return [
        OrderQuestion(
            text=str(row.get("value") or ""),
            code=str(row.get("code") or ""),
            type=str(row.get("type") or ""),
            required=row.get("required") is True,
            hint=str(row.get("constraint") or ""),
            answers=[
                str(answer.get("value") or answer.get("code") or "")
                for answer in row.get("answers") or ()
                if isinstance(answer, dict)
            ],
        )
        for row in rows
    ]
