from orders.documents.models import PrintFile, PrintJob, PrintPart
from orders.exceptions.models import Handling
from orders.models.appointment import Appointment, AppointmentEvent
from orders.models.critical import CriticalResult
from orders.models.draft import OrderDraft
from orders.models.move import OrderMove, order_with_move
from orders.models.name import OrderName, OrderNameWord
from orders.models.order import Order, OrderEvent, Transaction
from orders.models.result import Result, ResultMarker
from orders.results.models import (
    CriticalAcknowledgement,
    CriticalCall,
    Delegation,
    ResultVersion,
    Review,
    ReviewTally,
    Signature,
)
from orders.today.models import OrderActivity, OrderCount, SeenActivity, SeenSubject
from orders.turnaround.models import UsualTime
from orders.unmatched.models import Candidate, UnmatchedResult

__all__ = [
    "Appointment",
    "AppointmentEvent",
    "Candidate",
    "CriticalAcknowledgement",
    "CriticalCall",
    "CriticalResult",
    "Delegation",
    "Handling",
    "Order",
    "OrderActivity",
    "OrderCount",
    "OrderDraft",
    "OrderEvent",
    "OrderMove",
    "OrderName",
    "OrderNameWord",
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
