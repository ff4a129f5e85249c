"""New simulated orders, as pure functions of the seed, the order's number and its time."""

import json
from datetime import date, datetime, timedelta
from functools import lru_cache

from sandbox.catalogue_data import DIAGNOSES
from sandbox.context import Context, TestInfo
from sandbox.keyed_random import KeyedRandom, keyed_uuid
from sandbox.people import Person, person
from sandbox.places import AREAS
from sandbox.records import fixed_part, to_json
from sandbox.states import EventState, OrderState
from sandbox.transitions import dotted

METHOD_WEIGHTS = {
    "testkit": 35,
    "walk_in_test": 30,
    "at_home_phlebotomy": 25,
    "on_site_collection": 10,
}
REGISTRABLE = 0.2  # of kits
IMPORTED = 0.04
SCHEDULED = 0.04
MINOR_AGE = timedelta(days=6575)


def transaction_id_for(seed: int, number: int) -> str:
    """Return the id of the transaction that an initial order opens."""
    return keyed_uuid(seed, "transaction", number)


def new_order(
    context: Context,
    number: int,
    seq: int,
    team_id: str,
    at: datetime,
    user_number: int,
    stock_user_id: str | None,
) -> OrderState:
    """Return a new order of the given user; with a stock user it may be a registrable kit."""
    rng = KeyedRandom(context.seed, "order", number)
    who = person(context.seed, user_number)
    test = _choose_test(context, rng, who, team_id, at)
    order = _new_state(context, rng, number, seq, team_id, at, test, who)
    registrable = test.method == "testkit" and stock_user_id is not None
    registrable = rng.chance(REGISTRABLE) and registrable
    kind = rng.fraction()
    low = "ordered"
    if registrable:
        order.registrable = True
        order.user_id = stock_user_id or order.user_id
        order.patient_name = ""
        order.patient_dob = None
        order.billing_type = "client_bill"  # nobody to insure yet
        order.has_abn = False
        order.sample_id = f"K{rng.digits(9)}"
    elif kind < IMPORTED:
        order.imported = True
        order.sample_id = f"X{rng.digits(8)}"
        low = "requisition_bypassed"
    elif kind < IMPORTED + SCHEDULED:
        order.activate_by = (at + timedelta(days=rng.integer(3, 45))).date()
    _write_fixed_part(context, rng, order, test, who)
    add_first_event(order, low, at)
    return order


def new_redraw_order(
    context: Context, parent: OrderState, number: int, seq: int, at: datetime
) -> OrderState:
    """Return the redraw of a walk-in order; it joins the transaction of its parent."""
    rng = KeyedRandom(context.seed, "order", number)
    order = OrderState(
        number=number,
        id=keyed_uuid(context.seed, "order", number),
        team_id=parent.team_id,
        seq=seq,
        user_id=parent.user_id,
        lab_test_id=parent.lab_test_id,
        lab_account_id=parent.lab_account_id,
        transaction_id=parent.transaction_id,
        origin="redraw",
        parent_id=parent.id,
        method=parent.method,
        registrable=False,
        imported=False,
        created_at=at,
        updated_at=at,
        status="",
        low_level_status="",
        status_detail=None,
        last_event_at=at,
        next_at=at,
        step=0,
        patient_name=parent.patient_name,
        patient_dob=parent.patient_dob,
        recipient_name=parent.recipient_name,
        zip_code=parent.zip_code,
        billing_type=parent.billing_type,
        activate_by=None,
        sample_id=None,
        has_requisition=False,
        has_abn=parent.has_abn,
        sms_enabled=parent.sms_enabled,
        details_id=rng.uuid(),
        details_updated_at=at,
    )
    record = json.loads("{" + parent.fixed_part + "}")
    record |= {
        "id": order.id,
        "created_at": at.isoformat(),
        "origin": "redraw",
        "activate_by": None,
    }
    order.fixed_part = to_json(record)[1:-1]
    add_first_event(order, "ordered", at)
    return order


def add_first_event(order: OrderState, low_level: str, at: datetime) -> None:
    """Write the first event."""
    order.low_level_status = low_level
    order.status = dotted(order.method, low_level)
    order.last_event_at = at
    order.events.append(EventState(at, order.status))


