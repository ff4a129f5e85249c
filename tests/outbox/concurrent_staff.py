"""Staff at the real web server: two submit forms at once, or one submits a form twice.

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

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.accounts.models import User
from backoffice.outbox.models import CommandRecord
from tests.outbox.cases_visits import cancel_booked_visit, create_booked_visit
from tests.outbox.worker_setup import WorkerSetup
from tests.waiting import wait_until

State = CommandRecord.State
VALUE_TYPES = ("hidden", "text", "date", "search")


class PageFields(HTMLParser):
    """The field values of a page's forms, and the times that can be chosen."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.slots: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag != "input" or "name" not in attributes:
            return
        if attributes["name"] == "slot":
            self.slots += [] if "disabled" in attributes else [attributes["value"]]
        elif attributes.get("type", "text") in VALUE_TYPES:
            self.values[attributes["name"]] = attributes.get("value", "")


@dataclass
class Browser:
    """A signed-in user with an HTTP client."""

    user: User
    http: httpx.Client = field(repr=False)

    @classmethod
    def sign_in(cls, url: str, name: str) -> Self:
        user = User.objects.create_user(name, first_name=name.capitalize(), last_name="Madeup")
        user.groups.add(Group.objects.get_or_create(name=ADMINISTRATOR)[0])
        signed_in = Client()
        signed_in.force_login(user)
        cookie = signed_in.cookies[settings.SESSION_COOKIE_NAME].value
        cookies = {settings.SESSION_COOKIE_NAME: cookie}
        return cls(user, httpx.Client(base_url=url, cookies=cookies, timeout=60))

    def open(self, path: str) -> PageFields:
        response = self.http.get(path)
        assert response.status_code == 200, (path, response.status_code)
        return PageFields(response.text)

    def send(self, path: str, values: dict[str, str]) -> httpx.Response:
        return self.http.post(path, data=values, headers={"referer": str(self.http.base_url)})


@dataclass
class RaceReport:
    """The number of rounds, and the problems found."""

    rounds: int = 0
    problems: list[str] = field(default_factory=list)

    def check(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(f"round {self.rounds}: {problem}")


def race_two_staff(worker_setup: WorkerSetup, url: str, rounds: int) -> RaceReport:
    """P7: two users move the same visit at once, to different times.

    One of them wins, with one call at the service. The other learns who did what, and when.
    """
    report = RaceReport()
    browsers = [Browser.sign_in(url, name) for name in ("ann", "ben")]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            report.rounds += 1
            order, visit = create_booked_visit(worker_setup.records)
            path = reverse("orders:move", args=[order.pk])
            pages = [one.open(path) for one in browsers]
            since = worker_setup.last_write_number()
            choices = [{**page.values, "slot": page.slots[-1 - n]} for n, page in enumerate(pages)]
            if report.rounds % 2:
                # A worker runs meanwhile, so the second request may come when the first is done.
                worker_setup.workers.work_for_a_second()
            futures = [
                pool.submit(one.send, path, choice)
                for one, choice in zip(browsers, choices, strict=True)
            ]
            responses = [one.result() for one in futures]
            _deliver(worker_setup)
            rows = CommandRecord.objects.filter(subject_id=str(order.pk), kind="appointment.move")
            winners = list(rows.filter(state=State.DONE))
            calls = [
                one for one in worker_setup.writes(since, "/reschedule$") if one["status"] == 200
            ]
            report.check(
                len(winners) == 1 and len(calls) == 1, f"{len(winners)} won, {len(calls)} calls"
            )
            if len(winners) != 1:
                continue
            start = worker_setup.records.sandbox.query(
                "SELECT start_at FROM sandbox_appointment WHERE id = %s AND is_current", [visit.pk]
            )[0][0]
            chosen = choices[browsers.index(_browser_of(browsers, winners[0]))]["slot"]
            report.check(f"{start:%Y-%m-%dT%H:%M:%SZ}" in chosen, "another time than the winner's")
            for one, response in zip(browsers, responses, strict=True):
                if one.user == winners[0].requested_by:
                    report.check(response.status_code == 302, f"winner got {response.status_code}")
                else:
                    name = winners[0].requested_by.get_full_name()
                    report.check(
                        _is_informed(response, rows, one.user, name), "the other was not informed"
                    )
            cancel_booked_visit(order, visit)
    worker_setup.workers.wait_until_idle()
    return report


def _deliver(worker_setup: WorkerSetup) -> None:
    worker_setup.workers.work()
    open_commands = CommandRecord.objects.open().exclude(state=State.UNDECIDED)
    wait_until(lambda: not open_commands.exists(), 60, "the other worker")


def _browser_of(browsers: list[Browser], row: CommandRecord) -> Browser:
    return next(one for one in browsers if one.user == row.requested_by)


def _is_informed(response: httpx.Response, rows: Any, user: User, name: str) -> bool:
    """Whether the form, or a command that was refused later, names the winner."""
    if response.status_code == 422:
        return name in response.text
    refused = rows.filter(requested_by=user, state=State.REFUSED).first()
    return refused is not None and name in refused.refusal


def submit_form_twice(worker_setup: WorkerSetup, url: str, rounds: int) -> RaceReport:
    """P8: one form is submitted twice at once. It makes one command, and both get the same page."""
    report = RaceReport()
    browser = Browser.sign_in(url, "cleo")
    second_browser = Browser(browser.user, httpx.Client(base_url=url, cookies=browser.http.cookies))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            report.rounds += 1
            order = worker_setup.records.place_order("Clinic Draw Basic")
            path = reverse("orders:cancel", args=[order.pk])
            values = browser.open(path).values | {"why": "patient"}
            if report.rounds % 2:
                worker_setup.workers.work_for_a_second()
            futures = [pool.submit(one.send, path, values) for one in (browser, second_browser)]
            responses = [one.result() for one in futures]
            last = browser.send(path, values)
            _deliver(worker_setup)
            after = browser.send(path, values)
            seen = {(one.status_code, one.headers.get("location")) for one in (*responses, last)}
            seen.add((after.status_code, after.headers.get("location")))
            rows = CommandRecord.objects.filter(subject_id=str(order.pk))
            report.check(len(seen) == 1 and rows.count() == 1, f"{seen}, {rows.count()} commands")
            cancelled = worker_setup.records.count_events(UUID(str(order.pk)), "cancelled")
            report.check(cancelled == 1, f"cancelled {cancelled} times")
    worker_setup.workers.wait_until_idle()
    return report
