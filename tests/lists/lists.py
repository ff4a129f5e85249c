"""All list pages. A new one is added here; the shared tests then include it."""

from __future__ import annotations

from typing import Final

from backoffice.audit.entry_list import AUDIT_LIST
from backoffice.pages.lists.definition import ListPage
from labs.reports.report_list import REPORT_LIST
from orders.appointment_list.definition import APPOINTMENT_LIST
from orders.appointment_list.unbooked_list import UNBOOKED_LIST
from orders.exceptions.exception_list import EXCEPTION_LIST
from orders.order_list.definition import ORDER_LIST
from orders.results.result_list import RESULT_LIST
from orders.unmatched.unmatched_list import UNMATCHED_LIST
from patients.patient_list import PATIENTS
from webhooks.event_list import EVENT_LIST

LISTS: Final[tuple[ListPage, ...]] = (
    ORDER_LIST,
    PATIENTS,
    APPOINTMENT_LIST,
    UNBOOKED_LIST,
    EXCEPTION_LIST,
    RESULT_LIST,
    UNMATCHED_LIST,
    REPORT_LIST,
    EVENT_LIST,
    AUDIT_LIST,
)
