"""The installation row: which environment and keys this database belongs to.

It is created with the tables and verified when a process starts. Data of the service's sandbox and
production, or of two regions, must not be mixed in one database. With other encryption keys than
those it was written with, half of the data could not be read.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from functools import cache
from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, OperationalError, ProgrammingError, connection

from backoffice.core.encryption.encrypted_fields import UNREADABLE
from backoffice.core.models import Installation

logger = logging.getLogger(__name__)

INSTALLATION_ID: Final = UUID(int=1)


def environment() -> str:
    return f"{settings.MANAGEMENT_ENV} {settings.MANAGEMENT_REGION}"


def ensure(using: str = DEFAULT_DB_ALIAS) -> Installation:
    """Return the row, creating it if it is missing.

    Raises ImproperlyConfigured when the database has another environment or other keys.
    """
    rows = Installation.objects.using(using)
    if not rows.filter(pk=INSTALLATION_ID).exists():
        row = Installation(
            pk=INSTALLATION_ID, environment=environment(), secret=secrets.token_hex(32)
        )
        rows.bulk_create([row], ignore_conflicts=True)
    row = rows.get(pk=INSTALLATION_ID)
    if row.environment != environment():
        raise ImproperlyConfigured(
            f"This database holds data of the service's {row.environment}, and the settings are of "
            f"{environment()}. Set DATABASE_URL to another database, or the keys back."
        )
    if row.secret == UNREADABLE:
        raise ImproperlyConfigured(
            "FIELD_KEYS are not the keys this database was written with: its encrypted values "
            "could not be read. Add the key that was removed or changed."
        )
    return row


def verify() -> None:
    """Check the database when a process starts. Raises ImproperlyConfigured.

    A process also starts while the database cannot be reached or has no tables yet.
    """
    try:
        ensure()
    except (OperationalError, ProgrammingError) as error:
        logger.warning("the database could not be checked: %s", type(error).__name__)
    finally:
        connection.close()  # Child processes must not inherit the connection.


def fingerprint(content: bytes) -> bytes:
    """Return 16 bytes that identify the content and reveal nothing without our keys."""
    return hashlib.blake2b(content, key=_secret(), digest_size=16).digest()


@cache
def _secret() -> bytes:
    return bytes.fromhex(ensure().secret)
