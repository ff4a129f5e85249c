"""People in front of the real web server: rounds in which two ask at once, or one clicks twice.

P7 and P8 of reliability.md: `tests/chaos/outbox.py` runs many rounds, the suite a few.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Self
from uuid import UUID

import httpx
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from backoffice.core.access import ADMINISTRATOR
from backoffice.models import CommandRecord, User
from tests.outbox.cases_visits import freed, standing
from tests.outbox.proving import Proof
from tests.sync.house import wait_until

State = CommandRecord.State
HIDDEN = ("hidden", "text", "date", "search")


class Fields(HTMLParser):
    """What a page's forms hold, and the times that can be chosen."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.slots: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag != "input" or "name" not in told:
            return
        if told["name"] == "slot":
            self.slots += [] if "disabled" in told else [told["value"]]
        elif told.get("type", "text") in HIDDEN:
            self.values[told["name"]] = told.get("value", "")


@dataclass
class Browser:
    """Somebody who is logged in."""

    user: User
    http: httpx.Client = field(repr=False)

    @classmethod
    def of(cls, url: str, name: str) -> Self:
        user = User.objects.create_user(name, first_name=name.capitalize(), last_name="Madeup")
        user.groups.add(Group.objects.get_or_create(name=ADMINISTRATOR)[0])
        logged_in = Client()
        logged_in.force_login(user)
        cookie = logged_in.cookies[settings.SESSION_COOKIE_NAME].value
        cookies = {settings.SESSION_COOKIE_NAME: cookie}
        return cls(user, httpx.Client(base_url=url, cookies=cookies, timeout=60))

    def open(self, path: str) -> Fields:
        shown = self.http.get(path)
        assert shown.status_code == 200, (path, shown.status_code)
        return Fields(shown.text)

    def send(self, path: str, values: dict[str, str]) -> httpx.Response:
        return self.http.post(path, data=values, headers={"referer": str(self.http.base_url)})


@dataclass
class Rounds:
    """What was not as it must be, in words."""

    played: int = 0
    wrong: list[str] = field(default_factory=list)

    def check(self, good: bool, words: str) -> None:
        if not good:
            self.wrong.append(f"round {self.played}: {words}")


def two_staff(proof: Proof, url: str, rounds: int) -> Rounds:
    """P7: two move the same visit at once, to different times. One wins, with one call at the
    service; the other is told who did what, and when."""
    found = Rounds()
    people = [Browser.of(url, name) for name in ("ann", "ben")]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            found.played += 1
            order, visit = standing(proof.scene)
            path = reverse("orders:move", args=[order.pk])
            shown = [one.open(path) for one in people]
            since = proof.last_write()
            choices = [{**page.values, "slot": page.slots[-1 - n]} for n, page in enumerate(shown)]
            if found.played % 2:
                # A worker is at it while they ask: the second may come when the first is done.
                proof.workers.ring()
            sent = [
                pool.submit(one.send, path, choice)
                for one, choice in zip(people, choices, strict=True)
            ]
            answers = [one.result() for one in sent]
            _delivered(proof)
            rows = CommandRecord.objects.filter(subject_id=str(order.pk), kind="appointment.move")
            won = list(rows.filter(state=State.DONE))
            calls = [one for one in proof.writes(since, "/reschedule$") if one["status"] == 200]
            found.check(len(won) == 1 and len(calls) == 1, f"{len(won)} won, {len(calls)} calls")
            if len(won) != 1:
                continue
            start = proof.scene.sandbox.query(
                "SELECT start_at FROM sandbox_appointment WHERE id = %s AND is_current", [visit.pk]
            )[0][0]
            told = choices[people.index(_of(people, won[0]))]["slot"]
            found.check(f"{start:%Y-%m-%dT%H:%M:%SZ}" in told, "another time than the winner's")
            for one, answer in zip(people, answers, strict=True):
                if one.user == won[0].requested_by:
                    found.check(answer.status_code == 302, f"the winner got {answer.status_code}")
                else:
                    name = won[0].requested_by.get_full_name()
                    found.check(_told(answer, rows, one.user, name), "the other was not told")
            freed(order, visit)
    proof.workers.rest()
    return found


def _delivered(proof: Proof) -> None:
    proof.workers.work()
    open_rows = CommandRecord.objects.open().exclude(state=State.UNDECIDED)
    wait_until(lambda: not open_rows.exists(), 60, "the other worker")


def _of(people: list[Browser], row: CommandRecord) -> Browser:
    return next(one for one in people if one.user == row.requested_by)


def _told(answer: httpx.Response, rows: Any, user: User, name: str) -> bool:
    """On the form, or on the strip of a command that was refused when its turn came."""
    if answer.status_code == 422:
        return name in answer.text
    refused = rows.filter(requested_by=user, state=State.REFUSED).first()
    return refused is not None and name in refused.refusal


def twice(proof: Proof, url: str, rounds: int) -> Rounds:
    """P8: one form is sent two times at once: one command, and the same page for both."""
    found = Rounds()
    person = Browser.of(url, "cleo")
    again = Browser(person.user, httpx.Client(base_url=url, cookies=person.http.cookies))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            found.played += 1
            order = proof.scene.order("Clinic Draw Basic")
            path = reverse("orders:cancel", args=[order.pk])
            values = person.open(path).values | {"why": "patient"}
            if found.played % 2:
                proof.workers.ring()
            sent = [pool.submit(one.send, path, values) for one in (person, again)]
            answers = [one.result() for one in sent]
            last = person.send(path, values)
            _delivered(proof)
            after = person.send(path, values)
            seen = {(one.status_code, one.headers.get("location")) for one in (*answers, last)}
            seen.add((after.status_code, after.headers.get("location")))
            rows = CommandRecord.objects.filter(subject_id=str(order.pk))
            found.check(len(seen) == 1 and rows.count() == 1, f"{seen}, {rows.count()} commands")
            cancelled = proof.scene.events(UUID(str(order.pk)), "cancelled")
            found.check(cancelled == 1, f"cancelled {cancelled} times")
    proof.workers.rest()
    return found
