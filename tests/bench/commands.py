"""Goal 13: from the click to "confirmed", beside the time the service itself takes to answer.

The real web server, beat, workers and Redis, as the launcher starts them, idle but for this. In
turns: a visit is moved by the form of the back office, over HTTP, until its command is closed; and
a visit like it is moved by the same call of the service alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.urls import reverse  # noqa: E402

from backoffice.core.service_client import service  # noqa: E402
from orders.commands import MoveVisit  # noqa: E402
from tests.bench.common import at_most, report  # noqa: E402
from tests.outbox.cases_visits import create_booked_visit, create_move  # noqa: E402
from tests.outbox.concurrent_staff import Browser  # noqa: E402
from tests.outbox.worker_setup import WorkerSetup, set_up_workers  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.house import House, end, wait_until  # noqa: E402
from tests.sync.test_running_office import start_processes  # noqa: E402
from tests.webhooks.sending import percentile, receiving  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "30"))
BESIDE = 300
"""Milliseconds the back office may take beside the service."""
STATE = "SELECT state FROM outbox_commandrecord WHERE subject_id = %s AND kind = %s"


def main() -> int:
    call_command("migrate", verbosity=0)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        running(users=30, orders=40, seed=41) as sandbox,
        set_up_workers(sandbox, {}, Path(name) / "workers.log") as worker_setup,
    ):
        house = House(os.environ["DATABASE_URL"], sandbox.url, Path(name) / "log")
        processes = start_processes(house, Path(name))
        try:
            with receiving(house) as url:
                clicks, answers = _measured(worker_setup, Browser.sign_in(url, "ann"))
        finally:
            for process in processes:
                end(process)
    middle = [percentile(seconds, 0.5) for seconds in (clicks, answers)]
    tail = [percentile(seconds, 0.95) for seconds in (clicks, answers)]
    goals = [
        at_most(f"13 click to confirmed, median of {ROUNDS}", middle[0], middle[1] + BESIDE,
                "{:.0f} ms"),
        at_most("13 click to confirmed, 95 of 100", tail[0], tail[1] + BESIDE, "{:.0f} ms"),
    ]  # fmt: skip
    figures: dict[str, object] = {
        "click_to_confirmed_ms": [round(1000 * seconds) for seconds in clicks],
        "service_answer_ms": [round(1000 * seconds) for seconds in answers],
    }
    return report("commands", goals, figures)


def _measured(worker_setup: WorkerSetup, person: Browser) -> tuple[list[float], list[float]]:
    """Seconds of each click and of each call of the service alone, without the first."""
    clicks, answers = [], []
    for _ in range(ROUNDS + 1):
        alone = create_move(worker_setup.records)
        begun = time.perf_counter()
        service().appointments.reschedule_phlebotomy(alone.order_id, alone.time.key)
        answers.append(time.perf_counter() - begun)
        clicks.append(_click(worker_setup, person))
    shown = [f"{1000 * max(each[1:]):.0f}" for each in (clicks, answers)]
    print(f"  longest click {shown[0]} ms, longest answer {shown[1]} ms", flush=True)
    return clicks[1:], answers[1:]


def _click(worker_setup: WorkerSetup, person: Browser) -> float:
    """From the click to the moment at which the page can say so."""
    order, _ = create_booked_visit(worker_setup.records)
    path = reverse("orders:move", args=[order.pk])
    page = person.open(path)
    values = {**page.values, "slot": page.slots[-1]}
    time.sleep(0.3)  # Whatever the page has set going is over.
    begun = time.perf_counter()
    answer = person.send(path, values)
    assert answer.status_code == 302, answer.text[-2000:]
    wait_until(lambda: _state(order.pk) == "done", 30, f"the move: {_state(order.pk)}", 0.002)
    return time.perf_counter() - begun


def _state(order_id: object) -> str:
    with connection.cursor() as cursor:
        cursor.execute(STATE, [str(order_id), MoveVisit.kind])
        found = cursor.fetchone()
    return str(found[0]) if found else "not asked"


if __name__ == "__main__":
    sys.exit(main())
