"""Mirrored rows of made-up people, for the tests of the JSON API and its pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID, uuid5

from django.contrib.auth.models import Group

from backoffice.accounts.models import User
from backoffice.api import tokens
from labs.models import Report
from orders.models import Order, UnmatchedResult
from orders.models.unmatched_result import PENDING_REVIEW
from patients.models import Demographics, Patient

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TEAM = UUID("7ea00000-0000-4000-8000-000000000001")
NOBODY: Final[dict[str, Any]] = {
    **dict.fromkeys(("first_name", "last_name", "name_key", "gender", "city", "state", "zip"), ""),
    **dict.fromkeys(("email", "phone_number", "phone_digits"), ""),
    **dict.fromkeys(("dob", "source_order_id", "source_order_created_at")),
    "fields_from_order": [],
}
"""Columns of a patient of whom nothing is known."""
_SPACE = UUID("7ea00000-0000-4000-8000-0000000000ff")


def uid(kind: str, n: int) -> UUID:
    return uuid5(_SPACE, f"{kind} {n}")


def envelope(record: str = "{}", as_of: datetime = NOW) -> dict[str, Any]:
    digest = blake2b(record.encode(), digest_size=16).digest()
    return {"record": record, "content_hash": digest, "as_of": as_of}


def patient(n: int, **values: Any) -> Patient:
    return Patient(
        **{
            "id": uid("patient", n),
            "team_id": TEAM,
            "client_user_id": f"client-{n}",
            "created_on": NOW - timedelta(days=n),
            **envelope(),
            **values,
        }
    )


def demographics(n: int, **values: Any) -> Demographics:
    return Demographics(
        **{
            "user_id": uid("patient", n),
            "first_name": f"Ada{n}",
            "last_name": "Testperson",
            "name_key": f"ada{n} testperson",
            "email": f"ada{n}@example.invalid",
            "phone_number": "+15550100",
            "phone_digits": "0010555",
            "gender": "female",
            **envelope(),
            **values,
        }
    )


def order(n: int, **values: Any) -> Order:
    return Order(
        **{
            "id": uid("order", n),
            "team_id": TEAM,
            "user_id": uid("patient", n % 7),
            "created_at": NOW - timedelta(hours=n),
            "updated_at": NOW,
            "bucket": "at-lab",
            "last_event_id": n,
            "low_level_status": "delivered_to_lab",
            "status": "sample_with_lab",
            **envelope(),
            **values,
        }
    )


def report(n: int, **values: Any) -> Report:
    return Report(
        **{
            "id": uid("report", n),
            "form_id": uid("report form", n),
            "user_id": uid("patient", n % 7),
            "uploaded_at": NOW - timedelta(hours=n % 30),
            **values,
        }
    )


def unmatched_result(n: int, **values: Any) -> UnmatchedResult:
    return UnmatchedResult(
        **{
            "id": uid("unmatched", n),
            "status": PENDING_REVIEW,
            "decision_code": "no_match",
            "first_name": "Nemo",
            "last_name": "Unmatched",
            "created_at": NOW - timedelta(hours=n),
            "updated_at": NOW,
            **envelope(),
            **values,
        }
    )


def staff(role: str, name: str = "") -> User:
    user = User.objects.create_user(name or role.replace(" ", "-"))
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def token_for(user: User) -> dict[str, str]:
    """Headers that carry a fresh token of `user`."""
    return {"Authorization": f"Token {tokens.issue(user)[1]}"}
