"""`docs/inventory.md` is whole: no column without a class, no cryptography that is not listed."""

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
from tests.evidence import missing
from tests.test_sources import sources

PAGE: Final = (Path(__file__).resolve().parent.parent / "docs" / "inventory.md").read_text()
CLASSES: Final = ("public", "internal", "personal", "health", "secret")
"""From the least sensitive to the most."""
_CLASS: Final = "|".join(CLASSES)
_TABLES: Final = re.compile(rf"^\| ({_CLASS}) \| `(\w+)` \| (.+) \|$", re.M)
_COLUMNS: Final = re.compile(rf"^\| `(\w+)\.(\w+)` \| ({_CLASS}) \| (.+) \|$", re.M)
_CRYPTOGRAPHY: Final = re.compile(
    r"(hashlib|hmac|secrets|ssl|jwt|cryptography(\..+)?|django\.core\.signing|"
    r"django\.contrib\.auth\.(hashers|tokens)|django\.utils\.crypto)"
)


def tables() -> list[tuple[str, str]]:
    """Each table that the page names, as `app.Model`, and its class."""
    return [
        (f"{app}.{name}", said)
        for said, app, names in _TABLES.findall(PAGE)
        for name in re.findall(r"`(\w+)`", names)
    ]


def columns() -> list[tuple[str, str, str]]:
    """Each column with a class of its own: its table, its name, the class."""
    return [
        (f"{app}.{table}", name, said)
        for app, table, said, names in _COLUMNS.findall(PAGE)
        for name in re.findall(r"`(\w+)`", names)
    ]


def kept() -> dict[str, type[models.Model]]:
    found = apps.get_models(include_auto_created=True)
    return {model._meta.label: model for model in found if not model._meta.proxy}


def more_sensitive(one: str, other: str) -> bool:
    return CLASSES.index(one) > CLASSES.index(other)


def test_every_table_has_one_class() -> None:
    named = Counter(name for name, _ in tables())
    assert {name for name, times in named.items() if times > 1} == set()
    assert named.keys() == kept().keys()


def test_every_column_has_one_class_and_new_ones_the_strictest() -> None:
    of_table = dict(tables())
    named = Counter((table, name) for table, name, _ in columns())
    assert {one for one, times in named.items() if times > 1} == set()
    for table, name, said in columns():
        assert name in {field.name for field in kept()[table]._meta.local_fields}, (table, name)
        assert more_sensitive(of_table[table], said), (table, name)


def test_what_is_sealed_or_leads_to_a_patient_is_classed_as_that() -> None:
    of_table = dict(tables())
    of_column = {(table, name): said for table, name, said in columns()}
    wrong = [
        f"{label}.{field.name}"
        for label, model in kept().items()
        for field in model._meta.local_fields
        if (isinstance(field, EncryptedField) or _leads_to_a_patient(field, of_table))
        and of_column.get((label, field.name), of_table[label]) not in ("health", "secret")
    ]
    assert wrong == []


def _leads_to_a_patient(field: models.Field[Any, Any], of_table: dict[str, str]) -> bool:
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
    assert found - {model._meta.db_table for model in kept().values()} == {"django_migrations"}


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


def test_what_it_names_exists() -> None:
    assert missing(PAGE) == []
