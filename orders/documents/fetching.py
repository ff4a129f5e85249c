"""Fetch one document from the service: a complete, checked PDF, or the reason for its absence.

`printing.py` fetches those of many orders and merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext, gettext_noop

from backoffice.core.service_client import service
from backoffice.service import errors
from orders.documents import pdf_files
from orders.documents.kinds import DocumentFacts, DocumentKind, LabelOptions

SECONDS: Final = 15.0
"""Time limit for one document, its last byte included."""
NO_PDF: Final = gettext_noop(
    "The service did not send a readable PDF. Nothing was saved or printed. Try again in a few "
    "minutes."
)
TOO_LARGE: Final = gettext_noop("The document is larger than 30 MB. Nothing was saved or printed.")
NO_TIME: Final = gettext_noop(
    "No collection time is known. Print the labels from the order’s page."
)
BEFORE_ORDER: Final = gettext_noop(
    "The collection time is before this order was created. Print the labels from the order’s page."
)
LATER: Final = gettext_noop("The service is not responding. Try again in a minute.")


@dataclass(frozen=True, slots=True)
class CheckedPdf:
    """A complete document that can be opened."""

    content: bytes
    pages: int


class NoDocument(Exception):
    """There is no document to show.

    `words` is the text for staff (a constant is in English, to be translated where it is shown),
    and `status` the HTTP status of the page with this text. With `is_passing`, the same request may
    succeed in a minute, or after `retry_after` seconds.
    """

    def __init__(
        self, words: str, status: int, *, is_passing: bool = False, retry_after: float = 0
    ) -> None:
        super().__init__(words)
        self.words = words
        self.status = status
        self.is_passing = is_passing
        self.retry_after = retry_after


def fetch(kind: DocumentKind, facts: DocumentFacts, options: LabelOptions) -> CheckedPdf:
    """Return the document of an order. Raises NoDocument."""
    checked = check_pdfs([download(kind, facts, options)])[0]
    if checked is None:
        raise NoDocument(NO_PDF, 502)
    return checked


def download(kind: DocumentKind, facts: DocumentFacts, options: LabelOptions) -> bytes:
    """Return what the service sends, not yet checked; safe in any thread. Raises NoDocument."""
    if reason := unavailable_reason(kind, facts, options):
        raise NoDocument(reason, 404)
    try:
        with kind.fetch(service().within(SECONDS), facts, options) as document:
            return b"".join(document)
    except errors.Missing as error:
        raise NoDocument(kind.missing, 404) from error
    except errors.Refused as error:
        raise NoDocument(_refusal(error), 502) from error
    except errors.Malformed as error:
        words = TOO_LARGE if error.reason == "too large" else NO_PDF
        raise NoDocument(words, 502) from error
    except errors.Limited as error:
        raise NoDocument(LATER, 503, is_passing=True, retry_after=error.retry_after) from error
    except errors.ServiceError as error:
        raise NoDocument(LATER, 503, is_passing=True) from error


def unavailable_reason(kind: DocumentKind, facts: DocumentFacts, options: LabelOptions) -> str:
    """Return why calling the service would be useless, or an empty text."""
    if reason := kind.unavailable_reason(facts):
        return reason
    without = options.collected_at is None and facts.collected is None
    return NO_TIME if kind.is_labels and without else ""


def check_pdfs(contents: Sequence[bytes]) -> list[CheckedPdf | None]:
    """Return each content as a document; None for one that cannot be opened."""
    pages = pdf_files.page_counts(contents)
    return [
        CheckedPdf(content, count) if count else None
        for content, count in zip(contents, pages, strict=True)
    ]


def _refusal(error: errors.Refused) -> str:
    if isinstance(error, errors.Denied) and error.status == 401:
        return gettext("The service did not accept our key. Notify an administrator.")
    if not error.message:
        return gettext("The service refused to send this document.")
    return gettext("The service refused to send this document: “%(message)s”") % {
        "message": error.message
    }
