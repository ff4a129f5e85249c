"""All list pages. A new one is added here; the shared tests then include it."""

from __future__ import annotations

from typing import Final

from backoffice.admin.staff_list import STAFF_LIST
from backoffice.audit.entry_list import AUDIT_LIST
from backoffice.operations.drift_list import DRIFT_LIST
from backoffice.operations.run_list import RUN_LIST
from backoffice.operations.unread_list import UNREAD_LIST
from backoffice.outbox.command_list import COMMAND_LIST
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
    COMMAND_LIST,
    RUN_LIST,
    DRIFT_LIST,
    UNREAD_LIST,
    STAFF_LIST,
)
