"""What can be chosen: panels and markers by name or test code, and what is ordered most."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Q, QuerySet

from labs.models import Lab, LabAccount, LabTest, Marker
from orders.commands.placing import USABLE
from orders.models import Order
from orders.placing.wish import Wish

SHOWN: Final = 10
LOOKED_AT: Final = 500
"""Newest orders in which the usual tests are counted."""
WORD_LETTERS: Final = 100


@dataclass(frozen=True, slots=True)
class Choices:
    """`usual`: nothing was searched for; these are ordered most."""

    tests: list[LabTest]
    markers: list[Marker]
    usual: bool = False


def choices(wish: Wish, word: str) -> Choices:
    """By the letters typed; of the lab that is chosen already, or of every lab that can be used."""
    word = word.replace("\x00", "").strip()[:WORD_LETTERS]
    tests = _tests(wish)
    if not word:
        return Choices(_usual(tests), [], usual=True)
    coded = Q(test_markers__marker__provider_id__istartswith=word)
    named = tests.filter(Q(name__icontains=word) | Q(slug__icontains=word) | coded).distinct()
    code = Q(provider_id__istartswith=word)
    markers = _markers(wish).filter(Q(name__icontains=word) | code)
    return Choices(
        _best(list(named.order_by("name", "pk")[: 5 * SHOWN]), word),
        _best(list(markers.order_by("name", "pk")[: 5 * SHOWN]), word),
    )


def _best(found: list[Any], word: str) -> list[Any]:
    """Those that begin with the word come first."""
    found.sort(key=lambda one: not one.name.lower().startswith(word.lower()))
    return found[:SHOWN]


def _tests(wish: Wish) -> QuerySet[LabTest]:
    rows = LabTest.objects.filter(_at_labs(wish), status="active", missing_since=None)
    rows = rows.exclude(auto_generated=True).exclude(pk__in=[test.pk for test in wish.tests])
    return rows.select_related("lab").defer("record", "content_hash")


def _markers(wish: Wish) -> QuerySet[Marker]:
    rows = Marker.objects.filter(_at_labs(wish), a_la_carte_enabled=True, missing_since=None)
    rows = rows.exclude(is_orderable=False).exclude(pk__in=[one.pk for one in wish.markers])
    return rows.select_related("lab").defer("record", "content_hash")


def _at_labs(wish: Wish) -> Q:
    """At the lab chosen already, or at all but those where no account of the team is active. What
    names no lab may be at any."""
    if wish.lab is not None:
        return Q(lab=wish.lab) | Q(lab=None)
    accounts = LabAccount.objects.filter(teams__team_id=wish.patient.team_id, missing_since=None)
    states = set(accounts.values_list("lab", "status"))
    usable = {lab for lab, status in states if status in USABLE}
    closed = {lab for lab, _ in states} - usable
    return ~Q(lab__in=Lab.objects.filter(slug__in=closed))


def _usual(tests: QuerySet[LabTest]) -> list[LabTest]:
    newest = Order.objects.order_by("-created_at", "-pk").values_list("lab_test_id", flat=True)
    often = Counter(newest[:LOOKED_AT])
    found = list(tests.filter(pk__in=[pk for pk, _ in often.most_common(3 * SHOWN)]))
    if not found:
        found = list(tests.order_by("name", "pk")[:SHOWN])
    return sorted(found, key=lambda test: (-often[test.pk], test.name))[:SHOWN]
