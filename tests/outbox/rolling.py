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
from subprocess import Popen

from celery import current_app

from backoffice import programs
from backoffice.embedded import free_port
from backoffice.models import CommandAttempt, CommandRecord
from tests.outbox.proving import Proof
from tests.outbox.storm import Tally, mixed, prepared
from tests.sync.house import House, end, wait_until

SLOW = {"rate": 1, "kinds": ["slow_after"], "latency_ms": 700, "methods": ["POST", "PATCH", "PUT"]}
"""Each write takes a while: some are under way whenever a worker is told to end."""
TASKS = ("orders.tasks.deliver", "patients.tasks.deliver", "labs.tasks.deliver")


def workers(proof: Proof, house: House, count: int, restarts: int, seed: int) -> Tally:
    """`count` commands, and a worker that is replaced while it sends them. `kills` of the tally:
    how often it was told to end; `decided`: sendings that were cut."""
    chance = random.Random(seed)
    asked = prepared(proof, list(mixed(count)))
    proof.scene.sandbox.control("faults", SLOW)
    tally = Tally()
    worker = _worker(house)
    rung = threading.Event()
    bell = threading.Thread(target=_ring, args=(rung,))
    bell.start()
    try:
        while tally.kills < restarts:
            time.sleep(chance.uniform(1, 3))
            worker.send_signal(signal.SIGTERM)
            # The next one is there before the last is gone.
            following = _worker(house)
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


def _worker(house: House) -> Popen[bytes]:
    name = f"outbox-{time.monotonic_ns()}@%h"
    command = [name if word == "outbox@%h" else word for word in programs.worker("outbox")]
    return house.start(*command)


def _ring(over: threading.Event) -> None:
    while not over.wait(0.5):
        for task in TASKS:
            with contextlib.suppress(Exception):
                current_app.send_task(task, queue="outbox", expires=5)


@dataclass
class Traffic:
    """What a proxy in front of two web processes sees: a refused connection goes to the other."""

    ports: Sequence[int]
    path: str = "/accounts/login/"
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        turn = 0
        while not self.over.is_set():
            turn += 1
            for port in (self.ports[turn % 2], self.ports[(turn + 1) % 2]):
                try:
                    status = self._ask(port)
                except ConnectionRefusedError:
                    continue
                except (OSError, http.client.HTTPException) as error:
                    self.failed.append(type(error).__name__)
                else:
                    self.answered += status == 200
                    if status != 200:
                        self.failed.append(str(status))
                break
            else:
                self.failed.append("both refused")
            time.sleep(0.01)

    def _ask(self, port: int) -> int:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            asked.request("GET", self.path, headers={"Connection": "close"})
            answer = asked.getresponse()
            answer.read()
            return answer.status
        finally:
            asked.close()


def web(house: House, restarts: int, askers: int = 4) -> tuple[int, list[str]]:
    """How many requests were answered, and how others failed, while each of two web processes is
    replaced in turn."""
    ports = [free_port(), free_port()]
    processes = [_web(house, port) for port in ports]
    traffic = Traffic(ports)
    threads = [threading.Thread(target=traffic.run) for _ in range(askers)]
    try:
        for port in ports:
            _await(port)
        for thread in threads:
            thread.start()
        for turn in range(restarts):
            place = turn % 2
            processes[place].send_signal(signal.SIGTERM)
            processes[place].wait(40)
            end(processes[place])
            processes[place] = _web(house, ports[place])
            _await(ports[place])
    finally:
        traffic.over.set()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        for process in processes:
            end(process)
    return traffic.answered, traffic.failed


def _web(house: House, port: int) -> Popen[bytes]:
    return house.start(*programs.web("127.0.0.1", str(port), "30s"))


def _await(port: int) -> None:
    ready = Traffic([port, port], "/health/ready")

    def answers() -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ready._ask(port) == 200
        return False

    wait_until(answers, 60, "the web process", 0.1)
