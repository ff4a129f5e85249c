"""The made-up people: a person is a function of the seed and the user's number."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from sandbox.catalogue_data import PAYORS, PROVIDERS
from sandbox.keyed_random import KeyedRandom
from sandbox.places import AREAS

FIRST_NAMES = {
    "female": (
        "Alice", "Bella", "Carmen", "Dora", "Elif", "Fatima", "Grace", "Hanna", "Ines", "Jo-Ann",
        "Kira", "Lena", "Mina", "Nora", "Olga", "Pia",
    ),
    "male": (
        "Adam", "Ben", "Carlos", "David", "Emre", "Felix", "Goran", "Hugo", "Ivan", "Jamal",
        "Karl", "Leo", "Marco", "Nils", "Omar", "Paul",
    ),
}  # fmt: skip
LAST_NAMES = (
    "Testperson", "Sample", "Madeup", "Example", "Fixture", "Placeholder", "Demo", "Mockley",
    "O'Sample", "St. Madeup", "Test-Person", "Notreal", "Imaginary", "Pretend", "Dummyson",
    "Invented",
)  # fmt: skip
STREETS = ("Sample Street", "Example Road", "Madeup Avenue", "Fixture Way", "Demo Boulevard")
RACES = (
    None,
    "african_american_or_black",
    "asian",
    "indigenous_native_american_alaska_native",
    "other",
    "pacific_islander_or_hawaiian",
    "white_caucasian",
)
ETHNICITIES = (None, "hispanic", "non_hispanic", "ashkenazi_jewish", "other")
ORIENTATIONS = (None, None, "heterosexual_or_straight", "bisexual", "dont_know")
CONNECTION_ERRORS = (
    "token_refresh_failed",
    "deregistered_per_provider",
    "required_scopes_not_granted",
    "provider_password_expired",
)
PULL_ERRORS = {
    "retrying": ("provider_rate_limit_exceeded", "provider_unavailable", "transport_failure"),
    "failure": ("non_retriable_error", "unexpected_error", "retry_quota_exhausted"),
}
STOCK_USERS = 1  # users 1..STOCK_USERS stand for a clinic's kit shelf, not for a person
USER_COLUMNS = (
    "id", "seq", "team_id", "client_user_id", "created_on", "fallback_time_zone",
    "fallback_time_zone_updated_at", "fallback_birth_date", "fallback_birth_date_updated_at",
    "ingestion_start", "ingestion_end", "deleted_at",
)  # fmt: skip
INFO_COLUMNS = (
    "user_id", "first_name", "last_name", "email", "phone_number", "gender", "dob", "first_line",
    "second_line", "city", "state", "zip", "country", "access_notes", "race", "ethnicity",
    "sexual_orientation", "gender_identity", "medical_proxy", "updated_at",
)  # fmt: skip
INSURANCE_COLUMNS = (
    "id", "user_id", "payor_id", "member_id", "group_id", "relationship", "insured", "guarantor",
    "is_primary", "created_at",
)  # fmt: skip
CONNECTION_COLUMNS = (
    "user_id", "provider_id", "created_on", "status", "external_user_id", "error_type",
    "error_message", "errored_at", "resource_availability",
)  # fmt: skip
PULL_COLUMNS = (
    "user_id", "provider_id", "resource", "status", "release", "range_start", "range_end",
    "scheduled_at", "started_at", "ended_at", "days_with_data", "error_details", "trace_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Person:
    """A user's person with the JSON fragments every order of theirs repeats."""

    number: int
    user_id: str
    client_user_id: str
    first_name: str
    last_name: str
    gender: str
    dob: date
    email: str
    phone_number: str
    address: tuple[str, str | None]
    area: int
    has_info: bool
    proxy: dict[str, Any] | None
    race: str | None
    ethnicity: str | None
    insurance_ids: tuple[str, ...]
    patient_details: str
    patient_address: str

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}"


