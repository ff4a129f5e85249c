"""SQL names no table of a higher app (architecture: which app may import which)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from django.apps import apps

ROOT: Final = Path(__file__).resolve().parents[1]
LEVELS: Final = (
    *("backoffice/core", "backoffice/accounts", "backoffice/audit", "backoffice/mirror"),
    *("backoffice/sync", "backoffice/outbox", "backoffice/pages", "backoffice/team"),
    *("backoffice/api", "patients", "labs", "orders", "patients/wearables", "webhooks"),
)
"""Folders of apps, lowest first."""
SAME_LEVEL: Final = {"patients/wearables": ("orders",)}
"""Apps on the same level, which may not name each other either."""
TOP_LEVEL: Final = ("backoffice/management", "backoffice/operations")
"""These may use all apps."""
SQL: Final = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|JOIN|TRIGGER|TRUNCATE|LOCK)\b", re.IGNORECASE
)


def tables_of(folder: str) -> set[str]:
    config = apps.get_app_config(folder.rpartition("/")[2])
    models = config.get_models(include_auto_created=True)
    return {model._meta.db_table for model in models}


def files_of(folder: str) -> list[Path]:
    others = [*(one for one in LEVELS if one.startswith(f"{folder}/")), *TOP_LEVEL]
    inner = [ROOT / other for other in others]
    return [
        path
        for kind in ("*.py", "*.sql")
        for path in sorted((ROOT / folder).rglob(kind))
        if "migrations" not in path.parts and not any(path.is_relative_to(one) for one in inner)
    ]


def sql_of(path: Path) -> str:
    """Return the SQL in a file: all of an .sql file, or the strings with SQL keywords of a
    module."""
    text = path.read_text()
    if path.suffix == ".sql":
        return re.sub(r"--.*", "", text)
    strings = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(one for one in strings if SQL.search(one))


@pytest.mark.parametrize("folder", LEVELS)
def test_sql_names_no_table_of_higher_app(folder: str) -> None:
    others = (*LEVELS[LEVELS.index(folder) + 1 :], *SAME_LEVEL.get(folder, ()))
    forbidden = {table for other in others for table in tables_of(other)}
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in files_of(folder)
        for word in re.findall(r"\w+", sql_of(path))
        if word in forbidden
    }
    assert not found, "\n".join(sorted(found))
