"""A small version of promise P15: personal data and secrets do not leak, even during faults.

They are not in logs, Redis, mails, error pages or URLs. The database server, web server, workers,
beat, the sandbox and the mail server are real processes. A canary is an invented word or number in
one personal field, or a secret.
"""

from __future__ import annotations

import base64
import contextlib
import http.cookiejar
import json
import re
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

import psycopg
import pytest
import redis

from backoffice.devtools import embedded
from backoffice.management.commands.demo_users import PASSWORD
from tests.sandboxes import running as sandbox_running
from tests.sync.back_office import BackOffice, BackOffices, running
from tests.team.mail_server import MailServer, run_mail_server
from tests.waiting import wait_until
from tests.webhooks.records import order
from tests.webhooks.sending import receiving
from tests.webhooks.signed import SECRET, message

CANARIES = {
    "first name": "Zuzanqa",
    "last name": "Qwarkowska",
    "date of birth": "1907-03-11",
    "email": "zuzanqa.qwark",
    "phone": "5550177391",
    "street": "Xylophonia Crescent",
    "member id": "MBRQX7731",
    "group id": "GRPQX4410",
    "result": "98765.4321",
    "note": "quokkanote",
    "clinical note": "quokkaclinic",
    "event body": "quokkaevent",
    "file name": "quokkafile",
    "search": "quokkasearch",
}
SECRETS = {
    "secret key": "quokka-secret-key-" * 4,
    "field key": base64.b64encode(b"quokka-field-key-of-thirty-two-b").decode(),
    "service key": "sk_us_local_sandbox",
    "management key": "mg_local_sandbox",
    "webhook secret": SECRET,
    "password": PASSWORD,
    "mail password": "quokkamailpassword",
}
ALL_CANARIES: dict[str, str] = {**CANARIES, **SECRETS}
NOT_ATTEMPTED = (
    "SELECT count(*) FROM outbox_commandrecord"
    " WHERE state = 'sending' OR (state = 'waiting' AND due_at <= now())"
)
INTENDED_LINKS = ("mailto:", "tel:")
"""Links that are meant to show personal data."""


def hidden_fields(html: str) -> dict[str, str]:
    """Return names and values of the hidden fields."""
    inputs = [tag for tag in re.findall(r"<input[^>]*>", html) if 'type="hidden"' in tag]
    pairs = (re.search(r'name="([^"]*)"', tag) for tag in inputs)
    values = (re.search(r'value="([^"]*)"', tag) for tag in inputs)
    return {
        name[1]: unescape(value[1] if value else "")
        for name, value in zip(pairs, values, strict=True)
        if name
    }


@dataclass
class Visitor:
    """An HTTP client that records error pages and URLs, so that they can be searched."""

    url: str
    opener: OpenerDirector = field(
        default_factory=lambda: build_opener(HTTPCookieProcessor(http.cookiejar.CookieJar()))
    )
    recorded: dict[str, str] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)

    def request(self, path: str, form: dict[str, str] | None = None, **head: str) -> str:
        data = None if form is None else urlencode(form).encode()
        request = Request(f"{self.url}{path}", data, head)  # noqa: S310 - our own server
        try:
            with self.opener.open(request, timeout=60) as answer:
                return self._record(path, answer.status, answer.geturl(), answer.read())
        except HTTPError as error:
            return self._record(path, error.code, error.geturl(), error.read())

    def open_and_submit(self, page: str, to: str = "", **fields: str) -> str:
        """Open a page and send its form with hidden fields and `fields`."""
        return self.submit(self.request(page), to or page, **fields)

    def submit(self, html: str, to: str, **fields: str) -> str:
        forms = re.findall(r"<form[^>]*>.*?</form>", html, re.S)
        matching = [form for form in forms if f'action="{to}"' in form] or forms[-1:]
        return self.request(
            to, {**hidden_fields("".join(matching[:1])), **fields}, Referer=self.url
        )

    def _record(self, path: str, status: int, at: str, body: bytes) -> str:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        text = body.decode("utf-8", "replace")
        if status in (403, 404, 405, 500, 503):
            self.recorded[f"error page {status} of {path}"] = text
        links = re.findall(r'(?:href|src|action|hx-\w+)="([^"]*)"', text)
        urls = [link for link in links if not link.startswith(INTENDED_LINKS)]
        redirected = [] if at == f"{self.url}{path}" else [at]
        self.recorded[f"addresses on {path}"] = "\n".join([*redirected, *urls])
        return text