@lru_cache(maxsize=20_000)
def person(seed: int, number: int) -> Person:
    """The person behind user `number` (1 is the first user)."""
    rng = KeyedRandom(seed, "person", number)
    user_id = rng.uuid()
    sex = "female" if rng.chance(0.52) else "male"
    first = rng.choice(FIRST_NAMES[sex])
    last = rng.choice(LAST_NAMES)
    gender = sex if rng.chance(0.97) else rng.choice(("other", "unknown"))
    minor = rng.chance(0.03)
    born = date(2012, 1, 1) if minor else date(1940, 1, 1)
    dob = born + timedelta(days=rng.integer(0, 1500 if minor else 23_000))
    area = rng.integer(0, len(AREAS) - 1)
    zip_code, city, state = AREAS[area][:3]
    first_line = f"{rng.integer(1, 1900)} {rng.choice(STREETS)}"
    second_line = f"Apt {rng.integer(1, 60)}" if rng.chance(0.25) else None
    race, ethnicity = rng.choice(RACES), rng.choice(ETHNICITIES)
    email = f"person{number}@example.invalid"
    phone = f"+1555010{number % 10000:04d}"
    proxy = None
    if minor:
        proxy = {
            "first_name": rng.choice(FIRST_NAMES["female"]),
            "last_name": last,
            "address": {
                "first_line": first_line,
                "second_line": second_line,
                "city": city,
                "state": state,
                "zip": zip_code,
                "country": "US",
                "access_notes": None,
            },
            "phone_number": phone,
            "email": email,
            "household_income": None,
            "household_size": rng.integer(2, 6),
        }
    has_info = number > STOCK_USERS and rng.chance(0.9)
    insured = has_info and rng.chance(0.5)
    insurances = tuple(rng.uuid() for _ in range(rng.integer(1, 3))) if insured else ()
    details = {
        "first_name": first,
        "last_name": last,
        "dob": f"{dob.isoformat()}T00:00:00+00:00",
        "gender": gender,
        "phone_number": phone,
        "email": email,
        "medical_proxy": proxy,
        "race": race,
        "ethnicity": ethnicity,
        "sexual_orientation": None,
        "gender_identity": None,
        "household_income": None,
        "household_size": None,
    }
    address = {
        "receiver_name": f"{first} {last}",
        "first_line": first_line,
        "second_line": second_line,
        "city": city,
        "state": state,
        "zip": zip_code,
        "country": "US",
        "access_notes": "Ring twice" if number % 11 == 3 else None,
        "phone_number": phone,
    }
    return Person(
        number,
        user_id,
        f"stock-room-{number}" if number <= STOCK_USERS else f"clinic-{number:07d}",
        first,
        last,
        gender,
        dob,
        email,
        phone,
        (first_line, second_line),
        area,
        has_info,
        proxy,
        race,
        ethnicity,
        insurances,
        json.dumps(details, separators=(",", ":")),
        json.dumps(address, separators=(",", ":")),
    )


def user_row(seed: int, number: int, team_id: str, created_on: datetime) -> tuple[Any, ...]:
    """Values of USER_COLUMNS."""
    who = person(seed, number)
    rng = KeyedRandom(seed, "user", number)
    zone = AREAS[who.area][5] if rng.chance(0.85) else None
    birth = who.dob if rng.chance(0.6) else None
    start = created_on.date() - timedelta(days=30) if rng.chance(0.2) else None
    end = created_on.date() + timedelta(days=900) if start and rng.chance(0.4) else None
    return (
        who.user_id,
        number,
        team_id,
        who.client_user_id,
        created_on,
        zone,
        zone and created_on,
        birth,
        birth and created_on,
        start,
        end,
        None,
    )


def info_row(seed: int, number: int, created_on: datetime) -> tuple[Any, ...] | None:
    """Values of INFO_COLUMNS, for nine users in ten."""
    who = person(seed, number)
    if not who.has_info:
        return None
    zip_code, city, state = AREAS[who.area][:3]
    rng = KeyedRandom(seed, "info", number)
    return (
        who.user_id,
        who.first_name,
        who.last_name,
        who.email,
        who.phone_number,
        who.gender,
        who.dob,
        *who.address,
        city,
        state,
        zip_code,
        "US",
        "Ring twice" if number % 11 == 3 else None,
        who.race,
        who.ethnicity,
        rng.choice(ORIENTATIONS),
        None,
        json.dumps(who.proxy) if who.proxy else None,
        created_on + timedelta(minutes=rng.integer(1, 4000)),
    )


