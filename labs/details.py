"""What a record of the catalogue says beyond its columns: billing by state, questions to ask."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from backoffice import vocabulary
from labs.models import LabAccount, Marker

BILLING_TYPES: Final = tuple(vocabulary.VOCABULARIES["order.billing_type"])


@dataclass(frozen=True, slots=True)
class BillingRow:
    """States in which the same billing types are allowed; one flag per type of the table."""

    states: Sequence[str]
    allowed: Sequence[bool]


@dataclass(frozen=True, slots=True)
class BillingTable:
    """`allowed_billing` turned round (catalogue.md 7): a state or type that is absent is refused.

    The best served states come first.
    """

    types: Sequence[str]
    rows: Sequence[BillingRow]


@dataclass(frozen=True, slots=True)
class Question:
    """An order-entry question (catalogue.md 5)."""

    text: str
    code: str
    type: str
    required: bool
    hint: str = ""
    answers: Sequence[str] = field(default_factory=list)


def billing_table(account: LabAccount) -> BillingTable:
    """Billing of a lab account, by group of states; empty when the record names none."""
    allowed = {
        kind: {str(state) for state in states}
        for kind, states in account.said("allowed_billing").items()
        if isinstance(states, list)
    }
    types = [kind for kind in BILLING_TYPES if kind in allowed]
    types += sorted(allowed.keys() - set(types))
    groups: dict[tuple[bool, ...], list[str]] = defaultdict(list)
    for state in sorted(set[str]().union(*allowed.values())):
        groups[tuple(state in allowed[kind] for kind in types)].append(state)
    best_first = sorted(groups, key=lambda flags: (-sum(flags), groups[flags]))
    return BillingTable(types, [BillingRow(groups[flags], flags) for flags in best_first])


def questions(marker: Marker) -> list[Question]:
    """Order-entry questions of a marker, in the order the lab shows them."""
    sent = marker.said("aoe").get("questions")
    asked = [each for each in (sent if isinstance(sent, list) else ()) if isinstance(each, dict)]
    asked.sort(key=lambda each: each.get("sequence") or 0)
    return [
        Question(
            text=str(each.get("value") or ""),
            code=str(each.get("code") or ""),
            type=str(each.get("type") or ""),
            required=each.get("required") is True,
            hint=str(each.get("constraint") or ""),
            answers=[
                str(answer.get("value") or answer.get("code") or "")
                for answer in each.get("answers") or ()
                if isinstance(answer, dict)
            ],
        )
        for each in asked
    ]
