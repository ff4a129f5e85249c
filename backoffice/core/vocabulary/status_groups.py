"""The status groups of orders that staff work by, and the color families with their glyphs.

`data.py` puts each status into its group. An administrator does so for unknown statuses
(`decisions.py`).
"""

from typing import Final

from django.utils.translation import gettext_noop

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
    NEEDS_ACTION: gettext_noop("Needs action"),
    PREPARING: gettext_noop("Preparing"),
    WITH_PATIENT: gettext_noop("With patient"),
    ON_THE_WAY: gettext_noop("On the way"),
    AT_LAB: gettext_noop("At the lab"),
    RESULT_IN: gettext_noop("Result in"),
    CLOSED: gettext_noop("Closed"),
    UNKNOWN: gettext_noop("Unrecognized"),
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
