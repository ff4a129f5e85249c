"""Colors for the terminal, where it has them."""

from __future__ import annotations

import os
import sys
from typing import Final

BOLD: Final = "1"
GREEN: Final = "1;32"


def colored(text: str, color: str) -> str:
    """Return the text in a color; unchanged in files and pipes, and if NO_COLOR is set."""
    has_colors = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[{color}m{text}\x1b[0m" if has_colors else text
