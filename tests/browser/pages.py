"""Every page of the back office, found from the URLconf, in one office with sample data.

A route is a page when it answers GET with a complete HTML document. The response distinguishes
pages from fragments, downloads and URLs that only accept forms. Statements find sample values for
the parameters of a route. A route without a sample is reported, never skipped.
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

from backoffice.pages.lists.registry import all_lists
from tests.browser.office import Office, running_office
from tests.outbox.draw_orders import book_visit_at_service, place_order
from tests.outbox.unmatched_results import create_unmatched_result
from tests.sync.back_office import BackOffice, running
from tests.waiting import wait_until
from tests.web_sign_in import signed_in_client
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
    "command_id": "SELECT id FROM outbox_commandrecord WHERE kind = 'cancel_order'"
    " AND state = 'refused' LIMIT 1",
    "event_id": "SELECT id FROM webhooks_event ORDER BY (state = 'dead') DESC, id DESC LIMIT 1",
    "notification_id": "SELECT id FROM team_notification ORDER BY id LIMIT 1",
    "entry_id": "SELECT id FROM audit_auditentry ORDER BY (before IS NOT NULL) DESC, id LIMIT 1",
    "job_id": "SELECT id FROM orders_printjob ORDER BY asked_at LIMIT 1",
    "position": "SELECT 0",
    "signature_id": "SELECT id FROM orders_signature ORDER BY id LIMIT 1",
    "delegation_id": "SELECT id FROM orders_delegation ORDER BY id LIMIT 1",
    "token_id": "SELECT id FROM api_apitoken ORDER BY id LIMIT 1",
    "group": "SELECT 'lost'",
    "endpoint_id": "SELECT 'ep_of_the_settings'",
    "value_id": "SELECT id FROM core_unknownvalue ORDER BY id LIMIT 1",
}
"""For each parameter name, a statement that finds a value. It applies to all routes."""

_RESULT_VERSION: Final = "SELECT {} FROM orders_resultversion ORDER BY order_id, number LIMIT 1"
_RESULT: Final = "SELECT order_id FROM orders_result ORDER BY order_id LIMIT 1"
_EXCEPTION: Final = "SELECT {} FROM orders_order WHERE bucket = 'needs-action' ORDER BY id LIMIT 1"
ROUTE_SAMPLES: Final[dict[tuple[str, str], str]] = {
    ("patients:registering", "command_id"): "SELECT id FROM outbox_commandrecord"
    " WHERE kind = 'patient.create' AND state = 'refused' LIMIT 1",
    ("reviewing:report", "order_id"): _RESULT,
    ("documents:result", "order_id"): _RESULT,
    ("documents:transaction-result", "order_id"): _RESULT,
    ("reviewing:trend", "key"): "SELECT coalesce(loinc_slug, slug) FROM orders_resultmarker"
    " WHERE NOT is_missing ORDER BY slug LIMIT 1",
    ("reviewing:version", "order_id"): _RESULT_VERSION.format("order_id"),
    ("reviewing:version", "number"): _RESULT_VERSION.format("number"),
    **{
        (f"{each.name}:{route}", "key"): "SELECT id FROM pages_savedview"
        f" WHERE listing = '{each.name}' ORDER BY id LIMIT 1"
        for each in all_lists()
        for route in ("view", "view-change")
    },
    ("exceptions:card", "group"): "SELECT 'delivery'",
    ("exceptions:card", "order_id"): _EXCEPTION.format("id"),
    ("mfa_remove_webauthn", "pk"): "SELECT 1",
    **{
        (f"{each.name}:{route}", "key"): "SELECT id FROM pages_bulkrun"
        f" WHERE listing = '{each.name}' ORDER BY id LIMIT 1"
        for each in all_lists()
        if each.bulk_actions
        for route in ("run", "run-strip", "run-stop", "run-again")
    },
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
"""Statements for parameters of single routes. They take precedence over `SAMPLES`."""

EXTRA_QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "orders:list": ("?search_input=nobody-at-all", "?bucket=needs-action"),
    "exceptions:list": ("?group=put-off", "?group=lost&method=nothing-at-all"),
    "results:list": ("?state=signed", "?place=normal"),
    "appointments:list": ("?show=past", "?show=requested"),
    "unbooked:list": ("?show=rebook",),
    "runs:list": ("?resource=orders",),
    "events:list": ("?type=labtest", "?show=failed"),
    "audit:list": ("?outcome=refused", "?record=nothing-at-all"),
    "reports:list": ("?show=all", "?state=nothing-at-all"),
    "unmatched:list": ("?show=decided", "?lab=nothing-at-all"),
}
"""Query strings that show further states of a page."""

EXCLUDED_ROUTES: Final = frozenset(
    {
        *("login", "account_login", "logout"),
        *("live", "session", "javascript-catalog", "operations:health", "operations:metrics"),
        *("mfa_index", "mfa_list_webauthn"),
        *("mfa_deactivate_totp", "mfa_remove_webauthn", "mfa_view_recovery_codes"),
        *("mfa_authenticate", "openid_connect_callback"),
    }
)
"""Routes that are not visited.

