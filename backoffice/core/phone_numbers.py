"""Phone numbers: typed text to E.164, and E.164 to text that people read."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import phonenumbers
from django.utils.translation import gettext, gettext_noop
from phonenumbers import NumberParseException, PhoneNumberFormat, ValidationResult

REGION: Final = "US"
"""Region of a number without a country code."""
NORTH_AMERICA: Final = 1
AREA_CODE: Final = gettext_noop("Enter a phone number with area code: (555) 010-0199.")
COUNTRY_CODE: Final = gettext_noop(
    "Start with + and the country code, then the number without its first 0: +44 20 7946 0958."
)
EXTENSION: Final = gettext_noop("Leave out the extension. The lab service stores only the number.")
DIGITS: Final = gettext_noop("Use the digits 0 to 9.")

_PREFIX: Final = re.compile(r"\A\+?(?:011|00)")
_EXTENSION: Final = re.compile(r"[0-9][\s,;.]*(?:ext|x|#|[,;])", re.IGNORECASE)
_WRITTEN: Final = re.compile(r"\+?[0-9 ().\-/]+")
_NORTH_AMERICAN: Final = re.compile(r"\+1[2-9][0-9]{9}")
_SIGNS: Final = str.maketrans(
    {**dict.fromkeys("‐‑‒–—−", "-"), "＋": "+", "（": "(", "）": ")"}  # noqa: RUF001
)


class NotAPhoneNumber(ValueError):
    """`words` is a message for staff: why, and what to write."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


def e164(typed: str) -> str:
    """Return typed text as `+` and digits. Raises NotAPhoneNumber.

    Digits of other scripts are refused: a reader of one script cannot compare them with a card.
    """
    text = _plain(typed)
    if any(mark.isdigit() and not mark.isascii() for mark in text):
        raise NotAPhoneNumber(gettext(DIGITS))
    if _EXTENSION.search(text):
        raise NotAPhoneNumber(gettext(EXTENSION))
    if not _WRITTEN.fullmatch(text):
        raise NotAPhoneNumber(gettext(AREA_CODE))
    marks = "".join(mark for mark in text if mark in "+0123456789")
    number = _PREFIX.sub("+", marks, count=1)
    if number.startswith(("0", "+0")):
        raise NotAPhoneNumber(gettext(COUNTRY_CODE))
    try:
        parsed = phonenumbers.parse(number, REGION)
    except NumberParseException:
        raise NotAPhoneNumber(gettext(AREA_CODE)) from None
    # By length only: made-up numbers (555-01xx) are possible and, to the library, not valid.
    reason = phonenumbers.is_possible_number_with_reason(parsed)
    if reason != ValidationResult.IS_POSSIBLE:
        raise NotAPhoneNumber(gettext(AREA_CODE))
    number_text = str(phonenumbers.format_number(parsed, PhoneNumberFormat.E164))
    if parsed.country_code == NORTH_AMERICA and not _NORTH_AMERICAN.fullmatch(number_text):
        raise NotAPhoneNumber(gettext(AREA_CODE))
    return number_text


def e164_or_unchanged(typed: str) -> str:
    """Return E.164, or the text unchanged when it is not a phone number; for comparisons."""
    try:
        return e164(typed)
    except NotAPhoneNumber:
        return typed


def display_and_dial(number: str) -> tuple[str, str]:
    """Return a number to read and the same number to dial.

    To read: `(555) 010-0165` in North America, else `+44 20 7946 0958`. Text that is not a number
    is returned unchanged, with an empty string to dial.
    """
    digits = "".join(mark for mark in number if mark in "0123456789")
    try:
        dial = e164(number)
    except NotAPhoneNumber:
        return number, ""
    if dial not in (f"+{digits}", f"+1{digits}"):
        return number, ""
    parsed = phonenumbers.parse(dial)
    is_ours = parsed.country_code == NORTH_AMERICA
    form = PhoneNumberFormat.NATIONAL if is_ours else PhoneNumberFormat.INTERNATIONAL
    return str(phonenumbers.format_number(parsed, form)), dial


def _plain(typed: str) -> str:
    """Remove invisible characters, which copied contacts contain, and normalize spaces."""
    visible = (mark for mark in typed.translate(_SIGNS) if unicodedata.category(mark) != "Cf")
    spaced = "".join(" " if unicodedata.category(mark) == "Zs" else mark for mark in visible)
    return spaced.strip().removeprefix("tel:").strip()
