"""Every page of the back office, found by walking the URLconf, in one small world.

A route is a page when it answers GET with a whole HTML document. Parts of pages, downloads and
addresses that only take forms are told apart by what they answer. What a route's parameters stand
for is looked up in the world; one that nobody knows a sample for is reported, never skipped.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, Final

from django.urls import URLPattern, URLResolver, get_resolver

from tests.browser.office import Office, at_work
from tests.entering import logged_in
from tests.outbox.draws import booked_there, placed
from tests.outbox.matching import make
from tests.sync.house import House, running, wait_until
from tests.webhooks.sending import attempt, send
from tests.webhooks.signed import Message

ADMINISTRATOR: Final = "administrator"
PARAMETER: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_LINK: Final = re.compile(r'(?:href|hx-get|src)="(/[^"#]*)"')

SAMPLES: Final[dict[str, str]] = {
    "order_id": "SELECT id FROM orders_order WHERE patient_dob IS NOT NULL"
    " ORDER BY (method = 'at_home_phlebotomy') DESC, created_at DESC, id LIMIT 1",
    "patient_id": "SELECT user_id FROM orders_result JOIN orders_order o ON o.id = order_id"
    " WHERE o.user_id IS NOT NULL ORDER BY o.created_at DESC LIMIT 1",
    "report_id": "SELECT id FROM labs_report WHERE job_id IS NOT NULL ORDER BY uploaded_at LIMIT 1",
    "lab_id": "SELECT id FROM labs_lab ORDER BY id LIMIT 1",
    "lab_test_id": "SELECT id FROM labs_labtest ORDER BY name LIMIT 1",
    "account_id": "SELECT id FROM labs_labaccount ORDER BY id LIMIT 1",
    "marker_id": "SELECT id FROM labs_marker ORDER BY id LIMIT 1",
    "command_id": "SELECT id FROM backoffice_commandrecord WHERE kind = 'cancel_order'"
    " AND state = 'refused' LIMIT 1",
    "event_id": "SELECT id FROM webhooks_event ORDER BY (state = 'dead') DESC, id DESC LIMIT 1",
    "notification_id": "SELECT id FROM backoffice_notification ORDER BY id LIMIT 1",
    "entry_id": "SELECT id FROM backoffice_auditentry"
    " ORDER BY (before IS NOT NULL) DESC, id LIMIT 1",
    "job_id": "SELECT id FROM orders_printjob ORDER BY asked_at LIMIT 1",
    "position": "SELECT 0",
    "signature_id": "SELECT id FROM orders_signature ORDER BY id LIMIT 1",
    "delegation_id": "SELECT id FROM orders_delegation ORDER BY id LIMIT 1",
    "token_id": "SELECT id FROM backoffice_apitoken ORDER BY id LIMIT 1",
    "group": "SELECT 'lost'",
    "endpoint_id": "SELECT 'ep_of_the_settings'",
    "value_id": "SELECT id FROM backoffice_unknownvalue ORDER BY id LIMIT 1",
}
"""What a parameter stands for, wherever it appears: a statement that finds one."""

_VIEW: Final = "SELECT id FROM backoffice_savedview WHERE listing = 'orders' ORDER BY id LIMIT 1"
_PATIENTS: Final = _VIEW.replace("'orders'", "'patients'")
_TRAIL: Final = _VIEW.replace("'orders'", "'audit'")
_VERSION: Final = "SELECT {} FROM orders_resultversion ORDER BY order_id, number LIMIT 1"
_RESULT: Final = "SELECT order_id FROM orders_result ORDER BY order_id LIMIT 1"
_TROUBLE: Final = "SELECT {} FROM orders_order WHERE bucket = 'needs-action' ORDER BY id LIMIT 1"
_RUN: Final = "SELECT id FROM backoffice_bulkrun ORDER BY id LIMIT 1"
SPECIAL: Final[dict[tuple[str, str], str]] = {
    ("patients:registering", "command_id"): "SELECT id FROM backoffice_commandrecord"
    " WHERE kind = 'patient.create' AND state = 'refused' LIMIT 1",
    ("patients:view", "key"): _PATIENTS,
    ("patients:view-change", "key"): _PATIENTS,
    ("reviewing:report", "order_id"): _RESULT,
    ("documents:result", "order_id"): _RESULT,
    ("documents:transaction-result", "order_id"): _RESULT,
    ("reviewing:trend", "key"): "SELECT coalesce(loinc_slug, slug) FROM orders_resultmarker"
    " WHERE NOT is_missing ORDER BY slug LIMIT 1",
    ("audit:view", "key"): _TRAIL,
    ("audit:view-change", "key"): _TRAIL,
    ("reviewing:version", "order_id"): _VERSION.format("order_id"),
    ("reviewing:version", "number"): _VERSION.format("number"),
    ("exceptions:card", "group"): "SELECT 'delivery'",
    ("exceptions:card", "order_id"): _TROUBLE.format("id"),
    ("mfa_remove_webauthn", "pk"): "SELECT 1",
    ("orders:view", "key"): _VIEW,
    ("orders:view-change", "key"): _VIEW,
    ("orders:run", "key"): _RUN,
    ("orders:run-strip", "key"): _RUN,
    ("orders:run-stop", "key"): _RUN,
    ("orders:run-again", "key"): _RUN,
    ("unmatched:detail", "result_id"): "SELECT id FROM orders_unmatchedresult LIMIT 1",
    ("patients:disconnect", "slug"): "SELECT slug FROM patients_connection ORDER BY id LIMIT 1",
    ("patients:disconnect", "patient_id"): "SELECT user_id FROM patients_connection"
    " ORDER BY id LIMIT 1",
    ("orders:move", "order_id"): "SELECT order_id FROM orders_appointment"
    " WHERE status = 'confirmed' ORDER BY start_at DESC LIMIT 1",
    ("password-new", "uidb64"): "SELECT 'MQ'",
    ("password-new", "token"): "SELECT 'no-token'",
    ("orders:cancel-visit", "order_id"): "SELECT order_id FROM orders_appointment"
    " WHERE status = 'confirmed' ORDER BY start_at DESC LIMIT 1",
}
"""Where a route needs a sample of its own."""

MORE: Final[dict[str, tuple[str, ...]]] = {
    "orders:list": ("?search_input=nobody-at-all", "?bucket=needs-action"),
    "system:runs": ("?resource=orders",),
    "audit:list": ("?outcome=refused", "?record=nothing-at-all"),
}
"""Further states of a page that are worth a look."""

WITHOUT: Final = frozenset(
    {
        *("login", "account_login", "logout"),
        *("live", "session", "operations:health", "operations:metrics"),
        *("mfa_index", "mfa_list_webauthn"),
        *("mfa_deactivate_totp", "mfa_remove_webauthn", "mfa_view_recovery_codes"),
        *("mfa_authenticate", "openid_connect_callback"),
    }
)
"""Visited on their own, by nobody in particular; asked by scripts and monitors; other names of one
page; for people with a second factor (`test_sign_in.py`); steps of a log-in."""


@dataclass(frozen=True)
class Stop:
    """One page of the walk."""

    name: str
    path: str


@dataclass
class World:
    """A running office with something on every page."""

    office: Office
    stops: list[Stop] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)


@contextlib.contextmanager
def furnished(logs: Path) -> Iterator[World]:
    with at_work(logs, users=10, orders=40) as office:
        _furnish(office)
        world = World(office)
        _walk(world, Visitor(office.url))
        yield world


def _furnish(office: Office) -> None:
    """Draws that are booked, a result of nobody, events that came and one that failed."""
    house, sandbox = office.house, office.sandbox
    visited = placed(sandbox, name="Vera")
    booked_there(sandbox, visited)
    placed(sandbox, "testkit", name="Kitty")
    placed(sandbox, "walk_in_test", name="Walda")
    make(sandbox, "match_completed", interpretation="abnormal")
    house.sync()
    house.sync("unmatched")
    with running(house.start("-m", "tests.browser.furnish")) as furnishing:
        assert furnishing.wait(120) == 0, house.said()
    _deliver(office, house)


def _deliver(office: Office, house: House) -> None:
    record, user, team = house.query(
        "SELECT record, user_id, team_id FROM orders_order ORDER BY created_at LIMIT 1"
    )[0]
    bodies = [
        {**json.loads(record), "created_at": moment}
        for moment in ("not-a-moment", json.loads(record)["created_at"])
    ]
    for body in bodies:
        event = {"event_type": "labtest.order.updated", "data": body}
        event |= {"user_id": str(user), "team_id": str(team)}
        send(f"{office.url}/webhooks/", [attempt(Message(json.dumps(event).encode()))], 1)
    with running(house.start("-m", "tests.webhooks.drainer")):

        def dead() -> bool:
            house.query("UPDATE webhooks_event SET due_at = now() WHERE state = 'retry'")
            return bool(house.value("SELECT count(*) FROM webhooks_event WHERE state = 'dead'"))

        wait_until(dead, 60, "one event could not be applied", every=0.2)


# The walk


def routes(
    resolver: URLResolver | None = None, prefix: str = "", space: str = ""
) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Name, address and view of every route for people; the API aside."""
    for entry in (resolver or get_resolver()).url_patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield f"{space}{entry.name or address}", address, entry.callback
        elif address != "api/":
            inner = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from routes(entry, address, inner)