@dataclass
class CanarySystem:
    visitor: Visitor
    back_office: BackOffice
    post: MailServer
    redis_url: str
    database_log: Path
    order: str
    patient: str
    fault: Any


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CanarySystem]:
    logs = tmp_path_factory.mktemp("logs")
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("DATABASE_URL", "REDIS_URL", "TEST_SANDBOX_DATABASE"):
            patch.delenv(name, raising=False)
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bo-")))
        servers = stack.enter_context(embedded.servers(base, durable=False))
        patch.setenv("DATABASE_URL", servers.database_url)
        patch.setenv("REDIS_URL", servers.redis_url)
        patch.setenv("FIELD_KEYS", f"1:{SECRETS['field key']}")
        patch.setenv("SECRET_KEY", SECRETS["secret key"])
        post = stack.enter_context(run_mail_server())
        mail = f"smtp://office:{SECRETS['mail password']}@127.0.0.1:{post.port}"
        sandbox = stack.enter_context(sandbox_running(users=6, orders=12, seed=5))
        with psycopg.connect(sandbox.database_url) as connection:
            _write_canaries(connection)
        back_offices = BackOffices(servers.database_url, logs, staffed=True)
        stack.callback(back_offices.close)
        back_office = back_offices.build(
            sandbox.url, EMAIL_URL=mail, REPORT_FOLDER=str(logs / "reports"), LOG_LEVEL="DEBUG"
        )
        back_office.sync()
        back_office.query("UPDATE accounts_user SET email = username || '@clinic.invalid'")
        back_office.query("UPDATE orders_resultmarker SET text = %s", [CANARIES["result"]])
        patient, number = back_office.query(
            "SELECT user_id::text, id::text FROM orders_order ORDER BY created_at DESC LIMIT 1"
        )[0]
        url = stack.enter_context(receiving(back_office, workers=1))
        for program in (
            ("beat", "--schedule", str(logs / "beat"), "--pidfile", ""),
            ("worker", "--queues", "inbox,outbox,staff,bulk", "--concurrency", "2"),
        ):
            celery = back_office.start(
                "-m", "celery", "-A", "backoffice.celery", *program, "-l", "DEBUG"
            )
            stack.enter_context(running(celery))
        log = base / "log" / "postgres.log"
        yield CanarySystem(
            Visitor(url),
            back_office,
            post,
            servers.redis_url,
            log,
            number,
            patient,
            lambda **options: sandbox.control("faults", options),
        )


def _write_canaries(connection: Any) -> None:
    """Write canaries into every personal field of the service."""
    connection.execute(
        "UPDATE sandbox_userinfo SET first_name = %s, last_name = %s, email = %s,"
        " phone_number = %s, dob = %s, first_line = %s",
        [CANARIES["first name"], CANARIES["last name"], f"{CANARIES['email']}@example.com",
         f"+1{CANARIES['phone']}", CANARIES["date of birth"], CANARIES["street"]],
    )  # fmt: skip
    connection.execute(
        "UPDATE sandbox_insurance SET member_id = %s, group_id = %s",
        [CANARIES["member id"], CANARIES["group id"]],
    )


def test_personal_data_and_secrets_do_not_leak(system: CanarySystem) -> None:
    _use_pages(system)
    _cause_faults(system)
    visitor = system.visitor
    assert visitor.statuses.get(200, 0) > 30 and visitor.statuses.get(404, 0) > 2
    assert visitor.statuses.get(500, 0) + visitor.statuses.get(503, 0) >= 15, visitor.statuses
    places = {
        **visitor.recorded,
        "log of web, workers and clock": system.back_office.log.read_text(errors="replace"),
        "log of PostgreSQL": system.database_log.read_text(errors="replace"),
        "Redis": _redis_content(system.redis_url),
        "mails": "\n".join(str(mail) for mail in system.post.taken),
    }
    log = places["log of web, workers and clock"]
    assert '"error": "' in log and "celery" in log and "webhooks.apply_events" in log
    assert "ERROR" in places["log of PostgreSQL"], "the database logged no error"
    assert places["mails"], "no mail was sent"
    found = {
        f"{name} in {place}: …{_excerpt(text, canary)}…"
        for place, text in places.items()
        for name, canary in ALL_CANARIES.items()
        if canary.lower() in text.lower()
    }
    assert not found, "\n".join(sorted(found))


