"""Recovery codes: shown once, and kept as hashes from then on.

django-allauth makes them from a seed, and keeps room for codes that come from elsewhere
(`migrated_codes`), which it strikes out as they are used. Once they have been shown, hashes take
the place of the seed there; sealed like the seed was, as a code of eight digits can be guessed from
its hash in time.
"""

from __future__ import annotations

from typing import Any

from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import encrypt
from django.contrib.auth.hashers import check_password, make_password
from django.db import transaction


def store_hashes(user: Any) -> None:
    """Instead of the seed of the codes that `user` has just been shown."""
    with transaction.atomic():
        rows = Authenticator.objects.select_for_update()
        for kept in rows.filter(user=user, type=Authenticator.Type.RECOVERY_CODES):
            if "seed" in kept.data:
                hashes = [make_password(code) for code in kept.wrap().get_unused_codes()]
                del kept.data["seed"]
                kept.data["migrated_codes"] = [encrypt(one) for one in hashes]
                kept.save(update_fields=["data"])


def use_code(kept: Authenticator, code: str) -> bool:
    """Whether `code` is one of them and was not used before; it is used now."""
    if len(code) != app_settings.RECOVERY_CODE_DIGITS:
        return False  # to compare hashes takes long
    if "seed" in kept.data:
        # Of the time before hashes, or never shown to anybody.
        return bool(kept.wrap().validate_code(code))
    codes = kept.wrap()
    found = (one for one in codes.get_unused_codes() if check_password(code, one))
    return any(codes.validate_code(one) for one in found)