def _walk(world: World, visitor: Visitor) -> None:
    """Routes with samples first; for what is left, an address that a page links to."""
    left: dict[str, str] = {}
    for name, address, _ in routes():
        if name not in WITHOUT:
            path = _filled(world.office.house, name, address)
            if path is None and visitor.look(_anything(address)) == "form":
                continue
            for more in ("", *MORE.get(name, ())):
                said = visitor.look(path + more) if path else "no sample"
                if said == "page":
                    world.stops.append(Stop(name + more, f"{path}{more}"))
                elif said not in OTHERS:
                    left[name + more] = f"/{address}"
    for name, address in left.items():
        linked = visitor.linked(address)
        said = visitor.look(linked) if linked else "no sample, and no link"
        if said == "page":
            world.stops.append(Stop(name, linked))
        elif said not in OTHERS:
            world.uncovered.append(f"{name}: {linked or address} answers {said}")


def _filled(house: House, name: str, address: str) -> str | None:
    """The address with samples in the place of parameters; None where one is missing."""
    path = f"/{address}"
    for found in PARAMETER.finditer(address):
        statement = SPECIAL.get((name, found[1])) or SAMPLES.get(found[1])
        rows = house.query(statement) if statement else []
        if not rows:
            return None
        path = path.replace(found[0], str(rows[0][0]), 1)
    return path


