"""Model fields that encrypt on save and decrypt on access.

A value is bound to its row by the primary key, or by the unique column that `by` names. A value
from before there were keys is read as it is, and encrypted by `manage.py rotatekeys`. A value that
cannot be decrypted reads as `UNREADABLE`, as empty JSON, or as no date; saving its row leaves the
stored value as it is.

Only model instances decrypt: `.values()` and SQL return encrypted values. Empty values (`""`, `{}`)
are stored as they are. Any other value is saved with its row, never with `.update()`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
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
    """Encrypted text as stored in the database."""


class EncryptedBlob(bytes):
    """Encrypted bytes as stored in the database."""


class _DecryptingAttribute(DeferredAttribute):
    """Decrypt on first access, so that a list only decrypts what it shows."""

    field: EncryptedField

    def __get__(
        self, instance: models.Model | None, owner: type[models.Model] | None = None
    ) -> Any:
        value = super().__get__(instance, owner)
        if not isinstance(value, EncryptedToken | EncryptedBlob):
            return value
        field = self.field
        decrypted = field.value_or_unreadable(value, getattr(instance, field.binding_field.attname))
        if decrypted != field.unreadable_value():
            instance.__dict__[field.attname] = decrypted
        return decrypted

    def __set__(self, instance: models.Model, value: object) -> None:
        # A descriptor with `__set__` takes precedence over the instance dictionary.
        instance.__dict__[self.field.attname] = value


class EncryptedField(models.Field):  # type: ignore[type-arg]
    """Base class of the encrypted fields."""

    descriptor_class = _DecryptingAttribute

    def __init__(self, *args: Any, by: str = "pk", **options: Any) -> None:
        self.by = by
        super().__init__(*args, **options)

    def contribute_to_class(
        self, cls: type[models.Model], name: str, private_only: bool = False
    ) -> None:
        super().contribute_to_class(cls, name, private_only)
        # Also when an abstract base model has another field of this name.
        setattr(cls, self.attname, self.descriptor_class(self))

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "by": self.by} if self.by != "pk" else options

    def place_name(self) -> str:
        return f"{self.model._meta.db_table}.{self.column}"

    def place_of(self, binding_value: object) -> str:
        """Return the place of the row with this primary key, or this value of the `by` column."""
        return f"{self.place_name()}:{self.binding_field.to_python(binding_value)}"

    @cached_property
    def binding_field(self) -> Any:
        """The field whose value binds this one to its row."""
        meta = self.model._meta
        return meta.pk if self.by == "pk" else meta.get_field(self.by)

    def value_or_unreadable(self, value: Any, binding_value: object) -> Any:
        """Return a decrypted value of this row; `unreadable_value()` when that fails."""
        if not isinstance(value, EncryptedToken | EncryptedBlob):
            return value
        try:
            return self.decrypted_value(value, binding_value)
        except cipher.DecryptionError as error:
            logger.warning("a value of %s cannot be read: %s", self.place_name(), error)
            return self.unreadable_value()

    def decrypted_value(self, value: EncryptedToken | EncryptedBlob, binding_value: object) -> Any:
        """Decrypt a value of the row with `binding_value`. Raises DecryptionError."""
        return self.from_plaintext(self.decrypt(value, self.place_of(binding_value)))

    def stored_value(self, value: Any, binding_value: object) -> Any:
        """Return a value as it is stored in the row with `binding_value`."""
        if isinstance(value, EncryptedToken | EncryptedBlob) or not value:
            return value
        if binding_value is None:
            raise TypeError(f"{self.place_name()} is encrypted for its row, which has no key yet.")
        return self.encrypt(self.to_plaintext(value), self.place_of(binding_value))

    def pre_save(self, row: models.Model, add: bool) -> Any:
        return self.stored_value(
            row.__dict__.get(self.attname), getattr(row, self.binding_field.attname)
        )

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        raise NotImplementedError

    def to_plaintext(self, value: Any) -> Any:
        """Return the plaintext of a Python value."""
        return value

    def from_plaintext(self, plaintext: Any) -> Any:
        return plaintext

    def encrypt(self, plaintext: Any, place: str) -> EncryptedToken | EncryptedBlob:
        return EncryptedToken(cipher.encrypt(plaintext, place))

    def decrypt(self, value: Any, place: str) -> Any:
        return cipher.decrypt(value, place)

    def unreadable_value(self) -> Any:
        return UNREADABLE

    def get_prep_value(self, value: Any) -> Any:
        if value and not isinstance(value, EncryptedToken | EncryptedBlob):
            raise TypeError(f"{self.place_name()} is encrypted: save it with its row.")
        return value


class EncryptedTextField(EncryptedField, models.TextField):  # type: ignore[type-arg]
    """Text, encrypted as text."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return (
            EncryptedToken(value)
            if value and cipher.is_encrypted(value)
            else self.from_plaintext(value)
        )


class EncryptedDateField(EncryptedTextField):
    """A date, encrypted as ISO text."""

    _pyi_private_set_type: date | None  # type: ignore[assignment]
    _pyi_private_get_type: date  # type: ignore[assignment]

    def to_plaintext(self, value: date) -> str:
        return value.isoformat()

    def from_plaintext(self, plaintext: str | None) -> date | None:
        return date.fromisoformat(plaintext) if plaintext else None

    def unreadable_value(self) -> None:
        return None


class EncryptedJSONField(EncryptedField, models.JSONField):
    """JSON, encrypted as a JSON string."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        stored = models.JSONField.from_db_value(self, value, expression, connection)
        is_token = isinstance(stored, str) and cipher.is_encrypted(stored)
        return EncryptedToken(stored) if is_token else stored

    def to_plaintext(self, value: Any) -> str:
        return json.dumps(value)

    def from_plaintext(self, plaintext: str) -> Any:
        return json.loads(plaintext)

    def unreadable_value(self) -> dict[str, object]:
        return {}


class EncryptedBinaryField(EncryptedField, models.BinaryField):  # type: ignore[type-arg]
    """Bytes, encrypted as bytes."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        stored = bytes(value)
        return EncryptedBlob(stored) if cipher.is_encrypted(stored) else stored

    def to_plaintext(self, value: Any) -> bytes:
        return bytes(value)

    def encrypt(self, plaintext: bytes, place: str) -> EncryptedBlob:
        return EncryptedBlob(cipher.encrypt_bytes(plaintext, place))

    def decrypt(self, value: bytes, place: str) -> bytes:
        return cipher.decrypt_bytes(value, place)

    def unreadable_value(self) -> bytes:
        return UNREADABLE.encode()


def encrypted_fields() -> Iterator[EncryptedField]:
    """Yield the encrypted fields of all models."""
    for model in apps.get_models():
        yield from encrypted_fields_of(model)


def encrypted_fields_of(model: type[models.Model]) -> list[EncryptedField]:
    return [field for field in model._meta.concrete_fields if isinstance(field, EncryptedField)]


def is_unreadable(row: models.Model, name: str) -> bool:
    """Return whether the field `name` of `row` cannot be decrypted with the configured keys."""
    encrypted_field = {field.name: field for field in encrypted_fields_of(type(row))}[name]
    getattr(row, name)  # Decrypts the value when that is possible.
    return isinstance(row.__dict__.get(encrypted_field.attname), EncryptedToken | EncryptedBlob)
