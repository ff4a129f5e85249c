"""Download of the orders that a lab account's changed allowlist would have refused."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from backoffice.accounts.access import may, requires
from backoffice.pages.lists.export import download_computed
from labs.models import LabAccount
from orders.placing.allowlist_simulation import RefusedOrder, replay

ALLOWED: Final = {"yes": True, "no": False}


@requires("labs.view", "lab_accounts.change", "orders.view", "lists.export")
@require_GET
def refused_orders(request: HttpRequest, account_id: UUID) -> HttpResponse:
    """Download all orders that would be refused if the team were, or were not, on the allowlist."""
    account = get_object_or_404(LabAccount, pk=account_id)
    is_allowed = ALLOWED.get(request.GET.get("allowed", ""))
    if is_allowed is None:
        raise BadRequest(gettext("This link is incomplete. Go back and download again."))
    refused = replay(account, is_allowed, timezone.now()).refused
    by_name = may(request.user, "patients.view")
    names = [gettext("First name"), gettext("Last name")] if by_name else []
    ordered = gettext("Ordered (%(zone)s)") % {"zone": timezone.get_current_timezone_name()}
    return download_computed(
        request,
        "orders-refused",
        [
            gettext("Order"),
            gettext("Test"),
            *names,
            ordered,
            gettext("Reason"),
            gettext("Also refused today"),
        ],
        [_row(refusal, by_name) for refusal in refused],
        subject="order",
        ids=[refusal.order.pk for refusal in refused],
        patients=[refusal.order.user_id for refusal in refused],
    )


def _row(refusal: RefusedOrder, by_name: bool) -> list[object]:
    order = refusal.order
    names = [order.patient_first_name, order.patient_last_name] if by_name else []
    values = [order.pk, order.lab_test_name, *names, order.created_at, refusal.reason]
    return [*values, not refusal.is_new]
