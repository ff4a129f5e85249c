"""Cost of a password hash: the real one, and a minimal one where time does not matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher

MINIMAL: Final = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}
PRODUCTION: Final = {name: getattr(Argon2PasswordHasher, name) for name in MINIMAL}


def set_cost(patch: pytest.MonkeyPatch, cost: Mapping[str, int]) -> None:
    for name, value in cost.items():
        patch.setattr(Argon2PasswordHasher, name, value)
