"""Summaries as the service shows them at a moment (wearables.md 2).

A summary is known by (kind, wearer, source, local day, number of the day); each kind has a builder
that answers the record at a moment, or None while there is none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from sandbox.wearables import summary_ids
from sandbox.wearables.links import Link
from sandbox.wearables.measurements import ECG_HZ, ECG_SECONDS, ecg_start, measures
from sandbox.wearables.resources import DATA_SOURCES
from sandbox.wearables.wearers import HOUR, MINUTE, SPORTS, Wearer, keyed_python_random, moment

Record = dict[str, Any]
CYCLE_DAYS = 28
FLOW_DAYS = 5
FURTHEST_DAYS = 3
"""A summary of a day changes no later than this many days after it; cycles and profiles aside."""


def summaries(
    link: Link, place: int, kind: str, first: int, last: int, as_of: int
) -> Iterator[Record]:
    """Summaries of local days, as they are at a moment."""
    if kind == "profile":
        record = profile(link, place, as_of)
        if record is not None:
            yield record
        return
    low = link.who.day_of(link.since(kind, as_of))
    high = link.who.day_of(as_of)
    for day in range(max(first, low), min(last, high + 7) + 1):
        for number in range(NUMBERS.get(kind, 1)):
            record = summary_at(link, place, kind, day, number, as_of)
            if record is not None:
                yield record


def summary_at(
    link: Link, place: int, kind: str, day: int, number: int, as_of: int
) -> Record | None:
    """One summary at a moment, if it is there."""
    if kind == "profile":
        return profile(link, place, as_of)
    who = link.who
    if who.starts(day) < link.since(kind, as_of):
        return None
    as_of = link.seen(as_of)
    dice = keyed_python_random(who.seed, who.user_id, link.provider, kind, day, number)
    if kind != "menstrual_cycle" and dice.random() < 0.05:
        return None  # it was not worn
    found = BUILDERS[kind](link, place, day, number, as_of, dice)
    if found is None:
        return None
    created, updated, fields = found
    if created > as_of:
        return None
    return {**_common(link, place, kind, day, number, created, updated), **fields}


def _common(
    link: Link, place: int, kind: str, day: int, number: int, created: int, updated: int
) -> Record:
    """What every summary has."""
    return {
        "id": summary_id(link, place, kind, day, number),
        "user_id": link.who.user_id,
        "source": link.source(DATA_SOURCES[place]),
        "created_at": moment(created),
        "updated_at": moment(updated),
    }


def summary_id(link: Link, place: int, kind: str, day: int, number: int = 0) -> str:
    return summary_ids.make(
        link.who.seed, summary_ids.SummaryKey(kind, link.who.number, place, day, number)
    )


def _dated(day: int) -> Record:
    calendar = date.fromordinal(day)
    return {"date": f"{calendar.isoformat()}T00:00:00+00:00", "calendar_date": calendar}


def _offset(link: Link, place: int, day: int, at: int) -> int | None:
    return link.who.offset(day, at) if DATA_SOURCES[place].offset else None


def _zone(link: Link, place: int) -> str | None:
    return link.who.zone if DATA_SOURCES[place].offset else None


def _last_step(first: int, last: int, step: int, as_of: int) -> int:
    """The latest of first, first + step, ... last that is not after `as_of`."""
    return first + max(0, min(last, as_of) - first) // step * step


Built = tuple[int, int, Record] | None


def _activity(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    """Grows hour by hour until the day is over, and is settled at noon after it."""
    who = link.who
    start, end = who.starts(day), who.starts(day + 1)
    created = who.night(day).end + 20 * MINUTE
    settled = end + 12 * HOUR
    if as_of < created:
        return None
    updated = settled if as_of >= settled else _last_step(created, end + HOUR, HOUR, as_of)
    done = min(1.0, (min(updated, end) - start) / (end - start))
    steps, meters = _walked(link, place, day, updated, who, dice, done)
    active = round(steps * 0.036, 1)
    workout = who.workout(day)
    trained = workout is not None and workout.end <= updated
    wheelchair = who.wheelchair or None
    return created, updated, {
        **_dated(day),
        "calories_total": round(active + who.weight * 21 * done, 1),
        "calories_active": active,
        "steps": steps,
        "daily_movement": None,
        "distance": meters,
        "low": round(70 * done + steps / 110),
        "medium": round(steps / 330) + (20 if trained else 0),
        "high": (25 if trained else 0) + dice.randint(0, 4),
        "floors_climbed": round(dice.randint(0, 14) * done),
        "time_zone": _zone(link, place),
        "timezone_offset": _offset(link, place, day, start + 12 * HOUR),
        "heart_rate": {
            "avg_bpm": who.resting + dice.randint(9, 17),
            "min_bpm": who.resting - dice.randint(3, 7),
            "max_bpm": who.resting + (92 if trained else 34) - dice.randint(0, 9),
            "resting_bpm": who.resting + dice.randint(-2, 2),
            "avg_walking_bpm": None if dice.random() < 0.4 else who.resting + dice.randint(24, 34),
        },
        "wheelchair_use": wheelchair,
        "wheelchair_push": dice.randint(200, 1900) if wheelchair else None,
    }  # fmt: skip


def _walked(
    link: Link, place: int, day: int, updated: int, who: Wearer, dice: Any, done: float
) -> tuple[int, float]:
    """Steps and meters of the day so far: what the same source's samples add up to."""
    if "steps" not in DATA_SOURCES[place].timeseries:
        steps = round(who.level * dice.randint(9000, 14000) * done)
        return steps, round(steps * 0.74, 1)
    steps = sum(
        each.first if each.fixed is not None and each.fixed > updated else each.value
        for each in measures(who, place, "steps", day)
        if each.arrives <= updated
    )
    return steps, round(steps * 0.74, 1)