In this order: pages visited without an account; URLs for scripts and monitors; aliases; pages that
need a second factor (see `test_sign_in.py`); steps of a sign-in.
"""


@dataclass(frozen=True)
class PageAddress:
    """The name and path of one page."""

    name: str
    path: str


@dataclass
class SampleOffice:
    """A running office with sample data on every page, and its pages."""

    office: Office
    pages: list[PageAddress] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)


@contextlib.contextmanager
def office_with_sample_data(logs: Path) -> Iterator[SampleOffice]:
    with running_office(logs, users=10, orders=40) as office:
        _create_sample_data(office)
        sample = SampleOffice(office)
        _collect_pages(sample, Visitor(office.url))
        yield sample


def _create_sample_data(office: Office) -> None:
    """Create booked visits, an unmatched result, applied events and one that failed."""
    back_office, sandbox = office.back_office, office.sandbox
    visited = place_order(sandbox, name="Vera")
    book_visit_at_service(sandbox, visited)
    place_order(sandbox, "testkit", name="Kitty")
    place_order(sandbox, "walk_in_test", name="Walda")
    create_unmatched_result(sandbox, "match_completed", interpretation="abnormal")
    back_office.sync()
    back_office.sync("unmatched")
    with running(back_office.start("-m", "tests.browser.sample_data")) as process:
        assert process.wait(120) == 0, back_office.said()
    _deliver_events(office, back_office)


def _deliver_events(office: Office, back_office: BackOffice) -> None:
    record, user, team = back_office.query(
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
    with running(back_office.start("-m", "tests.webhooks.drainer")):

        def event_has_failed() -> bool:
            back_office.query("UPDATE webhooks_event SET due_at = now() WHERE state = 'retry'")
            return bool(
                back_office.value("SELECT count(*) FROM webhooks_event WHERE state = 'dead'")
            )

        wait_until(event_has_failed, 60, "one event could not be applied", every=0.2)


# Finding the pages


def routes(
    resolver: URLResolver | None = None, prefix: str = "", space: str = ""
) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield name, pattern and view of every route except those of the API."""
    for entry in (resolver or get_resolver()).url_patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield f"{space}{entry.name or address}", address, entry.callback
        elif address != "api/":
            inner = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from routes(entry, address, inner)


def _collect_pages(sample: SampleOffice, visitor: Visitor) -> None:
    """Collect the pages. First use samples, then for other routes a link on a visited page."""
    left: dict[str, str] = {}
    for name, address, _ in routes():
        if name not in EXCLUDED_ROUTES:
            path = _fill_parameters(sample.office.back_office, name, address)
            if path is None and visitor.classify(_fill_placeholders(address)) == "form":
                continue
            for query in ("", *EXTRA_QUERIES.get(name, ())):
                kind = visitor.classify(path + query) if path else "no sample"
                if kind == "page":
                    sample.pages.append(PageAddress(name + query, f"{path}{query}"))
                elif kind not in NOT_PAGES:
                    left[name + query] = f"/{address}"
    for name, address in left.items():
        linked = visitor.find_link(address)
        kind = visitor.classify(linked) if linked else "no sample, and no link"
        if kind == "page":
            sample.pages.append(PageAddress(name, linked))
        elif kind not in NOT_PAGES:
            sample.uncovered.append(f"{name}: {linked or address} answers {kind}")


def _fill_parameters(back_office: BackOffice, name: str, address: str) -> str | None:
    """Return the path with sample values for its parameters, or None without a sample."""
    path = f"/{address}"
    for parameter in PARAMETER.finditer(address):
        statement = ROUTE_SAMPLES.get((name, parameter[1])) or SAMPLES.get(parameter[1])
        rows = back_office.query(statement) if statement else []
        if not rows:
            return None
        path = path.replace(parameter[0], str(rows[0][0]), 1)
    return path


def _fill_placeholders(address: str) -> str:
    """Return the path with placeholder values. They suffice to see if it only accepts forms."""
    kinds = {"int": "1", "slug": "any", "uuid": "00000000-0000-4000-8000-000000000000"}
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda match: kinds.get(str(match[1]), "any"), address)


NOT_PAGES: Final = ("fragment", "form", "redirect")
"""Kinds of responses that are not pages: a fragment or download, a form target, a redirect."""


class Visitor:
    """An HTTP client, signed in as administrator, that records every link it receives."""

    def __init__(self, url: str) -> None:
        self.links: set[str] = set()
        self.person = signed_in_client(url, ADMINISTRATOR)

    def classify(self, path: str) -> str:
        """Return `page`, one of `NOT_PAGES`, or the status code of an error."""
        answer = self.person.get(path)
        if not answer.is_success and 'class="no-document"' not in answer.text:
            return {302: "redirect", 405: "form"}.get(answer.status_code, str(answer.status_code))
        body = answer.text
        self.links.update(unescape(link) for link in _LINK.findall(body))
        return "page" if 'id="page"' in body else "fragment"

    def find_link(self, address: str) -> str:
        """Return a recorded link to this route, or an empty string."""
        parts = [re.escape(part) for part in PARAMETER.split(address)[::2]]
        shape = re.compile("[^/]+".join(parts) + r"(\?.*)?")
        return min((link for link in self.links if shape.fullmatch(link)), default="")
