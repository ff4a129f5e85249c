"""Objects to send to the service, the JSON that must be sent, and records it answers with."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from backoffice.service.appointments import VisitAddress
from backoffice.service.orders import NewPatient, NewPatientAddress
from backoffice.service.users import NewAddress, NewGuarantor

NAME = "Canaryname"
KEY = "0c5d1ab2-0000-4000-8000-0000000000aa"
U1, U2, U3 = (UUID(f"ca0a7e57-0000-4000-8000-00000000000{n}") for n in (1, 2, 3))
ORG = "0d4f7c1e-0000-4000-8000-00000000c11c"

STREET = NewAddress(
    first_line=f"1 {NAME} Street", city="Phoenix", state="AZ", zip="85004", country="US"
)
STREET_SENT = {
    "first_line": f"1 {NAME} Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85004",
    "country": "US",
}
HOME = VisitAddress(
    first_line=f"1 {NAME} Street",
    second_line="2",
    city="Phoenix",
    state="AZ",
    zip_code="85004",
    access_notes="bell",
)
HOME_SENT = {
    "first_line": f"1 {NAME} Street",
    "second_line": "2",
    "city": "Phoenix",
    "state": "AZ",
    "zip_code": "85004",
    "access_notes": "bell",
}
PERSON = {
    "first_name": NAME,
    "last_name": NAME,
    "gender": "female",
    "email": "canaryname@example.invalid",
    "phone_number": "+15550100",
}
BORN = {"dob": date(1980, 1, 2)}
BORN_SENT = {"dob": "1980-01-02"}
PROXY = NewGuarantor(first_name=NAME, last_name=NAME, address=STREET, phone_number="+1")
PROXY_SENT = {
    "first_name": NAME,
    "last_name": NAME,
    "address": STREET_SENT,
    "phone_number": "+1",
}
PATIENT = NewPatient(**PERSON, **BORN, household_income=1, medical_proxy=PROXY)  # type: ignore[arg-type]
PATIENT_SENT = {**PERSON, **BORN_SENT, "household_income": 1, "medical_proxy": PROXY_SENT}
DELIVERY = NewPatientAddress(**STREET_SENT, receiver_name=NAME)
DELIVERY_SENT = {**STREET_SENT, "receiver_name": NAME}

ORDER = {
    "id": str(U2),
    "user_id": str(U1),
    "team_id": str(U3),
    "created_at": "2026-01-01T10:00:00Z",
    "updated_at": "2026-01-01T10:00:00Z",
    "patient_details": {"first_name": NAME, "last_name": NAME, "dob": "1980-01-01"},
}
PLACED = {"order": ORDER, "status": "success", "message": "made"}
VISIT = {"id": str(U3), "user_id": str(U1), "order_id": str(U2), "events": []}
USER = {"user_id": str(U1), "client_user_id": "c-1", "created_on": "2026-01-01T10:00:00Z"}
INSURANCE = {"payor_code": "P", "member_id": "M", "relationship": "Self"}
LAB_TEST = {"id": str(U1), "name": "Panel"}
ACCOUNT = {"id": str(U1), "lab": "lab-a"}
UNMATCHED = {"id": str(U1), "status": "resolved"}