def _excerpt(text: str, canary: str) -> str:
    at = text.lower().index(canary.lower())
    return text[max(0, at - 80) : at + 80].replace("\n", " ")


def _use_pages(system: CanarySystem) -> None:
    """Do what staff do on a day, with valid and invalid input."""
    visitor, patient, order_id = system.visitor, system.patient, system.order
    visitor.request(
        f"/patients/?q={CANARIES['search']}"
    )  # without an account: redirected to the sign-in page
    visitor.open_and_submit(
        "/accounts/login/", username="clinician", password="wrong-" + CANARIES["search"]
    )
    visitor.open_and_submit("/accounts/login/", username=CANARIES["email"], password=PASSWORD)
    visitor.open_and_submit("/accounts/login/", username="administrator", password=PASSWORD)
    assert "Find a patient" in visitor.request("/orders/")
    for page in ("/", "/today/", "/orders/", "/patients/", "/appointments/", "/results/",
                 "/exceptions/", "/unmatched/", "/labs/", "/reports/", "/commands/", "/system/",
                 "/system/events/", "/notifications/", "/preferences/", "/admin/", "/api/schema/",
                 f"/patients/{patient}/", f"/patients/{patient}/insured/",
                 f"/patients/{patient}/details/", f"/orders/{order_id}/", "/api/insurance/",
                 f"/results/{order_id}/", f"/orders/new/{patient}/", "/api/patients/",
                 "/api/orders/", "/api/results/", "/nowhere/", "/orders/nothing/",
                 f"/patients/{uuid.uuid4()}/"):  # fmt: skip
        visitor.request(page)
    for typed in (CANARIES["search"], "' OR 1=1", "\x00", "%", CANARIES["first name"]):
        visitor.open_and_submit("/find/", q=typed, text=typed)
        visitor.request("/orders/", {"q": typed})
        visitor.request(f"/api/patients/?{urlencode({'cursor': typed})}")
        visitor.request(f"/api/patients/?{urlencode({typed: '1'})}")
    page = visitor.request(f"/orders/{order_id}/")
    assert "/team/note/" in page, page
    page = visitor.submit(page, "/team/note/", text=f"{CANARIES['note']} @viewer @clinician")
    assert CANARIES["note"] in page, page
    visitor.open_and_submit(
        f"/patients/{patient}/details/", first_name=CANARIES["first name"], dob="x"
    )
    visitor.open_and_submit(f"/orders/new/{patient}/", clinical_notes=CANARIES["clinical note"])
    _upload(system)
    _deliver_events(system)
    make_mail_due = "UPDATE team_notification SET mail_due_at = now() WHERE mail_due_at > now()"
    assert system.back_office.value("SELECT count(*) FROM team_notification"), "no notification"
    system.back_office.query(make_mail_due)
    wait_until(lambda: system.post.taken, 60, "a mail", every=0.2)


def _upload(system: CanarySystem) -> None:
    page = system.visitor.request(f"/reports/upload/{system.patient}/")
    token = hidden_fields(page)
    mark = "made-up-boundary"
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in token.items()]  # fmt: skip
    parts.append(
        f'--{mark}\r\nContent-Disposition: form-data; name="files"; filename="'
        f'{CANARIES["file name"]}.pdf"\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.4'
        f" {CANARIES['note']}\r\n--{mark}--\r\n"
    )
    head = {"Content-Type": f"multipart/form-data; boundary={mark}", "Referer": system.visitor.url}
    request = Request(  # noqa: S310 - our own server
        f"{system.visitor.url}/reports/upload/{system.patient}/", "".join(parts).encode(), head
    )
    with contextlib.suppress(HTTPError):
        system.visitor.opener.open(request, timeout=60)