def _anything(address: str) -> str:
    """The address with something in the place of parameters: enough to see whether it is a page."""
    kinds = {"int": "1", "slug": "any", "uuid": "00000000-0000-4000-8000-000000000000"}
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda found: kinds.get(str(found[1]), "any"), address)


OTHERS: Final = ("part", "form", "elsewhere")
"""A part of a page or a download; what takes forms only; a redirect: no pages by themselves."""


class Visitor:
    """A person without a browser, logged in as the administrator, who remembers every link."""

    def __init__(self, url: str) -> None:
        self.links: set[str] = set()
        self.person = logged_in(url, ADMINISTRATOR)

    def look(self, path: str) -> str:
        """`page`, one of `OTHERS`, or the status of a refusal."""
        answer = self.person.get(path)
        if not answer.is_success and 'class="no-document"' not in answer.text:
            return {302: "elsewhere", 405: "form"}.get(answer.status_code, str(answer.status_code))
        body = answer.text
        self.links.update(unescape(link) for link in _LINK.findall(body))
        return "page" if 'id="page"' in body else "part"

    def linked(self, address: str) -> str:
        """A link seen so far to this address of a route; empty for none."""
        parts = [re.escape(part) for part in PARAMETER.split(address)[::2]]
        shape = re.compile("[^/]+".join(parts) + r"(\?.*)?")
        return min((link for link in self.links if shape.fullmatch(link)), default="")
