"""`docs/inventory.md` is complete: every column has a class, all cryptography is listed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from django.apps import apps
from django.db import connection, models

from backoffice.core.encryption.encrypted_fields import EncryptedField
from tests.evidence import missing_names
from tests.test_sources import sources

PAGE: Final = (Path(__file__).resolve().parent.parent / "docs" / "inventory.md").read_text()
CLASSES: Final = ("public", "internal", "personal", "health", "secret")
"""From the least to the most sensitive."""
_CLASS: Final = "|".join(CLASSES)
_TABLES: Final = re.compile(rf"^\| ({_CLASS}) \| `(\w+)` \| (.+) \|$", re.M)
_COLUMNS: Final = re.compile(rf"^\| `(\w+)\.(\w+)` \| ({_CLASS}) \| (.+) \|$", re.M)
_CRYPTOGRAPHY: Final = re.compile(
    r"(hashlib|hmac|secrets|ssl|jwt|cryptography(\..+)?|django\.core\.signing|"
    r"django\.contrib\.auth\.(hashers|tokens)|django\.utils\.crypto)"
)


def tables() -> list[tuple[str, str]]:
    """Return each table that the page names, as `app.Model`, and its class."""
    return [
        (f"{app}.{name}", level)
        for level, app, names in _TABLES.findall(PAGE)
        for name in re.findall(r"`(\w+)`", names)
    ]


def columns() -> list[tuple[str, str, str]]:
    """Return each column with its own class: table, name, class."""
    return [
        (f"{app}.{table}", name, level)
        for app, table, level, names in _COLUMNS.findall(PAGE)
        for name in re.findall(r"`(\w+)`", names)
    ]


def all_models() -> dict[str, type[models.Model]]:
    found = apps.get_models(include_auto_created=True)
    return {model._meta.label: model for model in found if not model._meta.proxy}


def is_more_sensitive(one: str, other: str) -> bool:
    return CLASSES.index(one) > CLASSES.index(other)


def test_every_table_has_one_class() -> None:
    named = Counter(name for name, _ in tables())
    assert {name for name, times in named.items() if times > 1} == set()
    assert named.keys() == all_models().keys()


def test_every_column_class_is_stricter_than_its_table() -> None:
    of_table = dict(tables())
    named = Counter((table, name) for table, name, _ in columns())
    assert {one for one, times in named.items() if times > 1} == set()
    for table, name, level in columns():
        assert name in {field.name for field in all_models()[table]._meta.local_fields}, (
            table,
            name,
        )
        assert is_more_sensitive(of_table[table], level), (table, name)


def test_encrypted_and_patient_columns_are_sensitive() -> None:
    of_table = dict(tables())
    of_column = {(table, name): level for table, name, level in columns()}
    wrong = [
        f"{label}.{field.name}"
        for label, model in all_models().items()
        for field in model._meta.local_fields
        if (isinstance(field, EncryptedField) or _refers_to_patient(field, of_table))
        and of_column.get((label, field.name), of_table[label]) not in ("health", "secret")
    ]
    assert wrong == []


def _refers_to_patient(field: models.Field[Any, Any], of_table: dict[str, str]) -> bool:
    if field.name.startswith(("patient_", "subject_")):
        return True
    to = field.related_model
    return isinstance(to, type) and of_table[to._meta.label] == "health"


@pytest.mark.django_db
def test_no_table_is_unknown_to_the_models() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'p') AND NOT relispartition"
        )
        found = {name for (name,) in cursor.fetchall()}
    assert found - {model._meta.db_table for model in all_models().values()} == {
        "django_migrations"
    }


def test_every_file_that_uses_cryptography_is_listed() -> None:
    listed = PAGE.partition("\n## Cryptography\n")[2].partition("\n## ")[0]
    using = {path for path, tree in sources() if _uses_cryptography(tree)}
    assert len(using) > 20
    assert {
        path for path in using if "migrations" not in path and f"`{path}`" not in listed
    } == set()


def _uses_cryptography(tree: ast.Module) -> bool:
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module} | {f"{node.module}.{one.name}" for one in node.names}
    return any(_CRYPTOGRAPHY.fullmatch(name) for name in named)


def test_named_files_and_tests_exist() -> None:
    assert missing_names(PAGE) == []
