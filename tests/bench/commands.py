"""Goal 13: the time from a click to "confirmed", compared with the service's own response time.

The web server, beat, the workers and Redis run as the launcher starts them, with no other work.
Alternately, one visit is moved by the form of the back office, over HTTP, until its command is
closed, and a similar visit is moved by the same call of the service alone.
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
from orders.commands import RescheduleAppointment  # noqa: E402
from tests.bench.common import at_most, report  # noqa: E402
from tests.outbox.cases_visits import create_booked_visit, create_move  # noqa: E402
from tests.outbox.concurrent_staff import Browser  # noqa: E402
from tests.outbox.worker_setup import WorkerSetup, set_up_workers  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.back_office import BackOffice, end  # noqa: E402
from tests.sync.test_running_office import start_processes  # noqa: E402
from tests.waiting import wait_until  # noqa: E402
from tests.webhooks.sending import percentile, receiving  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "30"))
MAX_EXTRA_MS = 300
"""Milliseconds that the back office may add to the response time of the service."""
STATE = "SELECT state FROM outbox_commandrecord WHERE subject_id = %s AND kind = %s"


def main() -> int:
    call_command("migrate", verbosity=0)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running(users=30, orders=40, seed=41) as sandbox,
        set_up_workers(sandbox, {}, Path(folder) / "workers.log") as worker_setup,
    ):
        back_office = BackOffice(os.environ["DATABASE_URL"], sandbox.url, Path(folder) / "log")
        processes = start_processes(back_office, Path(folder))
        try:
            with receiving(back_office) as url:
                clicks, answers = _measure(worker_setup, Browser.sign_in(url, "ann"))
        finally:
            for process in processes:
                end(process)
    medians = [percentile(seconds, 0.5) for seconds in (clicks, answers)]
    percentiles = [percentile(seconds, 0.95) for seconds in (clicks, answers)]
    goals = [
        at_most(f"13 click to confirmed, median of {ROUNDS}", medians[0], medians[1] + MAX_EXTRA_MS,
                "{:.0f} ms"),
        at_most("13 click to confirmed, 95 of 100", percentiles[0], percentiles[1] + MAX_EXTRA_MS,
                "{:.0f} ms"),
    ]  # fmt: skip
    figures: dict[str, object] = {
        "click_to_confirmed_ms": [round(1000 * seconds) for seconds in clicks],
        "service_answer_ms": [round(1000 * seconds) for seconds in answers],
    }
    return report("commands", goals, figures)


def _measure(worker_setup: WorkerSetup, browser: Browser) -> tuple[list[float], list[float]]:
    """Return the seconds of each click and of each call of the service alone, without the first."""
    clicks, answers = [], []
    for _ in range(ROUNDS + 1):
        visit = create_move(worker_setup.records)
        started_at = time.perf_counter()
        service().appointments.reschedule_phlebotomy(visit.order_id, visit.time.key)
        answers.append(time.perf_counter() - started_at)
        clicks.append(_time_click(worker_setup, browser))
    longest = [f"{1000 * max(seconds[1:]):.0f}" for seconds in (clicks, answers)]
    print(f"  longest click {longest[0]} ms, longest answer {longest[1]} ms", flush=True)
    return clicks[1:], answers[1:]


def _time_click(worker_setup: WorkerSetup, browser: Browser) -> float:
    """Return the seconds until the page can show that the command is done."""
    order, _ = create_booked_visit(worker_setup.records)
    path = reverse("orders:move", args=[order.pk])
    page = browser.open(path)
    values = {**page.values, "slot": page.slots[-1]}
    time.sleep(0.3)  # Background requests of the page are done.
    started_at = time.perf_counter()
    answer = browser.send(path, values)
    assert answer.status_code == 302, answer.text[-2000:]
    wait_until(lambda: _state(order.pk) == "done", 30, f"the move: {_state(order.pk)}", 0.002)
    return time.perf_counter() - started_at


def _state(order_id: object) -> str:
    with connection.cursor() as cursor:
        cursor.execute(STATE, [str(order_id), RescheduleAppointment.kind])
        row = cursor.fetchone()
    return str(row[0]) if row else "not asked"


if __name__ == "__main__":
    sys.exit(main())