def _choose_test(
    context: Context, rng: KeyedRandom, who: Person, team_id: str, at: datetime
) -> TestInfo:
    adult = at.date() - who.dob >= MINOR_AGE
    methods, tests = _weighted_choices(context, team_id, adult and bool(AREAS[who.area][6]))
    return rng.weighted_choice(tests[rng.weighted_choice(methods)])


@lru_cache(maxsize=8)
def _weighted_choices(
    context: Context, team_id: str, at_home: bool
) -> tuple[list[tuple[float, str]], dict[str, list[tuple[float, TestInfo]]]]:
    """Return the weighted methods, and the weighted tests of each, that the team may order."""
    tests: dict[str, list[tuple[float, TestInfo]]] = {}
    for test in context.orderable:
        if test.team_id in (None, team_id) and (at_home or test.method != "at_home_phlebotomy"):
            tests.setdefault(test.method, []).append((1.0 if test.auto_generated else 4.0, test))
    return [(METHOD_WEIGHTS[name], name) for name in tests], tests


def _new_state(
    context: Context,
    rng: KeyedRandom,
    number: int,
    seq: int,
    team_id: str,
    at: datetime,
    test: TestInfo,
    who: Person,
) -> OrderState:
    accounts = [a for a in context.accounts if a.lab_id == test.lab_id and team_id in a.teams]
    state = AREAS[who.area][2]
    billing = "client_bill"
    if accounts and rng.chance(0.3):
        allowed = accounts[0].allowed_billing
        wanted = rng.choice(("commercial_insurance", "patient_bill", "patient_bill_passthrough"))
        if state in allowed.get(wanted, ()) and (
            wanted != "commercial_insurance" or who.insurance_ids
        ):
            billing = wanted
    return OrderState(
        number=number,
        id=keyed_uuid(context.seed, "order", number),
        team_id=team_id,
        seq=seq,
        user_id=who.user_id,
        lab_test_id=test.id,
        lab_account_id=accounts[0].id if accounts else None,
        transaction_id=transaction_id_for(context.seed, number),
        origin="initial",
        parent_id=None,
        method=test.method,
        registrable=False,
        imported=False,
        created_at=at,
        updated_at=at,
        status="",
        low_level_status="",
        status_detail=None,
        last_event_at=at,
        next_at=at,
        step=0,
        patient_name=who.name,
        patient_dob=who.dob,
        recipient_name=who.name,
        zip_code=AREAS[who.area][0],
        billing_type=billing,
        activate_by=None,
        sample_id=None,
        has_requisition=False,
        has_abn=billing == "commercial_insurance" and rng.chance(0.15),
        sms_enabled=rng.chance(0.8),
        details_id=rng.uuid(),
        details_updated_at=at,
    )


def _write_fixed_part(
    context: Context, rng: KeyedRandom, order: OrderState, test: TestInfo, who: Person
) -> None:
    account = next((a for a in context.accounts if a.id == order.lab_account_id), None)
    known = context.physicians.get(order.team_id)
    physician = "null"
    if known and ((account and account.needs_physician) or rng.chance(0.3)):
        physician = rng.choice(known)
    insured = order.billing_type == "commercial_insurance"
    codes = "null"
    if insured or rng.chance(0.1):
        codes = json.dumps([rng.choice(DIAGNOSES)[0]])
    own = "Made-up note: patient prefers mornings" if rng.chance(0.12) else None
    default = account.default_clinical_notes if account else None
    notes = "\n".join(filter(None, (own, default))) or None
    address = who.patient_address
    order.fixed_part = fixed_part(
        order,
        patient_details="null" if order.registrable else who.patient_details,
        patient_address="null" if order.registrable else address,
        physician=physician,
        clinical_notes=notes,
        health_insurance_id=who.insurance_ids[0] if insured else None,
        priority=rng.chance(0.05),
        shipping_details=_shipping(address) if order.registrable else "null",
        passthrough=f"visit-{order.number}" if rng.chance(0.15) else None,
        icd_codes=codes,
    )


def _shipping(address: str) -> str:
    parsed = json.loads(address)
    parsed.pop("access_notes")
    return json.dumps(parsed, separators=(",", ":"))


def activation_delay(day: date) -> timedelta:
    """Return how long after midnight of its day a scheduled order is sent."""
    return timedelta(hours=5, minutes=day.day)
