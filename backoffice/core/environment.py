"""Reading the environment: each value as what it must be, or a sentence that names the variable.

What is wrong is gathered, and told all at once by `raise_errors`: until then its default stands in.
Values are never quoted: they may be secrets.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_errors: Final[list[str]] = []


def clear_errors() -> None:
    _errors.clear()


def add_error(words: str) -> None:
    _errors.append(words)


def raise_errors() -> None:
    """Raises ImproperlyConfigured where something is wrong: a line for each."""
    if _errors:
        raise ImproperlyConfigured("\n".join(dict.fromkeys(_errors)))


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool) -> bool:
    said = text(name).lower()
    if said in ("1", "true", "yes", "on"):
        return True
    if said in ("0", "false", "no", "off"):
        return False
    if said:
        add_error(f"{name} must be 1 or 0.")
    return default


def number(name: str, default: int, low: int, high: int) -> int:
    said = text(name, str(default))
    if not said.isascii() or not said.isdigit() or not low <= int(said) <= high:
        add_error(f"{name} must be a whole number from {low} to {high}.")
        return default
    return int(said)


def rate(name: str, default: str) -> tuple[int, int]:
    """So many in so many seconds, written as `600/min`."""
    most, _, unit = text(name, default).partition("/")
    seconds = {"sec": 1, "min": 60, "hour": 3600}.get(unit)
    if seconds is None or not (most.isascii() and most.isdigit() and int(most[:10]) > 0):
        add_error(f"{name} must be a number and sec, min or hour, as {default}.")
        return 1, 1
    return int(most), seconds


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    said = text(name, default)
    if said not in allowed:
        add_error(f"{name} must be {' or '.join(allowed)}.")
        return default
    return said


def word_list(name: str, default: str = "") -> list[str]:
    return split_list(text(name, default))


def split_list(said: str) -> list[str]:
    return [word.strip() for word in said.split(",") if word.strip()]


def url(name: str, default: str, schemes: tuple[str, ...]) -> str:
    """An address of one of `schemes`."""
    said = text(name, default)
    try:
        parts = urlsplit(said)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        add_error(f"{name} is not an address.")
        return default
    if parts.scheme not in schemes or not (parts.netloc or parts.path) or not port_is_sound:
        add_error(f"{name} must be an address starting with {schemes[0]}://")
        return default
    return said


def header_name(name: str, default: str) -> str:
    said = text(name, default)
    if not said.isascii() or not said.replace("-", "").isalnum():
        add_error(f"{name} must be the name of an HTTP header.")
        return default
    return said


def production_signs(
    environment: str, api_key: str, database_url: str, redis_url: str, hosts: list[str]
) -> Iterator[str]:
    """What of these settings no development machine has, each as the end of a sentence."""
    if environment == "production":
        yield "MANAGEMENT_ENV is production"
    if api_key.startswith("pk_"):
        yield "SERVICE_API_KEY is a key of production"
    for name, url in (("DATABASE_URL", database_url), ("REDIS_URL", redis_url)):
        if not _is_on_this_machine(url):
            yield f"{name} names a server on another machine"
    if any(host.startswith(".") for host in hosts):
        yield "ALLOWED_HOSTS accepts every name of a domain"


def _is_on_this_machine(url: str) -> bool:
    """Whether a server is reached by a socket of this machine or a loopback address."""
    try:
        parts = urlsplit(url)
        host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    except ValueError:
        return True  # Refused elsewhere: it is no address.
    host = unquote(host)
    if not host or host.startswith("/") or host == "localhost" or parts.scheme == "unix":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def field_keys(said: str) -> dict[int, bytes]:
    """Keys by id."""
    keys: dict[int, bytes] = {}
    for each in split_list(said):
        number, _, packed = each.partition(":")
        try:
            key = b64decode(packed, validate=True)
        except ValueError:
            key = b""
        sound = number.isascii() and number.isdigit() and 1 <= int(number[:4]) <= 255
        if not sound or len(key) != 32 or int(number) in keys:
            add_error(
                "FIELD_KEYS must be id:key, comma separated: each id a number of its own from 1 to "
                "255, each key 32 random bytes in base64."
            )
            return {}
        keys[int(number)] = key
    if said and not keys:
        add_error("FIELD_KEYS must hold a key.")
    return keys


def writable_file(name: str) -> Path | None:
    """A file that lines are added to, made if it is not there; it need not be readable."""
    given = text(name)
    if not given:
        return None
    try:
        with Path(given).open("a"):
            pass
    except OSError as error:
        add_error(f"{name} cannot be written: {error.strerror}.")
    return Path(given)


def hash_list_file(name: str) -> Path | None:
    """A file whose lines begin with a SHA-1 in hexadecimal."""
    said = text(name)
    if not said:
        return None
    try:
        with Path(said).open("rb") as file:
            first = file.read(40)
    except OSError as error:
        add_error(f"{name} cannot be read: {error.strerror}.")
        return None
    if len(first) < 40 or first.strip(b"0123456789ABCDEFabcdef"):
        add_error(f"{name} must hold lines that begin with a SHA-1.")
        return None
    return Path(said)
