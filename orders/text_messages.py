"""The state of the service's text messages about an order, read while a person waits.

The record of the order does not have this state, so the mirror does not have it (orders.md 1).
"""

from __future__ import annotations

import logging
from typing import Final

from django.utils.translation import gettext

from backoffice.core.service_client import service
from backoffice.service import errors
from orders.models import Order

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 3.0
"""Most seconds that a person waits for the service."""


def messages_on(order: Order) -> bool | None:
    """Return whether text messages are on; None if the service does not answer that."""
    if order.missing_since:
        return None
    try:
        return (
            service().within(WAIT_SECONDS).orders.communication_settings(order.pk).data.sms_enabled
        )
    except errors.ServiceError as error:
        logger.info("the message switch of an order is unknown: %s", type(error).__name__)
        return None


def state_words(is_on: bool | None) -> str:
    """Return "On", "Off", or a text for an unknown state."""
    if is_on is None:
        return gettext("Unknown: the lab service is not responding")
    return gettext("On") if is_on else gettext("Off")
