"""Typed client of the remote health data and lab testing service. It does not use Django."""

from backoffice.service import errors
from backoffice.service.call import Clock, Watch
from backoffice.service.client import Service
from backoffice.service.exchange import Document
from backoffice.service.field_by_field import DroppedField
from backoffice.service.payload import (
    Payload,
    Reader,
    Record,
    RecordPage,
    RequestBody,
    Unreadable,
    digest_of,
)

__all__ = [
    "Clock",
    "Document",
    "DroppedField",
    "Payload",
    "Reader",
    "Record",
    "RecordPage",
    "RequestBody",
    "Service",
    "Unreadable",
    "Watch",
    "digest_of",
    "errors",
]
