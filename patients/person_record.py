"""The complete record of a person with the changes of a form (users.md 3).

The service accepts demographics only as a whole. A write begins with the record as received, so
that fields without a form field (income, fields that the service adds later) do not change.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Mapping
from datetime import date
from typing import Final

import msgspec

from backoffice.service.json_text import JsonObject
from patients.models import Demographics

DEFAULT_COUNTRY: Final = "US"
ADDRESS_LINES: Final = ("first_line", "second_line", "city", "state", "zip", "country")
PROXY_NAMES: Final = ("proxy_first_name", "proxy_last_name", "proxy_phone_number")
PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: (name,)
        for name in (
            *("first_name", "last_name", "dob", "gender", "phone_number", "email"),
            *("race", "ethnicity", "sexual_orientation", "gender_identity"),
        )
    },
    **{name: ("address", name) for name in (*ADDRESS_LINES, "access_notes")},
    **{
        f"proxy_{name}": ("medical_proxy", name)
        for name in ("first_name", "last_name", "phone_number", "email")
    },
    **{f"proxy_{name}": ("medical_proxy", "address", name) for name in ADDRESS_LINES},
}
"""The path of each form field in the record."""
NULLABLE: Final = frozenset(
    {
        *("second_line", "access_notes", "proxy_second_line", "proxy_email"),
        *("race", "ethnicity", "sexual_orientation", "gender_identity"),
    }
)


def record_digest(person: Demographics | None) -> str:
    """Return a digest of the record as received, unknown fields included; empty for None."""
    if person is None:
        return ""
    return content_digest(person.record_at())


def content_digest(record: JsonObject) -> str:
    """Return the digest of a decoded record."""
    content = msgspec.json.encode(record, order="deterministic")
    return hashlib.blake2b(content).hexdigest()[:32]


def lives_with_patient(record: JsonObject) -> bool:
    """Whether the proxy has the address of the patient, or no address."""
    proxy, home = _nested(record, "medical_proxy"), _nested(record, "address")
    proxy_address = _nested(proxy, "address")
    if not proxy_address:
        return True
    return all(_line(proxy_address, name) == _line(home, name) for name in ADDRESS_LINES)


def _line(address: JsonObject, name: str) -> str:
    line = address.get(name)
    if name == "zip":
        line = line or address.get("zip_code")
    if name == "country":
        line = line or DEFAULT_COUNTRY
    return str(line or "").strip()


def person_body(
    record: JsonObject, data: Mapping[str, object], changed: Collection[str]
) -> JsonObject:
    """Return `record` with the `changed` fields of `data`, and the fields that it lacks."""
    body = copy.deepcopy(record)
    had_proxy = bool(_nested(body, "medical_proxy"))
    address = _set_nested(body, "address")
    _rename_zip_code(address)
    for name, path in PATHS.items():
        if path[0] != "medical_proxy":
            _set_value(body, path, name, data, changed)
    address.setdefault("country", DEFAULT_COUNTRY)
    if not any(data.get(name) for name in PROXY_NAMES):
        if had_proxy and set(PROXY_NAMES) & set(changed):
            body["medical_proxy"] = None
        return body
    proxy = _set_nested(body, "medical_proxy")
    proxy_address = _set_nested(proxy, "address")
    _rename_zip_code(proxy_address)
    is_moved = not had_proxy or {"proxy_same_address", *ADDRESS_LINES} & set(changed)
    for name, path in PATHS.items():
        if path[0] == "medical_proxy" and len(path) == 2:
            _set_value(body, path, name, data, changed)
    if data.get("proxy_same_address"):
        if is_moved or not proxy_address:
            proxy_address |= {name: address[name] for name in ADDRESS_LINES if name in address}
    else:
        for line in ADDRESS_LINES:
            name = f"proxy_{line}"
            _set_value(body, PATHS[name], name, data, changed)
    proxy_address.setdefault("country", DEFAULT_COUNTRY)
    return body


def _set_value(
    body: JsonObject,
    path: tuple[str, ...],
    name: str,
    data: Mapping[str, object],
    changed: Collection[str],
) -> None:
    *parents, key = path
    part = body
    for parent in parents:
        part = part[parent]
    value = data.get(name)
    if key in part and name not in changed:
        return
    if value in ("", None):
        if name in NULLABLE:
            if key in part:
                part[key] = None
            return
        value = value or ""
    part[key] = value.isoformat() if isinstance(value, date) else value


def _nested(record: JsonObject, name: str) -> JsonObject:
    nested = record.get(name)
    return nested if isinstance(nested, dict) else {}


def _set_nested(record: JsonObject, name: str) -> JsonObject:
    """Return the object of this name, after adding an empty one if the record has none."""
    record[name] = nested = _nested(record, name)
    return nested


def _rename_zip_code(address: JsonObject) -> None:
    """Rename the postal code to `zip`, as requests spell it (users.md 3)."""
    zip_code = address.pop("zip_code", None)
    if zip_code and not address.get("zip"):
        address["zip"] = zip_code
