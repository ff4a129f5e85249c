"""Recovery codes: shown once, then stored as hashes.

django-allauth derives the codes from a seed. It also has a list for codes from other systems
(`migrated_codes`), from which it removes each code that is used. Once the codes have been shown,
hashes in this list replace the seed. They are encrypted like the seed, because a code of eight
digits can be guessed from its hash in time.
"""

from __future__ import annotations

from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import encrypt
from django.contrib.auth.hashers import check_password, make_password
from django.db import transaction

from backoffice.accounts.models import User


def store_hashes(user: User) -> None:
    """Replace the seed of the codes, which `user` has just been shown, by hashes."""
    with transaction.atomic():
        rows = Authenticator.objects.select_for_update()
        for row in rows.filter(user=user, type=Authenticator.Type.RECOVERY_CODES):
            if "seed" in row.data:
                hashes = [make_password(code) for code in row.wrap().get_unused_codes()]
                del row.data["seed"]
                row.data["migrated_codes"] = [encrypt(digest) for digest in hashes]
                row.save(update_fields=["data"])


def use_code(row: Authenticator, code: str) -> bool:
    """Use up `code` and return True; False if it is no code of the user or was used before."""
    if len(code) != app_settings.RECOVERY_CODE_DIGITS:
        return False  # Comparing hashes takes long.
    if "seed" in row.data:
        # The codes are older than the hashes, or were never shown.
        return bool(row.wrap().validate_code(code))
    codes = row.wrap()
    matches = (digest for digest in codes.get_unused_codes() if check_password(code, digest))
    return any(codes.validate_code(digest) for digest in matches)
