"""Power cuts of an installation during events, staff work and a sync (reliability K17, P10).

The sandbox keeps running. It delivers unacknowledged events again, and its tables decide whether
each command was carried out once.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from backoffice.devtools.progress import SyncProgress
from backoffice.management.commands.demo_users import PASSWORD
from tests.chaos.installation import Installation, find_free_port
from tests.outbox.concurrent_staff import PageFields
from tests.outbox.patient_forms import CARD, PERSON, new_reference, unique_name, unique_phone
from tests.sandbox.conftest import TEAM_KEY
from tests.sandbox.ordering import World
from tests.sandboxes import Sandbox
from tests.sync import compare
from tests.sync.back_office import BackOffice
from tests.sync.expected import ALL_CHECKS
from tests.waiting import wait_until
from tests.webhooks import oracle

SETTINGS: Final = {
    "OUTBOX_SEND_SECONDS": "5",
    "OUTBOX_LEASE_SECONDS": "8",
    "OUTBOX_SETTLE_SECONDS": "12",
    "SYNC_LEASE_SECONDS": "5",
    "SYNC_ORDERS_SECONDS": "2",
}
SLOW_WRITES: Final = {
    "rate": 1,
    "kinds": ["slow", "slow_after"],
    "latency_ms": 700,
    "methods": ["POST"],
    "paths": "/cancel$|^/v2/user$|/insurance$",
}
"""Each write is slow, so that some are in flight at each power cut."""
RETRIES: Final = {"retry_speed": 600}
"""Events that were not acknowledged are delivered again within seconds instead of hours."""
WORK_IN_PROGRESS: Final = """
SELECT (SELECT count(*) FROM sync_syncrun WHERE state = 'running' AND lease_until > now()),
 (SELECT count(*) FROM outbox_commandrecord WHERE state = 'sending'),
 (SELECT count(*) FROM webhooks_event WHERE state = 'pending')
"""
A_DAY_LATER: Final = """
UPDATE sync_syncrun SET created_at = created_at - interval '1 day'
WHERE "full" AND state = 'done'
"""
"""Makes the sync read everything again."""
RECORD_CHECKS: Final = [check for check in ALL_CHECKS if check.name != "payors met"]
"""All checks but payors, which come from searches by name."""
MAKE_DELIVERIES_DUE: Final = """
UPDATE sandbox_message SET due_at = CASE WHEN claimed THEN due_at ELSE now() END
WHERE state = 'pending' RETURNING number
"""
"""Makes waiting deliveries due now."""
OPEN_WORK: Final = """
SELECT (SELECT count(*) FROM webhooks_event WHERE state IN ('pending', 'retry'))
 + (SELECT count(*) FROM outbox_commandrecord
    WHERE state IN ('waiting', 'sending', 'uncertain'))