def _body(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    who = link.who
    if dice.random() > 0.7:
        return None
    created = who.starts(day) + int(dice.uniform(6, 9) * 60) * MINUTE
    weight = round(who.weight + dice.uniform(-0.9, 0.9), 1)
    fat = round(dice.uniform(16, 36), 1)
    full = link.provider == "scale-three"
    return created, created, {
        **_dated(day),
        "weight": weight,
        "fat": fat if full else None,
        "water_percentage": round(78 - fat * 0.8, 1) if full else None,
        "muscle_mass_percentage": round(92 - fat, 1) if full else None,
        "visceral_fat_index": dice.randint(2, 14) if full else None,
        "bone_mass_percentage": round(dice.uniform(3, 5), 1) if full else None,
        "body_mass_index": round(weight / (who.height / 100) ** 2, 1),
        "lean_body_mass_kilogram": round(weight * (1 - fat / 100), 1) if full else None,
        "waist_circumference_centimeter": None,
    }  # fmt: skip


def _sleep(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    """The night, tentative at first where the provider says so; number 1 is a nap."""
    who = link.who
    rated = link.provider == "ring-two"
    if number:
        if dice.random() > 0.08:
            return None
        start = who.starts(day) + int(dice.uniform(13, 16) * 60) * MINUTE
        end = start + dice.randint(15, 55) * MINUTE
        stages: tuple[tuple[int, int, int], ...] = ((start, end, 2),)
        kind = "acknowledged_nap" if rated else "short_sleep"
    else:
        start, end, stages = who.night(day)
        kind = "long_sleep"
    created = end + dice.randint(4, 40) * MINUTE
    updated = created + 2 * HOUR if as_of >= created + 2 * HOUR else created
    spent = dict.fromkeys((1, 2, 3, 4), 0)
    for begun, over, code in stages:
        spent[code] += (over - begun) // 1000
    duration = (end - start) // 1000
    asleep = duration - spent[4]
    lowest = who.resting - dice.randint(5, 9)
    return created, updated, {
        **_dated(day),
        "bedtime_start": moment(start),
        "bedtime_stop": moment(end),
        "type": kind,
        "timezone_offset": _offset(link, place, day, end),
        "duration": duration,
        "total": asleep,
        "awake": spent[4],
        "light": spent[2],
        "rem": spent[3],
        "deep": spent[1],
        "score": dice.randint(48, 96) if rated else None,
        "recovery_readiness_score": dice.randint(40, 98) if rated else None,
        "hr_lowest": lowest,
        "hr_average": lowest + dice.randint(3, 8),
        "hr_resting": who.resting if rated else None,
        "efficiency": round(100 * asleep / duration, 1),
        "latency": dice.randint(2, 28) * 60,
        "temperature_delta": round(dice.uniform(-0.6, 0.6), 2) if rated else None,
        "skin_temperature": round(dice.uniform(33.4, 35.6), 1) if rated else None,
        "hr_dip": round(dice.uniform(6, 20), 1) if rated else None,
        "state": ("confirmed" if updated > created else "tentative") if rated else None,
        "average_hrv": round(112 - who.resting + dice.uniform(0, 20), 1) if rated else None,
        "respiratory_rate": round(dice.uniform(11.5, 17), 1),
        "sleep_stream": None,
    }  # fmt: skip


def _sourced(link: Link, place: int) -> Record:
    offer = DATA_SOURCES[place]
    return {
        "source_provider": link.provider,
        "source_type": offer.source_type,
        "source_app_id": offer.app_id,
        "source_device_id": link.device_id(offer),
    }


def _sleep_cycle(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    """The stages of the night whose sleep summary it names."""
    start, end, stages = link.who.night(day)
    sleep = summary_at(link, place, "sleep", day, 0, as_of)
    if sleep is None:
        return None
    created = end + 45 * MINUTE
    return created, created, {
        "sleep_id": sleep["id"],
        "session_start": moment(start),
        "session_end": moment(end),
        "stage_start_offset_second": [(begun - start) // 1000 for begun, _, _ in stages],
        "stage_end_offset_second": [(over - start) // 1000 for _, over, _ in stages],
        "stage_type": [code for _, _, code in stages],
        "time_zone": _zone(link, place),
        **_sourced(link, place),
    }  # fmt: skip


def _workouts(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    who = link.who
    workout = who.workout(day)
    if workout is None:
        return None
    start, end, sport = workout
    created = end + dice.randint(2, 25) * MINUTE
    renamed = dice.random() < 0.2
    updated = created + HOUR if renamed and as_of >= created + HOUR else created
    seconds = (end - start) // 1000
    shares = (0.03, 0.12, 0.25, 0.35, 0.2, 0.05)
    speed = (2.9, 6.8, 0.9)[sport] * dice.uniform(0.8, 1.2)
    mean = who.resting + 74 + dice.randint(-6, 6)
    identity, name, slug = SPORTS[sport]
    cycling = slug == "cycling"
    return created, updated, {
        "title": f"{name}, longer than planned" if updated > created else name,
        "timezone_offset": _offset(link, place, day, start),
        "average_hr": mean,
        "max_hr": mean + dice.randint(12, 25),
        "distance": round(speed * seconds * 0.95, 1),
        "calendar_date": date.fromordinal(day),
        "time_start": moment(start),
        "time_end": moment(end),
        "calories": round(seconds / 60 * 9.2, 1),
        "sport": {"id": identity, "name": name, "slug": slug},
        "hr_zones": [round(seconds * share) for share in shares],
        "moving_time": round(seconds * 0.95),
        "total_elevation_gain": None if slug == "swimming" else dice.randint(0, 180),
        "elev_high": None if slug == "swimming" else dice.randint(60, 190),
        "elev_low": None if slug == "swimming" else dice.randint(5, 55),
        "average_speed": round(speed, 2),
        "max_speed": round(speed * 1.4, 2),
        "average_watts": dice.randint(120, 210) if cycling else None,
        "device_watts": dice.randint(120, 210) if cycling else None,
        "max_watts": dice.randint(300, 520) if cycling else None,
        "weighted_average_watts": dice.randint(130, 220) if cycling else None,
        "steps": round(seconds * 2.6) if slug == "running" else None,
        "map": None,
        "provider_id": f"w-{link.key}-{day}",
    }  # fmt: skip


_DISHES = ("Made-up porridge", "Sample soup", "Placeholder pasta")


def _meal(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    at = link.who.starts(day) + int((7.5, 12.5, 19)[number] * 60 + dice.uniform(-40, 40)) * MINUTE
    created = at + dice.randint(1, 30) * MINUTE
    grams = {name: round(dice.uniform(4, 60), 1) for name in ("carbs", "protein", "water", "sugar")}
    fat = round(dice.uniform(2, 30), 1)
    energy = {"unit": "kcal", "value": round(4 * (grams["carbs"] + grams["protein"]) + 9 * fat)}
    macros = {
        **grams,
        "alcohol": None,
        "fibre": round(dice.uniform(1, 9), 1),
        "cholesterol": None,
        "fats": {
            "saturated": round(fat * 0.35, 1),
            "monounsaturated": round(fat * 0.4, 1),
            "polyunsaturated": round(fat * 0.25, 1),
            "omega3": None,
            "omega6": None,
            "total": fat,
        },
    }
    micros = {
        "minerals": {"calcium": round(dice.uniform(20, 300), 1)},
        "trace_elements": {},
        "vitamins": {"vitamin_c": round(dice.uniform(1, 60), 1)},
    }
    dish = _DISHES[number]
    offer = DATA_SOURCES[place]
    return created, created, {
        "priority_id": 0,
        "source_id": link.key,
        "provider_id": f"m-{link.key}-{day}-{number}",
        "timestamp": moment(at),
        "calendar_date": date.fromordinal(day),
        "name": dish,
        "energy": energy,
        "macros": macros,
        "micros": micros,
        "data": {dish: {"energy": energy, "macros": macros, "micros": None}},
        "source_app_id": offer.app_id,
        "source_device_id": link.device_id(offer),
    }  # fmt: skip


def _menstrual(link: Link, place: int, day: int, number: int, as_of: int, dice: Any) -> Built:
    """One record per cycle, on the day it starts; predicted a week before, filled in as it goes."""
    who = link.who
    if not who.female or (day + who.number) % CYCLE_DAYS:
        return None
    start = who.starts(day)
    created = start - 7 * 24 * HOUR
    updated = created
    if as_of >= start:  # every evening something may have been added
        updated = _last_step(start + 20 * HOUR, start + CYCLE_DAYS * 24 * HOUR, 24 * HOUR, as_of)
        updated = updated if updated <= as_of else created
    passed = (updated - start) // (24 * HOUR) + 1 if updated > start else 0
    days = [date.fromordinal(day + n) for n in range(min(passed, CYCLE_DAYS))]
    flows = ("medium", "heavy", "medium", "light", "light")
    fertile = passed > 13
    return created, updated, {
        "period_start": date.fromordinal(day),
        "period_end": date.fromordinal(day + FLOW_DAYS - 1) if passed >= FLOW_DAYS else None,
        "cycle_end": date.fromordinal(day + CYCLE_DAYS - 1) if passed >= CYCLE_DAYS else None,
        "is_predicted": passed == 0,
        "menstrual_flow": [
            {"date": each, "flow": flows[n]} for n, each in enumerate(days[:FLOW_DAYS])
        ],
        "cervical_mucus": [{"date": days[13], "quality": "egg_white"}] if fertile else [],
        "intermenstrual_bleeding": [],
        "contraceptive": [],
        "detected_deviations": [],
        "ovulation_test": [{"date": days[13], "test_result": "positive"}] if fertile else [],
        "home_pregnancy_test": [],
        "home_progesterone_test": [],
        "sexual_activity": [],
        "basal_body_temperature": [
            {"date": each, "value": round(36.3 + (0.3 if n > 13 else 0) + n % 3 / 20, 2)}
            for n, each in enumerate(days)
        ],
        **_sourced(link, place),
    }  # fmt: skip


def _electrocardiogram(
    link: Link, place: int, day: int, number: int, as_of: int, dice: Any
) -> Built:
    start = ecg_start(link.who, day)
    if start is None:
        return None
    created = start + 5 * MINUTE
    clear = dice.random() < 0.9
    offer = DATA_SOURCES[place]
    return created, created, {
        "session_start": moment(start),
        "session_end": moment(start + ECG_SECONDS * 1000),
        "voltage_sample_count": ECG_HZ * ECG_SECONDS,
        "heart_rate_mean": link.who.resting + 15,
        "sampling_frequency_hz": float(ECG_HZ),
        "classification": "sinus_rhythm" if clear else "inconclusive",
        "inconclusive_cause": None if clear else "poor_reading",
        "algorithm_version": "2",
        "time_zone": _zone(link, place),
        "source_device_model": offer.device,
        **_sourced(link, place),
    }  # fmt: skip


def profile(link: Link, place: int, as_of: int) -> Record | None:
    """The profile of a connection; a month after connecting the height is put right once."""
    as_of = link.seen(as_of)
    if as_of < link.created:
        return None
    who = link.who
    measured = link.created + 30 * 24 * HOUR
    updated = measured if as_of >= measured else link.created
    return {
        **_common(link, place, "profile", who.day_of(link.created), 0, link.created, updated),
        "height": who.height if updated == measured else who.height + 1,
        "birth_date": None,
        "wheelchair_use": who.wheelchair or None,
        "gender": "female" if who.female else "unknown",
        "sex": "female" if who.female else None,
    }


BUILDERS: dict[str, Callable[[Link, int, int, int, int, Any], Built]] = {
    "activity": _activity,
    "body": _body,
    "sleep": _sleep,
    "sleep_cycle": _sleep_cycle,
    "workouts": _workouts,
    "meal": _meal,
    "menstrual_cycle": _menstrual,
    "electrocardiogram": _electrocardiogram,
}
NUMBERS = {"sleep": 2, "meal": 3}
"""How many of a kind a day can have, where it is more than one."""
