"""Diagnosis codes, checked by the service while a person waits (users.md 6)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from backoffice.remote import service
from backoffice.service import errors
from orders.placing.findings import STOP, WARN, Finding

logger = logging.getLogger(__name__)


def findings_of_codes(codes: Sequence[str]) -> list[Finding]:
    """What the service says of them; that it cannot be asked is said, and keeps nobody."""
    if not codes:
        return []
    try:
        checked = service().insurance.validate_icd_codes(codes).data
    except errors.Refused as error:
        words = error.message or "The service does not take these diagnosis codes."
        return [Finding("diagnosis", words, "icd_codes")]
    except errors.ServiceError as error:
        logger.info("diagnosis codes could not be checked: %s", error)
        words = "The diagnosis codes could not be checked: the service does not answer."
        return [Finding("diagnosis unchecked", words, "icd_codes", WARN)]
    found = [Finding("diagnosis", words, "icd_codes") for words in checked.errors]
    found += [
        Finding(
            "diagnosis", f"{one.code} and {one.conflicts_with} exclude each other.", "icd_codes"
        )
        for one in checked.violations
    ]
    if not checked.valid and not found:
        found = [Finding("diagnosis", "The service refuses a diagnosis code.", "icd_codes", STOP)]
    return found + [
        Finding(
            "diagnosis overlap",
            f"{one.code} and {one.overlaps_with} say partly the same.",
            "icd_codes",
            WARN,
        )
        for one in checked.warnings
    ]
