"""Workers and web processes replaced one after the other while people work (reliability P24)."""

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

from backoffice.devtools import programs
from backoffice.devtools.embedded import free_port
from backoffice.models import CommandAttempt, CommandRecord, Heartbeat
from tests.outbox.proving import Proof
from tests.outbox.storm import Tally, mixed, prepared
from tests.sync.house import House, end, wait_until

SLOW = {"rate": 1, "kinds": ["slow_after"], "latency_ms": 700, "methods": ["POST", "PATCH", "PUT"]}
"""Each write takes a while: some are under way whenever a worker is told to end."""
TASKS = tuple(f"{app}.tasks.deliver" for app in ("orders", "patients", "labs", "webhooks"))


def workers(proof: Proof, house: House, count: int, restarts: int, seed: int) -> Tally:
    """`count` commands, and a worker that is replaced while it sends them. `kills` of the tally:
    how often it was told to end; `decided`: sendings that were cut."""
    chance = random.Random(seed)
    asked = prepared(proof, list(mixed(count)))
    proof.scene.sandbox.control("faults", SLOW)
    tally = Tally()
    worker = _worker(house, 0)
    rung = threading.Event()
    bell = threading.Thread(target=_ring, args=(rung,))
    bell.start()
    try:
        while tally.kills < restarts:
            # One that is told to end before it listens to that dies at once, with nothing in hand.
            wait_until(lambda: _has_answered(f"outbox-{tally.kills}@"), 60, "the worker", 0.1)
            time.sleep(chance.uniform(0, 2))
            worker.send_signal(signal.SIGTERM)
            # The next one is there before the last is gone.
            following = _worker(house, tally.kills + 1)
            assert worker.wait(60) == 0, house.said()
            end(worker)
            worker = following
            tally.kills += 1
        proof.scene.sandbox.control("faults", method="DELETE")
        waiting = CommandRecord.objects.open().exclude(state=CommandRecord.State.UNDECIDED)
        wait_until(lambda: not waiting.exists(), 120, "all commands to be settled", 0.3)
    finally:
        rung.set()
        bell.join()
        end(worker)
    for one in asked:
        tally.count(proof, one)
    cut = CommandAttempt.objects.filter(phase="send", outcome__in=("lost", "fault", "uncertain"))
    tally.decided = cut.count()
    return tally


def _has_answered(name: str) -> bool:
    current_app.send_task("backoffice.operations.tasks.heartbeat", queue="outbox", expires=5)
    return Heartbeat.objects.filter(worker__startswith=name).exists()


def _worker(house: House, number: int) -> Popen[bytes]:
    name = f"outbox-{number}@%h"
    command = [name if word == "outbox@%h" else word for word in programs.worker("outbox")]
    return house.start(*command)


def _ring(over: threading.Event) -> None:
    while not over.wait(0.5):
        for task in TASKS:
            with contextlib.suppress(Exception):
                current_app.send_task(task, queue="outbox", expires=5)


@dataclass
class Office:
    """A web process, and the file that says it is about to end."""

    house: House
    port: int
    draining: Path
    process: Popen[bytes] = field(init=False, repr=False)

    def start(self) -> None:
        self.draining.unlink(missing_ok=True)
        command = programs.web("127.0.0.1", str(self.port), "30s")
        self.process = self.house.start(*command, DRAIN_FILE=str(self.draining))
        wait_until(self.ready, 60, "the web process", 0.1)

    def ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("/health/ready") == 200
        return False

    def ask(self, path: str) -> int:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            asked.request("GET", path, headers={"Connection": "close"})
            answer = asked.getresponse()
            answer.read()
            return answer.status
        finally:
            asked.close()

    def replace(self, balancer: Balancer) -> None:
        """As an operator does: drain, wait until the balancer has seen it, end, start."""
        self.draining.touch()
        wait_until(lambda: self not in balancer.ready, 30, "the balancer to see it", 0.05)
        time.sleep(3)  # for who had just been sent here
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0, self.house.said()
        end(self.process)
        self.start()


LOOK_SECONDS = 0.25


@dataclass
class Balancer:
    """Sends requests to whichever process was ready when it last looked."""

    offices: Sequence[Office]
    path: str = "/accounts/login/"
    ready: list[Office] = field(default_factory=list)
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        while not self.over.is_set():
            self.ready = [office for office in self.offices if office.ready()]
            time.sleep(LOOK_SECONDS)

    def ask(self) -> None:
        turn = 0
        while not self.over.is_set():
            ready = self.ready
            if ready:
                turn += 1
                try:
                    status = ready[turn % len(ready)].ask(self.path)
                except (OSError, http.client.HTTPException) as error:
                    self.failed.append(type(error).__name__)
                else:
                    self.answered += status == 200
                    if status != 200:
                        self.failed.append(str(status))
            time.sleep(0.01)


def web(house: House, folder: Path, restarts: int, askers: int = 4) -> tuple[int, list[str]]:
    """How many requests were answered, and how others failed, while each of two web processes is
    replaced in turn."""
    offices = [Office(house, free_port(), folder / name) for name in ("drain-a", "drain-b")]
    balancer = Balancer(offices)
    threads = [threading.Thread(target=balancer.ask) for _ in range(askers)]
    threads.append(threading.Thread(target=balancer.look))
    try:
        for office in offices:
            office.start()
        for thread in threads:
            thread.start()
        wait_until(lambda: balancer.answered, 60, "the first answer", 0.05)
        for turn in range(restarts):
            offices[turn % 2].replace(balancer)
            wait_until(lambda: len(balancer.ready) == 2, 30, "both to be in use", 0.05)
    finally:
        balancer.over.set()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        for office in offices:
            end(office.process)
    return balancer.answered, balancer.failed
