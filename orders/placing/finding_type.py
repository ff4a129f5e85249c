"""One finding of the checks of an order, with its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STOP: Final = "stop"
CONFIRM: Final = "confirm"
WARN: Final = "warn"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    `kind` names the rule, `field` is the field to change, `url` leads to details, and `key` is what
    a checkbox confirms.
    """

    kind: str
    words: str
    field: str
    level: str = STOP
    url: str = ""
    key: str = ""

    @property
    def family(self) -> str:
        return {STOP: "needs-action", CONFIRM: "abnormal"}.get(self.level, "preparing")