def insurance_rows(seed: int, number: int, created_on: datetime) -> list[tuple[Any, ...]]:
    """Values of INSURANCE_COLUMNS: the first record is primary, later ones either."""
    who = person(seed, number)
    zip_code, city, state = AREAS[who.area][:3]
    address = {
        "first_line": who.address[0],
        "second_line": who.address[1] or "",
        "city": city,
        "state": state,
        "zip": zip_code,
        "country": "US",
        "access_notes": None,
    }
    rows: list[tuple[Any, ...]] = []
    for place, key in enumerate(who.insurance_ids):
        rng = KeyedRandom(seed, "insurance", number, place)
        relationship = rng.weighted_choice(((80, "Self"), (15, "Spouse"), (5, "Other")))
        insured = {
            "first_name": who.first_name,
            "last_name": who.last_name,
            "gender": who.gender,
            "address": address,
            "dob": who.dob.isoformat(),
            "email": who.email,
            "phone_number": who.phone_number,
        }
        guarantor = None
        if relationship != "Self":
            guarantor = {
                "first_name": rng.choice(FIRST_NAMES["male"]),
                "last_name": who.last_name,
                "address": address,
                "phone_number": who.phone_number,
                "email": None,
                "household_income": 1000 * rng.integer(20, 150),
                "household_size": rng.integer(1, 6),
            }
        rows.append(
            (
                key,
                who.user_id,
                PAYORS[rng.integer(0, 10)][0],  # the last one belongs to another team
                f"M{rng.digits(9)}",
                f"G{rng.digits(5)}" if rng.chance(0.7) else None,
                relationship,
                json.dumps(insured),
                json.dumps(guarantor) if guarantor else None,
                place == 0 or rng.chance(0.4),
                created_on + timedelta(days=40 * place, minutes=rng.integer(10, 900)),
            )
        )
    return rows


def connection_rows(
    seed: int, number: int, created_on: datetime, epoch: datetime
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Values of CONNECTION_COLUMNS and of PULL_COLUMNS for a user: none, or up to three."""
    who = person(seed, number)
    rng = KeyedRandom(seed, "connections", number)
    count = rng.weighted_choice(((35, 0), (40, 1), (18, 2), (7, 3))) if number > STOCK_USERS else 0
    connections: list[tuple[Any, ...]] = []
    pulls: list[tuple[Any, ...]] = []
    for slug, _, auth, _, resources in rng.sample(PROVIDERS, count):
        at = created_on + (epoch - created_on) * rng.fraction()
        status = rng.weighted_choice(((82, "connected"), (12, "error"), (6, "paused")))
        error = rng.choice(CONNECTION_ERRORS) if status == "error" else None
        availability = {
            name: {
                "status": "available" if rng.chance(0.93) else "unavailable",
                "scope_requirements": {
                    "user_granted": {"required": [f"read_{name}"], "optional": []},
                    "user_denied": {"required": [], "optional": []},
                },
            }
            for name in resources
        }
        connections.append(
            (
                who.user_id,
                slug,
                at,
                status,
                None if auth == "sdk" else f"{slug}-{rng.digits(8)}",
                error,
                error and f"The provider answered: {error.replace('_', ' ')}",
                at + (epoch - at) * 0.9 if error else None,
                json.dumps(availability),
            )
        )
        pulls.extend(_pull(rng, who.user_id, slug, name, at, epoch) for name in resources)
    return connections, pulls


def _pull(
    rng: KeyedRandom, user_id: str, slug: str, resource: str, at: datetime, epoch: datetime
) -> tuple[Any, ...]:
    status = rng.weighted_choice(
        (
            (84, "success"),
            (4, "failure"),
            (3, "in_progress"),
            (2, "scheduled"),
            (3, "retrying"),
            (4, None),
        )
    )
    if status is None:
        return (user_id, slug, resource, None, "", None, None, None, None, None, 0, None, None)
    begun = at + timedelta(seconds=rng.integer(2, 600)) if status != "scheduled" else None
    ended = None
    if begun and status in ("success", "failure"):
        ended = begun + timedelta(seconds=rng.integer(5, 7200))
    days = rng.integer(7, 270)
    errors = PULL_ERRORS.get(status)
    return (
        user_id,
        slug,
        resource,
        status,
        f"{at:%Y-%m}.1",
        at - timedelta(days=days) if begun else None,
        at if begun else None,
        at,
        begun,
        ended,
        rng.integer(0, days) if status == "success" else 0,
        rng.choice(errors) if errors else None,
        f"trace-{rng.integer64():016x}",
    )


def created_span(epoch: datetime, history: timedelta) -> tuple[datetime, timedelta]:
    """When the first user was made, and over how long the others followed."""
    span = history + timedelta(days=120)
    return (epoch - span).astimezone(UTC), span
