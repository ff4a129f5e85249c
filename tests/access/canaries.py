"""Texts that occur only in the small data set. Nobody without the permission may receive one."""

from __future__ import annotations

import re
from typing import Final

FIRST_NAME: Final = "Qzfirst"
LAST_NAME: Final = "Qzlast"
BORN: Final = "1901-02-03"
PHONE: Final = "+15555550199"
EMAIL: Final = "qzmail@example.invalid"
STREET: Final = "1 Qzstreet"
MEMBER: Final = "QZMEMBER1"
VALUE: Final = 917_263_000
"""The smallest value of a result; all values start with the same digits."""

ABOUT_PEOPLE: Final = re.compile(
    r"qzfirst|qzlast|qzmail|qzstreet|1901-02-03|3 Feb 1901|0?2/0?3/1901|qzmember"
    r"|555\D{0,2}555\D{0,2}0199",
    re.I,
)
"""Texts that nobody without `patients.view` may receive."""
RESULTS: Final = re.compile(r"(?<![\d.])917[,.]?263[,.]?\d{3}")
"""Values that nobody without `results.view` may receive.

Seconds in metrics may contain these digits, but only inside a longer number.
"""
FORM_TOKEN: Final = "t" * 32
"""The CSRF token of forms in sessions of `data_set.session_of`."""