def _deliver_events(system: CanarySystem) -> None:
    """Send events that can be applied, that cannot be read, and with a wrong signature."""
    changes = {"notes": CANARIES["event body"], "user_id": system.patient}
    misfit = {**order(3, 2, **changes), "updated_at": CANARIES["event body"], "events": "x"}
    valid, invalid = (
        message("labtest.order.updated", body) for body in (order(2, 2, **changes), misfit)
    )
    for sent, secret in ((valid, SECRET), (invalid, SECRET), (valid, "whsec_" + "A" * 32)):
        request = Request(  # noqa: S310 - our own server
            f"{system.visitor.url}/webhooks/", sent.body, sent.headers(secret=secret)
        )
        with contextlib.suppress(HTTPError):
            system.visitor.opener.open(request, timeout=60)
    states = "SELECT count(*) FROM webhooks_event WHERE state IN ('pending')"
    wait_until(lambda: system.back_office.value(states) == 0, 60, "the drain", every=0.2)


def _cause_faults(system: CanarySystem) -> None:
    """Cause faults while pages, tasks and deliveries run.

    Constraints make the database quote rows in errors, tables are missing, and the service sends
    invalid responses.
    """
    visitor, back_office, patient, order_id = (
        system.visitor,
        system.back_office,
        system.patient,
        system.order,
    )
    name = CANARIES["last name"]
    for table, check in (
        ("team_note", "text = 'x'"),
        ("patients_demographics", f"last_name <> '{name}'"),
        ("orders_order", "length(record) < 9"),
        ("webhooks_event", "body IS NULL"),
        ("orders_orderdraft", "typed = '{}'"),
    ):  # One statement each: in one transaction they could deadlock with workers.
        back_office.query(f"ALTER TABLE {table} ADD CONSTRAINT boom CHECK ({check}) NOT VALID")
    page = visitor.request(f"/orders/{order_id}/")
    visitor.submit(page, "/team/note/", text=CANARIES["note"])
    visitor.open_and_submit(f"/orders/new/{patient}/", clinical_notes=CANARIES["clinical note"])
    _deliver_events(system)
    back_office.query("UPDATE sync_lookup SET due_at = now(), generation = generation + 1")
    for kind in ("html", "truncate", "status", "drop_before", "redirect"):
        system.fault(kinds=[kind], rate=1.0, statuses=[500, 422])
        visitor.open_and_submit(f"/patients/{patient}/details/", first_name=CANARIES["first name"])
        wait_until(lambda: not back_office.value(NOT_ATTEMPTED), 60, "an attempt", every=0.2)
    system.fault(kinds=["status"], rate=0.0)
    for table in ("team_note", "orders_orderevent", "patients_insurance",
                  "patients_demographics", "orders_resultmarker", "orders_order",
                  "webhooks_event"):  # fmt: skip
        back_office.query(f'ALTER TABLE "{table}" RENAME TO gone')
        for path in (f"/orders/{order_id}/", f"/patients/{patient}/", "/orders/", "/patients/",
                     "/api/orders/", "/api/patients/", "/api/insurance/", "/system/events/",
                     f"/patients/{patient}/insured/"):  # fmt: skip
            visitor.request(path)
        visitor.submit(page, "/team/note/", text=CANARIES["note"])
        back_office.query(f'ALTER TABLE gone RENAME TO "{table}"')
    with contextlib.suppress(psycopg.Error):
        back_office.query("SELECT 1 / 0")
    wait_until(lambda: not back_office.due(), 180, "the lookups", every=0.2)


def _redis_content(url: str) -> str:
    client = redis.Redis.from_url(url)
    found = []
    for key in client.scan_iter(count=1000):
        found.append(f"{key!r} {client.dump(key)!r}")
        if client.type(key) == b"list":
            found += [_task_body(item) for item in client.lrange(key, 0, -1)]
    return "\n".join(found)


def _task_body(item: Any) -> str:
    """Return the decoded body of a Celery message."""
    try:
        return base64.b64decode(json.loads(item)["body"]).decode()
    except (ValueError, KeyError, TypeError):
        return repr(item)
