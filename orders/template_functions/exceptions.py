"""Functions of call cards for templates."""

from __future__ import annotations

from django.utils.translation import gettext

from orders.exceptions.cards import OUTCOME_LABELS


def outcome_label(value: str) -> str:
    """Return the label of a call card's outcome in lower case, such as "voicemail"."""
    return gettext(OUTCOME_LABELS.get(value, value)).lower()
