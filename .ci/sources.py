"""The files of the product, for the checks in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PRODUCT: Final = ("backoffice", "orders", "patients", "labs", "webhooks")


def product_files() -> Iterator[Path]:
    """Yield the Python files of the product without migrations."""
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path
