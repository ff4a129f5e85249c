"""The `Term` class, and the party that acts next."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from django.utils.translation import gettext, gettext_noop

from backoffice.core.vocabulary.status_groups import (
    AT_LAB,
    GLYPHS,
    NEEDS_ACTION,
    ON_THE_WAY,
    PLAIN,
    PREPARING,
    RESULT_IN,
    WITH_PATIENT,
)


@dataclass(frozen=True, slots=True)
class Term:
    """One value of an enumeration as staff see it.

    `label` and `note` are English: whoever shows them translates them. `turn` is the party that
    acts next. `note` is a one-sentence explanation. An order that stays in
    this state longer than `quiet_after` has "gone quiet" (None: never).
    """

    value: str
    label: str
    family: str = PLAIN
    glyph: str = ""
    turn: str = ""
    note: str = ""
    quiet_after: timedelta | None = None

    @property
    def actor_label(self) -> str:
        """Who acts next, for lists: `Patient`, `Lab` or `Clinic`; empty if nobody does."""
        return gettext(ACTORS[self.turn]) if self.turn else ""


def build_terms(*rows: tuple[str, str] | tuple[str, str, str] | Term) -> dict[str, Term]:
    """Return the terms of an enumeration by value.

    A row is a term, or a tuple of value, label, and optional family.
    """
    terms: dict[str, Term] = {}
    for row in rows:
        item = row if isinstance(row, Term) else Term(*row)
        terms[item.value] = replace(item, glyph=item.glyph or GLYPHS[item.family])
    return terms


def step(
    value: str, label: str, family: str, turn: str = "", hours: float | None = None, note: str = ""
) -> Term:
    """Return the term of an order state: who acts next, and the hours until it is quiet."""
    quiet_after = None if hours is None else timedelta(hours=hours)
    return Term(value, label, family, turn=turn, quiet_after=quiet_after, note=note)


SERVICE: Final = "the service"
PATIENT: Final = "the patient"
COURIER: Final = "the courier"
LAB: Final = "the lab"
US: Final = "us"

ACTORS: Final[dict[str, str]] = {
    US: gettext_noop("Clinic"),
    SERVICE: gettext_noop("Lab service"),
    PATIENT: gettext_noop("Patient"),
    COURIER: gettext_noop("Courier"),
    LAB: gettext_noop("Lab"),
}
"""Labels of the parties, for lists."""

TURNS: Final[dict[str, str]] = {
    NEEDS_ACTION: US,
    PREPARING: SERVICE,
    WITH_PATIENT: PATIENT,
    ON_THE_WAY: COURIER,
    AT_LAB: LAB,
    RESULT_IN: US,
}
"""The party that acts next on an order when only its bucket is known."""
