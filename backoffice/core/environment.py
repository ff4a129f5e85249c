"""Read typed values from environment variables and collect errors that name the variable.

Errors are collected and raised all at once by `raise_errors`: until then the default is used.
Errors never quote values, which may be secrets.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from zoneinfo import available_timezones

import environ
from django.core.exceptions import ImproperlyConfigured

from backoffice.core.key_strength import PUBLISHED, weakness, weakness_of_bytes

_errors: Final[list[str]] = []


def clear_errors() -> None:
    _errors.clear()


def add_error(message: str) -> None:
    _errors.append(message)


def raise_errors() -> None:
    """Raise ImproperlyConfigured with one line for each error, if there is any."""
    if _errors:
        raise ImproperlyConfigured("\n".join(dict.fromkeys(_errors)))


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool) -> bool:
    value = text(name).lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    if value:
        add_error(f"{name} must be 1 or 0.")
    return default


def number(name: str, default: int, low: int, high: int) -> int:
    value = text(name, str(default))
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        add_error(f"{name} must be a whole number from {low} to {high}.")
        return default
    return int(value)


def rate(name: str, default: str) -> tuple[int, int]:
    """Return a count and its seconds from a rate such as `600/min`."""
    limit, _, unit = text(name, default).partition("/")
    seconds = {"sec": 1, "min": 60, "hour": 3600}.get(unit)
    if seconds is None or not (limit.isascii() and limit.isdigit() and int(limit[:10]) > 0):
        add_error(f"{name} must be a number and sec, min or hour, as {default}.")
        return 1, 1
    return int(limit), seconds


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = text(name, default)
    if value not in allowed:
        add_error(f"{name} must be {' or '.join(allowed)}.")
        return default
    return value


def word_list(name: str, default: str = "") -> list[str]:
    return split_list(text(name, default))


def split_list(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def url(name: str, default: str, schemes: tuple[str, ...]) -> str:
    """Return a URL that has one of `schemes`; empty if there is neither a value nor a default."""
    value = text(name, default)
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        is_valid_port = parts.port is None or parts.port > 0
    except ValueError:
        add_error(f"{name} is not an address.")
        return default
    if parts.scheme not in schemes or not (parts.netloc or parts.path) or not is_valid_port:
        add_error(f"{name} must be an address starting with {schemes[0]}://")
        return default
    return value


def email_server(url: str) -> tuple[str, int, str, str]:
    """Return host, port, user and password of an SMTP URL. The port depends on the scheme."""
    config = environ.Env.email_url_config(url)
    port = config["EMAIL_PORT"] or {"smtp": 25, "smtp+tls": 587, "smtps": 465}[urlsplit(url).scheme]
    user, password = config["EMAIL_HOST_USER"], config["EMAIL_HOST_PASSWORD"]
    return config["EMAIL_HOST"], port, user or "", password or ""


def header_name(name: str, default: str) -> str:
    value = text(name, default)
    if not value.isascii() or not value.replace("-", "").isalnum():
        add_error(f"{name} must be the name of an HTTP header.")
        return default
    return value


def check_https(name: str, value: str) -> None:
    """Add an error if a URL has another scheme than https."""
    if not value.startswith("https://"):
        add_error(f"{name} must start with https:// in production.")


def field_name(name: str, default: str) -> str:
    """Return the name of a JSON field; empty if the variable is set to an empty value."""
    if os.environ.get(name) == "":
        return ""
    value = text(name, default)
    if not value.isascii() or not value.isidentifier():
        add_error(f"{name} must be the name of a field, such as {default}.")
    return value


def time_zone(name: str, default: str) -> str:
    value = text(name, default)
    if value not in available_timezones():
        add_error(f"{name} must be the name of a time zone, such as {default}.")
    return value


def production_signs(
    environment: str, api_key: str, database_url: str, redis_url: str, hosts: list[str]
) -> Iterator[str]:
    """Yield what only a production machine has in these settings, each as the end of a sentence."""
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
    """Return whether a URL leads to a socket of this machine or a loopback address."""
    try:
        parts = urlsplit(url)
        host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    except ValueError:
        return True  # Another check refuses it: it is not a URL.
    host = unquote(host)
    if not host or host.startswith("/") or host == "localhost" or parts.scheme == "unix":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def audit_keys(name: str) -> list[str]:
    keys = word_list(name)
    if any(len(key) < 32 for key in keys):
        add_error(f"{name} is too short: each key must have 32 characters or more.")
    return keys


def bearer_token(name: str) -> str:
    """Return a token of ASCII characters; empty if there is none."""
    value = text(name)
    if value and (len(value) < 20 or not value.isascii()):
        add_error(f"{name} must have 20 letters and digits or more, or none.")
    return value


def webhook_secrets(value: str) -> list[str]:
    """Return the secrets of webhook signatures from a comma-separated list."""
    secrets = split_list(value)
    for secret in secrets or ([""] if value else []):
        if not secret.startswith("whsec_") or len(_from_base64(secret[6:])) < 16:
            add_error(
                "WEBHOOK_SECRETS must be secrets starting with whsec_, then 16 bytes or more in"
                " base64."
            )
    return secrets


def check_service_key(api_key: str, environment: str, region: str) -> None:
    """Check that the team key is of the configured environment and region.

    A key is `pk_<region>_…` in production and `sk_<region>_…` in the sandbox of the service.
    """
    prefix = "pk_" if environment == "production" else "sk_"
    if api_key and not api_key.startswith(("pk_", "sk_")):
        add_error("SERVICE_API_KEY must start with pk_ (production) or sk_ (sandbox).")
    elif api_key and not api_key.startswith(prefix):
        add_error(
            f"SERVICE_API_KEY and MANAGEMENT_ENV disagree: a key of {environment} starts with"
            f" {prefix}."
        )
    if api_key[3:5] in ("us", "eu") and api_key[3:5] != region:
        add_error("SERVICE_API_KEY and MANAGEMENT_REGION disagree: the key names another region.")


def check_strength(name: str, keys: list[str], min_length: int = 0) -> None:
    """Add an error for weak keys. Keys shorter than `min_length` have an error already."""
    for reason in {weakness(key) for key in keys if len(key) >= min_length} - {None}:
        add_error(f"{name} is too weak: it {reason}. Make it with a random generator.")


def check_field_key_strength(keys: dict[int, bytes]) -> None:
    for reason in filter(None, map(weakness_of_bytes, keys.values())):
        add_error(f"FIELD_KEYS are too weak: a key {reason}. Make it with a random generator.")


def check_not_published(name: str, keys: list[str]) -> None:
    """Add an error for the development values, which everybody can read in the source."""
    if PUBLISHED.intersection(keys):
        add_error(f"{name} is a published development value: set your own.")


def _from_base64(encoded: str) -> bytes:
    """Return the decoded bytes; none for text that is not base64."""
    try:
        return b64decode(encoded, validate=True)
    except ValueError:
        return b""


def field_keys(value: str) -> dict[int, bytes]:
    """Return the encryption keys by id."""
    keys: dict[int, bytes] = {}
    for entry in split_list(value):
        number, _, encoded = entry.partition(":")
        key = _from_base64(encoded)
        is_valid_id = number.isascii() and number.isdigit() and 1 <= int(number[:4]) <= 255
        if not is_valid_id or len(key) != 32 or int(number) in keys:
            add_error(
                "FIELD_KEYS must be id:key, comma separated: each id a number of its own from 1 to "
                "255, each key 32 random bytes in base64."
            )
            return {}
        keys[int(number)] = key
    if value and not keys:
        add_error("FIELD_KEYS must hold a key.")
    return keys


def writable_file(name: str) -> Path | None:
    """Return a file to append to. It is created if missing and need not be readable."""
    value = text(name)
    if not value:
        return None
    try:
        with Path(value).open("a"):
            pass
    except OSError as error:
        add_error(f"{name} cannot be written: {error.strerror}.")
    return Path(value)


def hash_list_file(name: str) -> Path | None:
    """Return a file of lines that begin with a SHA-1 in hexadecimal."""
    value = text(name)
    if not value:
        return None
    try:
        with Path(value).open("rb") as file:
            first = file.read(40)
    except OSError as error:
        add_error(f"{name} cannot be read: {error.strerror}.")
        return None
    if len(first) < 40 or first.strip(b"0123456789ABCDEFabcdef"):
        add_error(f"{name} must hold lines that begin with a SHA-1.")
        return None
    return Path(value)
