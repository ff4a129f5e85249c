"""Rules of orders: items, users, lab accounts and billing (orders.md 2.3-2.9).

A broken rule is a 400 that names it; unknown records are 404.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db.models import Q

from sandbox.api import accounts
from sandbox.api.errors import Refusal, missing
from sandbox.models import (
    DiagnosisCode,
    Insurance,
    Lab,
    LabAccount,
    LabTest,
    Marker,
    Team,
    User,
    UserInfo,
)

Body = dict[str, Any]
ADULT = 18
FASTING = "FASTING"
DELEGATED = ("order_delegated", "fully_delegated")


@dataclass(frozen=True, slots=True)
class OrderedItems:
    """The items of an order: tests and added markers of one lab, with one collection method."""

    lab: Lab
    method: str
    tests: tuple[LabTest, ...]
    markers: tuple[Marker, ...]

    @property
    def all_markers(self) -> list[Marker]:
        """Return the markers of the tests and the added ones, each once."""
        of_tests = Marker.objects.filter(lab_tests__in=self.tests).distinct()
        found = {marker.pk: marker for marker in (*of_tests, *self.markers)}
        return [found[key] for key in sorted(found)]


def find_user(team: uuid.UUID, key: uuid.UUID) -> User:
    user = User.objects.filter(pk=key, team_id=team, deleted_at__isnull=True).first()
    if user is None:
        raise missing("User")
    return user


def choose(team: uuid.UUID, order_set: Body | None, old: Any, method: str | None) -> OrderedItems:
    """Return the items of an order set (or of the deprecated single test `old`), of one lab."""
    if order_set is None:
        order_set = {"lab_test_ids": [old] if old else None, "add_on": None}
    elif old is not None:
        raise Refusal(400, "Send lab_test_id or order_set, not both")
    tests, markers = members(team, order_set)
    if method is None and markers:
        raise Refusal(400, "collection_method is required with an add-on")
    labs = {test.lab for test in tests} | {marker.lab for marker in markers}
    if len(labs) > 1:
        raise Refusal(400, "All lab tests of an order must belong to the same lab")
    [lab] = labs
    return OrderedItems(lab, _method(lab, tests, method), tests, markers)


def members(team: uuid.UUID, order_set: Body) -> tuple[tuple[LabTest, ...], tuple[Marker, ...]]:
    """Return the tests and the added markers of an order set."""
    tests = _tests(team, order_set["lab_test_ids"] or ())
    markers = _add_on(order_set["add_on"], tests)
    if not tests and not markers:
        raise Refusal(400, "An order needs lab tests or an add-on")
    return tests, markers


def _tests(team: uuid.UUID, keys: Iterable[uuid.UUID]) -> tuple[LabTest, ...]:
    wanted = dict.fromkeys(keys)
    visible = LabTest.objects.filter(Q(team__isnull=True) | Q(team_id=team))
    found = {test.pk: test for test in visible.filter(pk__in=wanted).select_related("lab")}
    for key in wanted:
        if key not in found:
            raise Refusal(404, f"Lab test {key} not found")
        if found[key].status != "active":
            raise Refusal(400, f"Lab test {key} is not active")
    return tuple(found[key] for key in wanted)


def _add_on(add_on: Body | None, tests: Sequence[LabTest]) -> tuple[Marker, ...]:
    if add_on is None:
        return ()
    ids, codes = add_on["marker_ids"], add_on["provider_ids"]
    if bool(ids) == bool(codes):
        raise Refusal(400, "An add-on needs either marker_ids or provider_ids")
    known = Marker.objects.select_related("lab").filter(is_active=True)
    known = known.filter(pk__in=ids) if ids else known.filter(provider_id__in=codes)
    if tests and codes:
        known = known.filter(lab_id=tests[0].lab_id)
    found = {(marker.pk if ids else marker.provider_id): marker for marker in known}
    for key in ids or codes:
        if key not in found:
            raise Refusal(400, f"Marker {key} not found")
        if not found[key].a_la_carte_enabled or not found[key].is_orderable:
            raise Refusal(400, f"Marker {key} cannot be ordered as an add-on")
    return tuple(found[key] for key in dict.fromkeys(ids or codes))


def _method(lab: Lab, tests: Sequence[LabTest], method: str | None) -> str:
    methods = {test.method for test in tests}
    if len(methods) == 1 and method in (None, *methods):
        return methods.pop()
    if method is None:
        raise Refusal(400, "All lab tests of an order must share one collection method")
    if len(methods) == 1:
        raise Refusal(400, f"The lab tests are not collected by {method}")
    if method not in lab.collection_methods:
        raise Refusal(400, f"{lab.slug} does not collect by {method}")
    return method


def choose_account(
    team: uuid.UUID,
    lab: Lab,
    key: uuid.UUID | None,
    accepted: Sequence[str] = ("active",),
    *,
    incorrect: uuid.UUID | None = None,
) -> LabAccount | None:
    """The account the order runs on (orders.md 2.9); None is the service's own.

    `incorrect` is an account that is not resolved where the key names none.
    """
    linked = list(accounts.team_accounts(team).filter(lab=lab))
    if key is not None:
        account = accounts.team_accounts(team).filter(pk=key).first()
        if account is None:
            raise Refusal(400, "The lab account is not linked to the team")
        if account.lab_id != lab.pk:
            raise Refusal(400, f"The lab account is not of {lab.slug}")
        if account.status not in accepted:
            raise Refusal(400, f"The lab account is {account.status}")
        return account
    active = [one for one in linked if one.status == "active" and one.pk != incorrect]
    if not linked:
        return None
    if not active:
        other = "other " if incorrect else ""
        raise Refusal(400, f"No {other}lab account of {lab.slug} is active")
    if len(active) > 1:
        raise Refusal(400, f"Several lab accounts of {lab.slug} are active: send lab_account_id")
    return active[0]


def check_offered(team: uuid.UUID, account: LabAccount | None, choice: OrderedItems) -> None:
    """Refuse a test or an added marker that the account does not offer."""
    tests = set(accounts.available_lab_tests(team, account).values_list("pk", flat=True))
    markers = set(accounts.available_markers(account).values_list("pk", flat=True))
    for test in choice.tests:
        if test.pk not in tests:
            raise Refusal(400, f"Lab test {test.pk} is not available for this lab account")
    for marker in choice.markers:
        if marker.pk not in markers:
            raise Refusal(400, f"Marker {marker.pk} is not available for this lab account")


def check_physician(account: LabAccount | None, physician: Body | None) -> None:
    if account is not None and account.delegated_flow in DELEGATED and physician is None:
        raise Refusal(400, "A physician is required for this lab account")


def check_age(team: uuid.UUID, user: User, details: Body, today: date) -> None:
    """Refuse an order for a minor unless the team may place it and there is a proxy."""
    born = details["dob"]
    age = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
    if age >= ADULT:
        return
    if not Team.objects.get(pk=team).minor_ordering_enabled:
        raise Refusal(400, "Ordering for minors is not enabled for this team")
    stored = UserInfo.objects.filter(user=user).values_list("medical_proxy", flat=True).first()
    if details["medical_proxy"] is None and not stored:
        raise Refusal(400, "A medical proxy is required for patients under 18")


def check_address(address: Body) -> None:
    """Refuse a zip code that begins with three zeros: in this world there is none."""
    if address["zip"].startswith("000"):
        raise Refusal(400, "The patient address could not be validated")


def check_activation(activate_by: date | None, today: date) -> None:
    if activate_by is not None and activate_by < today:
        raise Refusal(400, "activate_by must be today or later")


def insurer(
    account: LabAccount | None, user: User, billing: str, state: str, codes: list[str] | None
) -> uuid.UUID | None:
    """Return the insurance record to bill; refuse what the account or the patient's state does not
    allow."""
    if codes:
        _check_codes(codes)
    if account is None:
        if billing != "client_bill":
            raise Refusal(400, f"{billing} is not available without a lab account")
        return None
    if state not in account.allowed_billing.get(billing, ()):
        raise Refusal(400, f"{billing} is not allowed for this lab account in {state}")
    if billing != "commercial_insurance":
        return None
    if not codes:
        raise Refusal(400, "At least one icd_codes entry is required for commercial_insurance")
    if not UserInfo.objects.filter(user=user).exists():
        raise Refusal(400, "The user has no demographics: commercial_insurance needs them")
    records = Insurance.objects.filter(user=user, is_primary=True).order_by("-created_at")
    newest = records.values_list("pk", flat=True).first()
    if newest is None:
        raise Refusal(400, "The user has no primary insurance record")
    return uuid.UUID(str(newest))


def _check_codes(codes: list[str]) -> None:
    known = {code.code: code for code in DiagnosisCode.objects.filter(code__in=codes)}
    if unknown := [code for code in codes if code not in known]:
        raise Refusal(400, f"Invalid ICD codes: {', '.join(unknown)}")
    for code in codes:
        if clash := [other for other in codes if other in known[code].excludes]:
            raise Refusal(400, f"ICD codes exclude each other: {code}, {clash[0]}")


def check_answers(markers: Sequence[Marker], answers: Sequence[Body]) -> None:
    """Check that every required question is answered, and that every answer fits its question.

    Questions about fasting may stay open: the lab test says it. Those of markers that are run
    only when another one is out of range may be answered too.
    """
    api_request = _questions(markers)
    may_ask = api_request | _questions(Marker.objects.filter(reflex_of__in=markers))
    given: dict[tuple[int, int], list[str]] = {}
    for each in answers:
        place = (each["marker_id"], each["question_id"])
        if place not in may_ask:
            raise Refusal(400, f"Marker {place[0]} of this order has no question {place[1]}")
        _check_answer(may_ask[place], each["answer"])
        given.setdefault(place, []).append(each["answer"])
        if len(given[place]) > 1 and may_ask[place]["type"] != "multi_choice":
            raise Refusal(400, f"Question {place[1]} of marker {place[0]} is answered twice")
    open_ones = [
        f"{question['value']} (marker {place[0]}, question {place[1]})"
        for place, question in api_request.items()
        if question["required"] and place not in given and question["code"] != FASTING
    ]
    if open_ones:
        raise Refusal(400, f"Missing required AOE answers: {'; '.join(open_ones)}")


def _questions(markers: Iterable[Marker]) -> dict[tuple[int, int], Body]:
    return {
        (marker.pk, question["id"]): question
        for marker in markers
        for question in (marker.aoe or {"questions": ()})["questions"]
    }


def _check_answer(question: Body, answer: str) -> None:
    number = question["id"]
    if question["type"] in ("choice", "multi_choice"):
        codes = [each["code"] for each in question["answers"]]
        if answer not in codes:
            raise Refusal(400, f"The answer to question {number} is one of {', '.join(codes)}")
    elif not answer.strip():
        raise Refusal(400, f"The answer to question {number} is empty")
    elif question["type"] == "numeric":
        try:
            float(answer)
        except ValueError:
            raise Refusal(400, f"The answer to question {number} is a number") from None
