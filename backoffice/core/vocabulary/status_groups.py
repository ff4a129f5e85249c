"""The status groups of orders that staff work by, and the color families with their glyphs.

`data.py` puts each status into its group. An administrator does so for unknown statuses
(`decisions.py`).
"""

from typing import Final

PREPARING: Final = "preparing"
WITH_PATIENT: Final = "with-patient"
ON_THE_WAY: Final = "on-the-way"
AT_LAB: Final = "at-lab"
RESULT_IN: Final = "result-in"
NEEDS_ACTION: Final = "needs-action"
CLOSED: Final = "closed"
UNKNOWN: Final = "unknown"
CRITICAL: Final = "critical"
ABNORMAL: Final = "abnormal"
PLAIN: Final = "plain"

BUCKETS: Final[dict[str, str]] = {
    NEEDS_ACTION: "Needs action",
    PREPARING: "Preparing",
    WITH_PATIENT: "With patient",
    ON_THE_WAY: "On the way",
    AT_LAB: "At the lab",
    RESULT_IN: "Result in",
    CLOSED: "Closed",
    UNKNOWN: "Unrecognized",
}
"""Working buckets of an order, in the order in which pages list them."""

GLYPHS: Final[dict[str, str]] = {
    PREPARING: "ring",
    WITH_PATIENT: "half-ring",
    ON_THE_WAY: "chevron",
    AT_LAB: "square",
    RESULT_IN: "tick",
    NEEDS_ACTION: "warning",
    CLOSED: "dash",
    UNKNOWN: "question",
    CRITICAL: "octagon",
    ABNORMAL: "arrows",
    PLAIN: "",
}
"""Default glyph of each family; a term may have a more specific one."""
