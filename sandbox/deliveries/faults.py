"""Intended failures of deliveries; every decision follows from seed and message number.

Forged and stale requests are sent before the genuine one: a receiver that refuses them misses
nothing. A changed value or an unknown type is a genuine message with a valid signature.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any

import orjson
from django.conf import settings

from sandbox.deliveries import signing
from sandbox.keyed_random import KeyedRandom
from sandbox.models import DeliverySettings

OPEN_VALUES = {
    "status", "event_status", "interpretation", "type", "origin", "error_type", "provider",
    "decision_code", "source_type", "classification", "method", "unit",
}  # fmt: skip
OLD_SECONDS = (301, 330, 3_600, 86_400, -600, -86_400)
FORGERIES = ("key", "body", "none", "version", "cut", "id")


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of deliveries; rates are from 0 to 1. Duplicates and reordered messages are delayed by
    up to `spread_seconds`; `silence` stops all sending; `retry_speed` divides the waits between
    attempts."""

    duplicate_rate: float = 0.0
    disorder_rate: float = 0.0
    spread_seconds: float = 2.0
    silence: bool = False
    bad_signature_rate: float = 0.0
    old_timestamp_rate: float = 0.0
    unknown_type_rate: float = 0.0
    unknown_value_rate: float = 0.0
    retry_speed: float = settings.RETRY_SPEED
    seed: int = 1

    def rng(self, purpose: str, number: int) -> KeyedRandom:
        return KeyedRandom("delivery", self.seed, purpose, number)

    def copies(self, number: int) -> timedelta | None:
        """Return when to send the message again, counted from its delivery; None: not again."""
        rng = self.rng("copy", number)
        return self._later(rng) if rng.chance(self.duplicate_rate) else None

    def holds(self, number: int) -> timedelta | None:
        """Return how long to delay the message; None: not at all."""
        rng = self.rng("hold", number)
        return self._later(rng) if rng.chance(self.disorder_rate) else None

    def _later(self, rng: KeyedRandom) -> timedelta:
        return timedelta(seconds=rng.uniform(0, self.spread_seconds))

    def forges(self, number: int) -> str:
        """Return the kind of forgery that is sent before the message; empty: none."""
        rng = self.rng("forge", number)
        return rng.choice(FORGERIES) if rng.chance(self.bad_signature_rate) else ""

    def ages(self, number: int) -> int:
        """Return the age in seconds of a stale request that is sent before the message; 0: none."""
        rng = self.rng("age", number)
        return rng.choice(OLD_SECONDS) if rng.chance(self.old_timestamp_rate) else 0

    def unknown_type(self, number: int) -> str:
        """Return an unknown event type to send in addition; empty: none."""
        rng = self.rng("type", number)
        chosen = f"labtest.unheard_of.{rng.integer(1, 99)}"
        return chosen if rng.chance(self.unknown_type_rate) else ""

    def altered(self, number: int, body: str) -> str | None:
        """Return the body with one unknown value; None: do not change it."""
        rng = self.rng("value", number)
        if not rng.chance(self.unknown_value_rate):
            return None
        parsed = orjson.loads(body)
        places = list(_open_values(parsed.get("data")))
        if not places:
            return None
        record, name = rng.choice(places)
        before, dot, _ = record[name].rpartition(".")
        record[name] = f"{before}{dot}unheard_of_{rng.integer(1, 99)}"
        return orjson.dumps(parsed).decode()


def _open_values(value: Any) -> list[tuple[dict[str, Any], str]]:
    if isinstance(value, list):
        return [place for each in value for place in _open_values(each)]
    if not isinstance(value, dict):
        return []
    here = [(value, name) for name, one in value.items() if name in OPEN_VALUES and _is_text(one)]
    return here + [place for each in value.values() for place in _open_values(each)]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def forge_request(
    kind: str, keys: list[bytes], message_id: str, timestamp: int, body: bytes, prefix: str
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a delivery that somebody without the key could send."""
    true = signing.headers(keys, message_id, timestamp, body, prefix)
    name = f"{prefix}-signature"
    match kind:
        case "key":
            stolen = [b"not the key of this endpoint"]
            return signing.headers(stolen, message_id, timestamp, body, prefix), body
        case "body":
            return true, body[:-1] + b',"forged":true}'
        case "none":
            return {key: value for key, value in true.items() if key != name}, body
        case "version":
            return true | {name: true[name].replace("v1,", "v9,")}, body
        case "cut":
            return true | {name: true[name].split()[0][:-8]}, body
        case _:
            return true | {f"{prefix}-id": f"{message_id}x"}, body


def current_faults() -> Faults:
    """Return the active faults, whichever process set them."""
    row = DeliverySettings.objects.filter(id=1).first()
    return Faults(**row.values) if row else Faults()


def save_faults(faults: Faults) -> None:
    DeliverySettings.objects.update_or_create(id=1, defaults={"values": asdict(faults)})


def parse_faults(given: dict[str, Any]) -> Faults:
    """Return faults from a request body. Raises ValueError or TypeError for invalid ones."""
    faults = Faults(**given)
    for each in fields(Faults):
        value = getattr(faults, each.name)
        if each.name.endswith("_rate") and not (_number(value) and 0 <= value <= 1):
            raise ValueError(f"{each.name} is a number from 0 to 1")
    if not (_number(faults.spread_seconds) and 0 <= faults.spread_seconds <= 3600):
        raise ValueError("spread_seconds is a number from 0 to 3600")
    if not (_number(faults.retry_speed) and 0 < faults.retry_speed <= 1e9):
        raise ValueError("retry_speed is a number above 0")
    if not isinstance(faults.silence, bool) or not isinstance(faults.seed, int):
        raise ValueError("silence is true or false, seed a whole number")
    return faults


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
