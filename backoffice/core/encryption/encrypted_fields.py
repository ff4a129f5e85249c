"""Columns that hold sealed values: opened when they are read from a row, sealed when it is saved.

A value is bound to its row by the primary key, or by the unique column that `by` names. What stands
in a column from before there were keys is read as it is, and sealed by `manage.py rotatekeys`. A
value that cannot be opened is shown as `UNREADABLE`, or as empty JSON, or as no day; saving its
row leaves it as it is.

Rows open their values themselves: `.values()` and SQL give them sealed. Empty values (`""`, `{}`)
stand as they are; anything else is written with its row, never by `.update()`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import Any, Final

from django.apps import apps
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from backoffice.core.encryption import cipher

logger = logging.getLogger(__name__)

UNREADABLE: Final = "cannot be read"


class EncryptedToken(str):
    """Sealed text as it stands in the database."""


class EncryptedBlob(bytes):
    """Sealed bytes as they stand in the database."""


class _DecryptingAttribute(DeferredAttribute):
    """Opens when it is read: rows of a list pay for what they show."""

    field: EncryptedField

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = super().__get__(instance, owner)
        if not isinstance(value, EncryptedToken | EncryptedBlob):
            return value
        field = self.field
        found = field.shown(value, getattr(instance, field.bound.attname))
        if found != field.unreadable():
            instance.__dict__[field.attname] = found
        return found

    def __set__(self, instance: Any, value: Any) -> None:
        # With this, Python asks `__get__` even where the row has a value.
        instance.__dict__[self.field.attname] = value


class EncryptedField(models.Field):  # type: ignore[type-arg]
    """What the three kinds have in common."""

    descriptor_class = _DecryptingAttribute

    def __init__(self, *args: Any, by: str = "pk", **options: Any) -> None:
        self.by = by
        super().__init__(*args, **options)

    def contribute_to_class(self, cls: Any, name: str, private_only: bool = False) -> None:
        super().contribute_to_class(cls, name, private_only)
        # Also where the column has another kind in an abstract model above.
        setattr(cls, self.attname, self.descriptor_class(self))

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "by": self.by} if self.by != "pk" else options

    def place_name(self) -> str:
        return f"{self.model._meta.db_table}.{self.column}"

    def place_of(self, bound: object) -> str:
        """Of the row with this primary key, or this value in the column that `by` names."""
        return f"{self.place_name()}:{bound}"

    @cached_property
    def bound(self) -> Any:
        """The field whose value binds this one to its row."""
        meta = self.model._meta
        return meta.pk if self.by == "pk" else meta.get_field(self.by)

    def shown(self, value: Any, bound: object) -> Any:
        """A value of a row that `bound` names, opened where it is sealed and can be."""
        if not isinstance(value, EncryptedToken | EncryptedBlob):
            return value
        try:
            return self.opened(value, bound)
        except cipher.DecryptionError as error:
            logger.warning("a value of %s cannot be read: %s", self.place_name(), error)
            return self.unreadable()

    def opened(self, value: EncryptedToken | EncryptedBlob, bound: object) -> Any:
        """Raises CannotOpen."""
        return self.python(self.open(value, self.place_of(self.bound.to_python(bound))))

    def stored(self, value: Any, bound: object) -> Any:
        """A value as it is to stand in a row that `bound` names."""
        if isinstance(value, EncryptedToken | EncryptedBlob) or not value:
            return value
        if bound is None:
            raise TypeError(f"{self.place_name()} is sealed for a row that is not named yet.")
        return self.seal(self.plain(value), self.place_of(self.bound.to_python(bound)))

    def pre_save(self, row: Any, add: bool) -> Any:
        return self.stored(row.__dict__.get(self.attname), getattr(row, self.bound.attname))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        raise NotImplementedError

    def plain(self, value: Any) -> Any:
        """The value as it is sealed."""
        return value

    def python(self, plain: Any) -> Any:
        return plain

    def seal(self, plain: Any, place: str) -> EncryptedToken | EncryptedBlob:
        return EncryptedToken(cipher.encrypt(plain, place))

    def open(self, value: Any, place: str) -> Any:
        return cipher.decrypt(value, place)

    def unreadable(self) -> Any:
        return UNREADABLE

    def get_prep_value(self, value: Any) -> Any:
        if value and not isinstance(value, EncryptedToken | EncryptedBlob):
            raise TypeError(f"{self.place_name()} is sealed: it is written with its row.")
        return value


class EncryptedTextField(EncryptedField, models.TextField):  # type: ignore[type-arg]
    """Text, sealed as text."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return EncryptedToken(value) if value and cipher.is_encrypted(value) else self.python(value)


class EncryptedDateField(EncryptedTextField):
    """A day, sealed as the text of its ISO form."""

    _pyi_private_set_type: date | None  # type: ignore[assignment]
    _pyi_private_get_type: date  # type: ignore[assignment]

    def plain(self, value: date) -> str:
        return value.isoformat()

    def python(self, plain: str | None) -> date | None:
        return date.fromisoformat(plain) if plain else None

    def unreadable(self) -> None:
        return None


class EncryptedJSONField(EncryptedField, models.JSONField):
    """JSON, sealed as a JSON string."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        found = models.JSONField.from_db_value(self, value, expression, connection)
        sealed = isinstance(found, str) and cipher.is_encrypted(found)
        return EncryptedToken(found) if sealed else found

    def plain(self, value: Any) -> str:
        return json.dumps(value)

    def python(self, plain: str) -> Any:
        return json.loads(plain)

    def unreadable(self) -> dict[str, Any]:
        return {}


class EncryptedBinaryField(EncryptedField, models.BinaryField):  # type: ignore[type-arg]
    """Bytes, sealed as bytes."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        found = bytes(value)
        return EncryptedBlob(found) if cipher.is_encrypted(found) else found

    def plain(self, value: Any) -> bytes:
        return bytes(value)

    def seal(self, plain: bytes, place: str) -> EncryptedBlob:
        return EncryptedBlob(cipher.encrypt_bytes(plain, place))

    def open(self, value: bytes, place: str) -> bytes:
        return cipher.decrypt_bytes(value, place)

    def unreadable(self) -> bytes:
        return UNREADABLE.encode()


def encrypted_fields() -> Iterator[EncryptedField]:
    """Of all tables."""
    for model in apps.get_models():
        yield from encrypted_fields_of(model)


def encrypted_fields_of(model: type[models.Model]) -> list[EncryptedField]:
    return [field for field in model._meta.concrete_fields if isinstance(field, EncryptedField)]


def is_unreadable(row: models.Model, name: str) -> bool:
    """Whether the field `name` of `row` is sealed and the keys that are set do not open it."""
    found = {field.name: field for field in encrypted_fields_of(type(row))}[name]
    getattr(row, name)  # Replaces what can be opened.
    return isinstance(row.__dict__.get(found.attname), EncryptedToken | EncryptedBlob)


def decrypt_rows(
    model: type[models.Model], names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """Rows as `.values_list()` gives them, opened; the first of `names` is the one that binds."""
    fields = {field.name: field for field in encrypted_fields_of(model)}
    found = [fields.get(name) for name in names]
    return [
        tuple(
            value if field is None else field.shown(value, row[0])
            for field, value in zip(found, row, strict=True)
        )
        for row in rows
    ]


# Names in migrations that were written before the rename.
SealedText = EncryptedTextField
SealedDate = EncryptedDateField
SealedJSON = EncryptedJSONField
SealedBytes = EncryptedBinaryField
