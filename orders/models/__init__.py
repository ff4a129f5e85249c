from orders.models.activity import OrderActivity, OrderCount, SeenActivity, SeenSubject
from orders.models.appointment import Appointment, AppointmentEvent
from orders.models.critical import CriticalAnnouncement
from orders.models.draft import OrderDraft
from orders.models.handling import Handling
from orders.models.name import OrderName, OrderNameWord
from orders.models.order import Order, OrderEvent, Transaction
from orders.models.patient_change import OrderPatientChange, order_with_move
from orders.models.print_job import PrintFile, PrintJob, PrintPart
from orders.models.result import Result, ResultMarker
from orders.models.review import (
    CriticalAcknowledgement,
    CriticalCall,
    Delegation,
    ResultVersion,
    Review,
    ReviewTally,
    Signature,
)
from orders.models.unmatched_result import Candidate, UnmatchedResult
from orders.models.usual_time import UsualTime

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "Candidate",
    "CriticalAcknowledgement",
    "CriticalAnnouncement",
    "CriticalCall",
    "Delegation",
    "Handling",
    "Order",
    "OrderActivity",
    "OrderCount",
    "OrderDraft",
    "OrderEvent",
    "OrderName",
    "OrderNameWord",
    "OrderPatientChange",
    "PrintFile",
    "PrintJob",
    "PrintPart",
    "Result",
    "ResultMarker",
    "ResultVersion",
    "Review",
    "ReviewTally",
    "SeenActivity",
    "SeenSubject",
    "Signature",
    "Transaction",
    "UnmatchedResult",
    "UsualTime",
    "order_with_move",
]
