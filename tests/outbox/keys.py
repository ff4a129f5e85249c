"""Keys of the sandbox's two teams."""

from __future__ import annotations

from collections.abc import Callable

OUR_KEY = "sk_us_local_sandbox"
OTHER_KEY = "sk_us_local_other_team"
UseKey = Callable[[str], None]
"""Sets the API key, as a restart with another setting does."""