"""
COUNT_CANCELLATIONS: Final = """
SELECT count(*) FROM sandbox_orderevent JOIN sandbox_order ON number = order_id
WHERE sandbox_order.id::text = %s AND sandbox_orderevent.status LIKE '%%.cancelled'
"""
COUNT_USERS: Final = "SELECT count(*) FROM sandbox_user WHERE client_user_id = %s"
COUNT_INSURANCE: Final = """
SELECT count(*) FROM sandbox_insurance JOIN sandbox_user ON sandbox_user.id = user_id
WHERE client_user_id = %s
"""
COUNT_COMMANDS: Final = """
SELECT count(*) FROM outbox_commandrecord WHERE kind IN ('order.cancel', 'patient.create')
"""
SEAL_AND_VERIFY: Final = """
from django.core.management import call_command
from backoffice.audit import seals
seals.seal()
call_command("verifyaudit")
"""
COMMAND_OF_FORM: Final = "SELECT state FROM outbox_commandrecord WHERE form_id = %s"
INSURANCE_COMMAND: Final = """
SELECT c.state FROM outbox_commandrecord AS c JOIN patients_patient AS p ON p.id = c.patient_id
WHERE c.kind = 'insurance.create' AND p.client_user_id = %s
"""


class AcceptedForm(NamedTuple):
    """An accepted form. `key` finds its effect at the service."""

    form_id: str
    key: str
    registers: bool


class Staff(threading.Thread):
    """A person who cancels orders and registers patients during all power cuts.

    A form without an answer is sent again until one arrives.
    """

    def __init__(self, person: httpx.Client, sandbox: Sandbox) -> None:
        super().__init__(daemon=True)
        self.http = httpx.Client(
            base_url=person.base_url, headers=person.headers, cookies=person.cookies, timeout=10
        )
        self.world = World(sandbox, httpx.Client(base_url=sandbox.url, headers=TEAM_KEY))
        self.finished = threading.Event()
        self.accepted: list[AcceptedForm] = []
        self.turned_away = 0
        self.sent_again = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.finished.is_set():
                order = str(self.world.place("Clinic Draw Basic")["id"])
                self._send(f"/orders/{order}/cancel/", order, {"why": "patient"})
                client_user_id = new_reference()
                unique = {
                    "client_user_id": client_user_id,
                    "last_name": unique_name(),
                    "phone_number": unique_phone(),
                }
                unique["email"] = f"{unique_name()}@example.invalid"
                self._send("/patients/register/", client_user_id, {**PERSON, **CARD, **unique})
        except Exception as error:
            self.error = error

    def end(self) -> None:
        self.finished.set()
        self.join(150)
        if self.error is not None:
            raise self.error
        assert not self.is_alive()

    def _send(self, path: str, key: str, typed: dict[str, str]) -> None:
        values = {**PageFields(self._answer("GET", path).text).values, **typed}
        if self._answer("POST", path, values).status_code == 302:
            self.accepted.append(AcceptedForm(values["form_id"], key, bool(typed)))
        else:
            self.turned_away += 1

    def _answer(self, method: str, path: str, values: Any = None) -> httpx.Response:
        """Return the first answer except 5xx and 404. A new order may not be synced yet."""
        until = time.monotonic() + 120
        while True:
            try:
                answer = self.http.request(method, path, data=values)
                if answer.status_code < 500 and answer.status_code != 404:
                    return answer
                failure = f"{path}: {answer.status_code}"
            except httpx.TransportError as error:
                failure = f"{path}: {type(error).__name__}"
            assert time.monotonic() < until, failure
            self.sent_again += method == "POST"
            time.sleep(0.2)


@dataclass
class Cut:
    """The work in progress at a power cut, and the seconds until the installation was healthy."""

    processes: int
    runs: int
    sendings: int
    events: int
    seconds: float = 0


@dataclass
class Outcome:
    """The final state. The lists contain errors."""

    cuts: list[Cut]
    delivered: int = 0
    events: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    done: int = 0
    undecided: int = 0
    refused: int = 0
    sent_again: int = 0
    seals: int = 0

    def check_command(self, name: str, state: str, effects: int) -> None:
        """Check that a command was done once, left to a person, or refused and not done."""
        self.done += state == "done"
        self.undecided += state == "undecided"
        self.refused += state == "refused"
        allowed = {"done": (1,), "undecided": (0, 1), "refused": (0,)}
        if effects not in allowed.get(state, ()):
            self.commands.append(f"{name}: {state or 'no row'}, {effects} times at the service")


def power_cuts(folder: Path, sandbox: Sandbox, cuts: int, seed: int) -> Outcome:
    """Run an installation and cut its power at moments chosen by `seed`.

    Every third time the power is cut again during the start. Raise AssertionError when the
    installation does not become healthy.
    """
    rng = random.Random(seed)
    installation = Installation(folder, sandbox.url, find_free_port(), SETTINGS)
    sandbox.control("delivery-faults", RETRIES)
    sandbox.control("webhooks", {"url": f"{installation.url}/webhooks/"})
    sandbox.control("faults", SLOW_WRITES)
    outcome = Outcome([])
    try:
        installation.start()
        installation.wait_until_healthy()
        installation.back_office.manage("demo_users")
        installation.back_office.query(oracle.ONCE)
        person = signed_in(installation.url)
        staff = Staff(person, sandbox)
        staff.start()
        while len(outcome.cuts) < cuts:
            time.sleep(rng.uniform(2, 7))
            outcome.cuts.append(_cut(installation))
            time.sleep(rng.uniform(0, 2))
            installation.start()
            if len(outcome.cuts) % 3 == 0:
                time.sleep(rng.uniform(0.5, 8))
                installation.kill_all()
                installation.start()
            outcome.cuts[-1].seconds = installation.wait_until_healthy(person)
            installation.back_office.query(A_DAY_LATER)
        staff.end()
        sandbox.control("clock", {"speed": 0})
        sandbox.control("faults", method="DELETE")
        _settle(installation.back_office, sandbox)
        _check_outcome(outcome, staff, installation.back_office, sandbox)
    finally:
        installation.end()
    return outcome


def signed_in(url: str) -> httpx.Client:
    person = httpx.Client(base_url=url, headers={"referer": url}, timeout=60)
    credentials = {"username": "administrator", "password": PASSWORD}
    form = PageFields(person.get("/accounts/login/").text)
    answer = person.post("/accounts/login/", data={**form.values, **credentials})
    assert answer.status_code == 302, answer.status_code
    return person


def _cut(installation: Installation) -> Cut:
    runs, sendings, events = installation.back_office.query(WORK_IN_PROGRESS)[0]
    return Cut(installation.kill_all(), runs, sendings, events)


def _settle(back_office: BackOffice, sandbox: Sandbox) -> None:
    """Wait until all events and commands are handled, except those that wait for a person."""
    wait_until(lambda: not sandbox.query(MAKE_DELIVERIES_DUE), 60, "the sandbox's deliveries", 0.5)
    wait_until(lambda: not back_office.value(OPEN_WORK), 120, "events and commands", 0.5)
    wait_until(lambda: SyncProgress.read(back_office.database_url).over, 120, "the first sync", 0.5)


def _check_outcome(
    outcome: Outcome, staff: Staff, back_office: BackOffice, sandbox: Sandbox
) -> None:
    states = dict(back_office.query("SELECT message_id, state FROM webhooks_event"))
    for message_id, sent in sandbox.query("SELECT message_id, state FROM sandbox_message"):
        outcome.delivered += 1
        if (sent, states.get(message_id)) != ("delivered", "done"):
            outcome.events.append(f"{message_id}: {sent} there, {states.get(message_id)} here")
    outcome.events += [
        f"event {number}: applied twice" for (number,) in back_office.query(oracle.TWICE)
    ]
    outcome.sent_again = staff.sent_again
    for form in staff.accepted:
        rows = back_office.query(COMMAND_OF_FORM, [form.form_id])
        effect = COUNT_USERS if form.registers else COUNT_CANCELLATIONS
        _check_command(
            outcome, f"form {form.form_id}", rows, sandbox.query(effect, [form.key])[0][0]
        )
        if form.registers and rows == [("done",)]:
            rows, effects = (
                back_office.query(INSURANCE_COMMAND, [form.key]),
                sandbox.query(COUNT_INSURANCE, [form.key]),
            )
            _check_command(outcome, f"insurance of form {form.form_id}", rows, effects[0][0])
    rows = back_office.value(COUNT_COMMANDS)
    if rows != len(staff.accepted):
        outcome.commands.append(f"{rows} commands were recorded of {len(staff.accepted)} forms")
    outcome.different = _different(back_office, sandbox)
    back_office.manage("shell", "-c", SEAL_AND_VERIFY)
    outcome.seals = int(back_office.value("SELECT count(*) FROM audit_auditseal"))


def _check_command(outcome: Outcome, name: str, rows: list[tuple[Any, ...]], effects: int) -> None:
    """Check one command. An accepted form must have made exactly one row."""
    outcome.check_command(name, rows[0][0] if len(rows) == 1 else "", effects)


def _different(back_office: BackOffice, sandbox: Sandbox) -> list[str]:
    """Make all lookups due and return the differences that remain after them."""
    back_office.query("UPDATE sync_lookup SET due_at = now()")
    until = time.monotonic() + 120
    while different := compare.differences(sandbox, back_office, RECORD_CHECKS):
        if time.monotonic() > until:
            return different
        time.sleep(1)
    return []
