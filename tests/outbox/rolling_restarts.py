"""Rolling restarts of workers and web processes while people work (reliability P24)."""

from __future__ import annotations

import contextlib
import http.client
import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from celery import current_app

from backoffice.core.models import Heartbeat
from backoffice.devtools import programs
from backoffice.devtools.embedded import free_port
from backoffice.outbox.models import CommandAttempt, CommandRecord
from tests.outbox.stress import StressReport, enqueue_cases, mixed_cases
from tests.outbox.worker_setup import WorkerSetup
from tests.sync.back_office import BackOffice, end
from tests.waiting import wait_until

SLOW_WRITES = {
    "rate": 1,
    "kinds": ["slow_after"],
    "latency_ms": 700,
    "methods": ["POST", "PATCH", "PUT"],
}
"""Slow writes, so that some are under way whenever a worker gets SIGTERM."""
TASKS = tuple(f"{app}.tasks.deliver" for app in ("orders", "patients", "labs", "webhooks"))


def replace_workers(
    worker_setup: WorkerSetup, back_office: BackOffice, count: int, restarts: int, seed: int
) -> StressReport:
    """Replace the worker `restarts` times while it sends `count` commands.

    In the report `kills` is the number of SIGTERMs and `resolved` that of interrupted requests.
    """
    rng = random.Random(seed)
    prepared = enqueue_cases(worker_setup, list(mixed_cases(count)))
    worker_setup.records.sandbox.control("faults", SLOW_WRITES)
    report = StressReport()
    worker = _start_worker(back_office, 0)
    stop_waking = threading.Event()
    waker = threading.Thread(target=_wake_workers, args=(stop_waking,))
    waker.start()
    try:
        while report.kills < restarts:
            # SIGTERM before the handler is installed kills the worker at once, without a command.
            wait_until(lambda: _has_answered(f"outbox-{report.kills}@"), 60, "the worker", 0.1)
            time.sleep(rng.uniform(0, 2))
            worker.send_signal(signal.SIGTERM)
            # The next worker starts before the last one has ended.
            next_worker = _start_worker(back_office, report.kills + 1)
            assert worker.wait(60) == 0, back_office.said()
            end(worker)
            worker = next_worker
            report.kills += 1
        worker_setup.records.sandbox.control("faults", method="DELETE")
        waiting = CommandRecord.objects.open().exclude(state=CommandRecord.State.UNDECIDED)
        wait_until(lambda: not waiting.exists(), 120, "all commands to be settled", 0.3)
    finally:
        stop_waking.set()
        waker.join()
        end(worker)
    for one in prepared:
        report.count(worker_setup, one)
    interrupted = CommandAttempt.objects.filter(
        phase="send", outcome__in=("lost", "fault", "uncertain")
    )
    report.resolved = interrupted.count()
    return report


def _has_answered(name: str) -> bool:
    current_app.send_task("backoffice.operations.tasks.heartbeat", queue="outbox", expires=5)
    return Heartbeat.objects.filter(worker__startswith=name).exists()


def _start_worker(back_office: BackOffice, number: int) -> Popen[bytes]:
    name = f"outbox-{number}@%h"
    command = [name if word == "outbox@%h" else word for word in programs.worker("outbox")]
    return back_office.start(*command)


def _wake_workers(stopped: threading.Event) -> None:
    while not stopped.wait(0.5):
        for task in TASKS:
            with contextlib.suppress(Exception):
                current_app.send_task(task, queue="outbox", expires=5)


@dataclass
class WebProcess:
    """A web process, and the file that tells the balancer that it is about to end."""

    back_office: BackOffice
    port: int
    drain_file: Path
    process: Popen[bytes] = field(init=False, repr=False)

    def start(self) -> None:
        self.drain_file.unlink(missing_ok=True)
        command = programs.web("127.0.0.1", str(self.port), "30s")
        self.process = self.back_office.start(*command, DRAIN_FILE=str(self.drain_file))
        wait_until(self.is_ready, 60, "the web process", 0.1)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.get("/health/ready") == 200
        return False

    def get(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def replace(self, balancer: Balancer) -> None:
        """Restart as an operator does: drain, wait for the balancer, end, start."""
        self.drain_file.touch()
        wait_until(lambda: self not in balancer.ready, 30, "the balancer to see it", 0.05)
        time.sleep(3)  # for requests that the balancer has just sent here
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0, self.back_office.said()
        end(self.process)
        self.start()


WATCH_SECONDS = 0.25


@dataclass
class Balancer:
    """Sends requests to the processes that were ready at its last check."""

    web_processes: Sequence[WebProcess]
    path: str = "/accounts/login/"
    ready: list[WebProcess] = field(default_factory=list)
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.stopped.is_set():
            self.ready = [
                web_process for web_process in self.web_processes if web_process.is_ready()
            ]
            time.sleep(WATCH_SECONDS)

    def send_requests(self) -> None:
        turn = 0
        while not self.stopped.is_set():
            ready = self.ready
            if ready:
                turn += 1
                try:
                    status = ready[turn % len(ready)].get(self.path)
                except (OSError, http.client.HTTPException) as error:
                    self.failed.append(type(error).__name__)
                else:
                    self.answered += status == 200
                    if status != 200:
                        self.failed.append(str(status))
            time.sleep(0.01)


def replace_web_processes(
    back_office: BackOffice, folder: Path, restarts: int, clients: int = 4
) -> tuple[int, list[str]]:
    """Replace two web processes in turn while clients send requests.

    Returns the number of answered requests and the errors of the others.
    """
    web_processes = [
        WebProcess(back_office, free_port(), folder / name) for name in ("drain-a", "drain-b")
    ]
    balancer = Balancer(web_processes)
    threads = [threading.Thread(target=balancer.send_requests) for _ in range(clients)]
    threads.append(threading.Thread(target=balancer.watch))
    try:
        for web_process in web_processes:
            web_process.start()
        for thread in threads:
            thread.start()
        wait_until(lambda: balancer.answered, 60, "the first answer", 0.05)
        for round_number in range(restarts):
            web_processes[round_number % 2].replace(balancer)
            wait_until(lambda: len(balancer.ready) == 2, 30, "both to be in use", 0.05)
    finally:
        balancer.stopped.set()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        for web_process in web_processes:
            end(web_process.process)
    return balancer.answered, balancer.failed
