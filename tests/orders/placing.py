"""Helpers for tests of placing orders."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.test import Client
from django.urls import reverse
from django.utils import timezone

from labs.models import LabAccount, LabAccountTeam
from tests.api.rows import TEAM, envelope, order, uid

PERSON = {
    "first_name": "Ada",
    "last_name": "Testperson",
    "dob": "1980-05-05",
    "gender": "female",
    "phone_number": "+15550100200",
    "email": "ada@example.invalid",
    "first_line": "1 Made-up Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85001",
}


TEST, OTHER, FAR, KIT = (uid("test", n) for n in range(4))


ACCOUNT = uid("account", 1)


QUESTION = {
    "id": 9_007_199_254_740_993,
    "required": True,
    "value": "Weeks pregnant?",
    "type": "numeric",
    "sequence": 1,
    "answers": [],
}


def create_account(pk: UUID, **values: Any) -> None:
    billing = {"client_bill": ["AZ", "NY"], "commercial_insurance": ["AZ"]}
    LabAccount.objects.create(
        **{
            "id": pk,
            "lab": "lab-a",
            "status": "active",
            "delegated_flow": "not_delegated",
            "provider_account_id": str(pk)[:6],
            "account_name": "Made-up account",
            "default_clinical_notes": "Phone us.",
            **envelope(json.dumps({"allowed_billing": billing})),
            **values,
        }
    )
    LabAccountTeam.objects.create(account_id=pk, team_id=TEAM)


def create_second_account() -> None:
    create_account(uid("account", 2))


def create_recent_order() -> None:
    order(
        1,
        user_id=uid("patient", 1),
        lab_test_id=TEST,
        lab_test_name="Panel",
        created_at=timezone.now() - timedelta(days=3),
    ).save()


def form_values(**values: Any) -> dict[str, Any]:
    return {**PERSON, "tests": [TEST], "billing_type": "client_bill", **values}


def order_form_url(client: Client) -> str:
    return reverse("orders:new", args=[uid("patient", 1)])


def open_review(client: Client) -> tuple[str, dict[str, str]]:
    """Return the URL of the review and the fields that its button sends."""
    address = reverse("orders:new-review", args=[uid("patient", 1)])
    form = client.get(address).context["form"]
    return address, {name: str(form[name].value()) for name in ("form_id", "draft")}
