"""How much work the hash of a password is: really, and where nobody asks how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher

LEAST: Final = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}
REAL: Final = {name: getattr(Argon2PasswordHasher, name) for name in LEAST}


def works(patch: pytest.MonkeyPatch, amount: Mapping[str, int]) -> None:
    for name, value in amount.items():
        patch.setattr(Argon2PasswordHasher, name, value)
