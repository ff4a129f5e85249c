"""`./run chaos inbox`: the long proofs of the inbox (reliability P1 to P4, P28).

The run prints a table, writes `var/bench/chaos-inbox.json`, and exits non-zero when a proof fails.
`CHAOS_EVENTS` (1,000,000) sets the size of P1. For each 10,000 events one worker is killed, but at
least ten are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import django
import psycopg
import redis

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from tests.bench.common import Goal  # noqa: E402
from tests.chaos.common import run  # noqa: E402
from tests.sync.back_office import BackOffice, BackOffices, end  # noqa: E402
from tests.sync.cluster import own_cluster  # noqa: E402
from tests.sync.test_running_office import start_processes  # noqa: E402
from tests.waiting import wait_until  # noqa: E402
from tests.webhooks import oracle  # noqa: E402
from tests.webhooks.catalogue import CATALOGUE, ODD_FIELDS, Catalogue  # noqa: E402
from tests.webhooks.records import OUR_TEAM  # noqa: E402
from tests.webhooks.sending import Attempt, Sent, attempt, percentile, receiving, send  # noqa: E402
from tests.webhooks.signed import Message  # noqa: E402

EVENTS = int(os.environ.get("CHAOS_EVENTS", "1000000"))
KILLS = max(10, EVENTS // 10_000)
WORKERS = 2
RATE = 300
SERVICE = "http://127.0.0.1:9"
"""No service answers there, so the mirror holds only data of events."""
COUNT_PENDING = "SELECT count(*) FROM webhooks_event WHERE state = 'pending'"
OTHER_TYPES = [
    name for name in CATALOGUE if name.startswith("daily.data.") and "workout_stream" not in name
]


def million_events(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P1: a million shuffled events, while workers are killed with SIGKILL.

    Of the events, 5 % are repeated, 0.1 % cannot be applied and 0.1 % have an odd field.
    """
    back_office = back_offices.build(SERVICE)
    back_office.query(OUR_TEAM)
    back_office.query(oracle.ONCE)
    rng = random.Random(1)
    catalogue = Catalogue(1, orders=max(100, EVENTS // 10))
    copied = EVENTS - EVENTS // 20
    started = time.monotonic()
    repeats = _fill_inbox(back_office, catalogue, copied, rng)
    fill_seconds = time.monotonic() - started
    print(f"  {copied:,} events copied in {fill_seconds:.0f} s", flush=True)
    fresh = [_random_message(catalogue, rng) for _ in range(EVENTS - copied)]
    attempts = [attempt(one) for one in [*fresh, *repeats]]
    rng.shuffle(attempts)
    poison = back_office.value("SELECT count(*) FROM webhooks_event WHERE key_id = 'poison'")
    results: list[Sent] = []
    killed = 0
    started = time.monotonic()
    with receiving(back_office) as url:
        sender = threading.Thread(target=lambda: results.extend(send(url, attempts, 4)))
        workers = [back_office.start("-m", "tests.webhooks.drainer") for _ in range(WORKERS)]
        try:
            sender.start()
            while sender.is_alive() or back_office.value(COUNT_PENDING):
                time.sleep(rng.uniform(0.8, 1.8))
                if killed < KILLS:
                    end(workers[killed % WORKERS])
                    workers[killed % WORKERS] = back_office.start("-m", "tests.webhooks.drainer")
                    killed += 1
            drain_seconds = time.monotonic() - started
        finally:
            for worker in workers:
                end(worker)
            sender.join(60)
    print(f"  drained in {drain_seconds:.0f} s with {killed} kills; asking the oracle", flush=True)
    accepted = {one.message_id for one in results if one.status == 204}
    stored = int(back_office.value("SELECT count(*) FROM webhooks_event"))
    lost = (
        EVENTS
        - stored
        + int(back_office.value(COUNT_PENDING))
        + len(back_office.query(oracle.NEVER))
    )
    wrong = oracle.wrong(back_office)
    odd = back_office.value("SELECT count(*) FROM webhooks_event WHERE key_id = 'odd'")
    stopped = back_office.value(
        "SELECT count(*) FROM webhooks_event WHERE key_id = 'odd' AND state <> 'done'"
    )
    noted = back_office.value(
        "SELECT count(*) FROM mirror_unreadrecord WHERE resource = 'orders_order' AND is_stored"
    )
    stored_odd = len(ODD_FIELDS) - 1
    twice = len(back_office.query(oracle.TWICE))
    unseen = back_office.value(
        "SELECT count(*) FROM webhooks_event WHERE key_id = 'poison'"
        " AND NOT (state IN ('retry', 'dead') AND reason <> '')"
    )
    extent = f"{EVENTS:,} events, {drain_seconds:.0f} s"
    return [
        Goal(f"P1 workers killed ({extent})", str(killed), str(KILLS), killed >= KILLS),
        Goal("P1 deliveries refused", str(len(attempts) - len(accepted)), "0",
             len(accepted) == len(attempts)),
        Goal("P1 accepted and lost", str(lost), "0", lost == 0),
        Goal("P1 applied twice", str(twice), "0", twice == 0),
        Goal("P1 rows other than the oracle's", str(sum(wrong.values())), "0", not wrong),
        Goal(f"P1 poison without a reason, of {poison}", str(unseen), "0",
             unseen == 0 and poison > 0),
        Goal(f"P1 events stopped by an odd field, of {odd}", str(stopped), "0",
             stopped == 0 and odd > 0),
        Goal("P1 odd fields noted", str(noted), str(stored_odd), noted == stored_odd),
    ]  # fmt: skip


def _random_message(catalogue: Catalogue, rng: random.Random) -> Message:
    if rng.random() < 0.9:
        return catalogue.message("labtest.order.updated")
    return catalogue.message(rng.choice(OTHER_TYPES))


def _fill_inbox(
    back_office: BackOffice, catalogue: Catalogue, count: int, rng: random.Random
) -> list[Message]:
    """Insert events into the inbox by COPY. Return those that are to be delivered again."""
    repeats: list[Message] = []
    columns = "message_id, sent_at, key_id, body, body_digest, event_type"
    with (
        psycopg.connect(back_office.database_url) as connection,
        connection.cursor().copy(f"COPY webhooks_event ({columns}) FROM STDIN") as copy,
    ):
        for _ in range(count):
            kind = rng.random()
            key = "poison" if kind < 0.001 else "odd" if kind < 0.002 else "copied"
            makers = {"poison": catalogue.poison, "odd": catalogue.with_odd_field}
            message = makers[key]() if key in makers else _random_message(catalogue, rng)
            if rng.random() < 0.05:
                repeats.append(message)
            digest = hashlib.sha256(message.body).digest()[:16]
            copy.write_row((message.id, "now", key, message.body, digest, ""))
    back_office.query("ANALYZE webhooks_event")
    return repeats


def database_crashes(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P2: PostgreSQL crashes three times during deliveries. No acknowledged event is missing."""
    catalogue = Catalogue(2, orders=500)
    count = RATE * 40
    attempts = [attempt(catalogue.message("labtest.order.updated")) for _ in range(count)]
    with own_cluster() as cluster:
        back_offices_of_cluster = BackOffices(cluster.database_url, folder)
        back_office = back_offices_of_cluster.build(SERVICE, REDIS_URL=cluster.redis_url)
        back_office.query(OUR_TEAM)
        back_office.query(oracle.ONCE)
        results: list[Sent] = []
        with receiving(back_office) as url, _drainers(back_office, 1):
            sender = threading.Thread(target=lambda: results.extend(send(url, attempts, 32, RATE)))
            sender.start()
            for _ in range(3):
                time.sleep(9)
                cluster.stop(signal.SIGQUIT)
                time.sleep(1)
                cluster.start()
            sender.join(120)
            acknowledged = {one.message_id for one in results if one.status == 204}
            wait_until(lambda: not back_office.value(COUNT_PENDING), 60, "the drain", every=0.3)
            states = dict(back_office.query("SELECT message_id, state FROM webhooks_event"))
            missing = acknowledged - states.keys()
            unapplied = [one for one in acknowledged if states.get(one) != "done"]
            unacknowledged = [one for one in attempts if one.message_id not in acknowledged]
            retried = send(url, unacknowledged, 8)
            wait_until(lambda: not back_office.value(COUNT_PENDING), 60, "the rest", every=0.3)
        refused = [one for one in retried if one.status != 204]
        wrong = oracle.wrong(back_office)
        broken = Counter(one.status for one in results if one.status != 204)
        print(f"  {len(acknowledged)} acknowledged, others {dict(broken)}", flush=True)
    return [
        Goal(f"P2 acknowledged and missing, of {len(acknowledged)}", str(len(missing)), "0",
             not missing and len(acknowledged) > count / 2),
        Goal("P2 acknowledged and not applied", str(len(unapplied)), "0", not unapplied),
        Goal("P2 answers other than 204, 503 or none", str(odd := sum(
            number for status, number in broken.items() if status not in (0, 503))), "0",
            odd == 0 and sum(broken.values()) > 0),
        Goal("P2 refused when sent again", str(len(refused)), "0", not refused),
        Goal("P2 rows other than the oracle's", str(sum(wrong.values())), "0", not wrong),
    ]  # fmt: skip


def steady_load(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P3, P28: 300 deliveries a second for 30 s, with workers and API clients."""
    back_office = back_offices.build(SERVICE)
    back_office.query(OUR_TEAM)
    catalogue = Catalogue(3, orders=2_000)
    attempts = []
    for number in range(RATE * 30):
        kind = "labtest.result.critical" if number % 50 == 0 else "labtest.order.updated"
        attempts.append(attempt(catalogue.message(kind)))
    failed: list[int] = []
    with (
        receiving(back_office) as url,
        _drainers(back_office, WORKERS),
        _api_clients(back_office, url, failed),
    ):
        send(url, [attempt(catalogue.message("labtest.order.created")) for _ in range(300)], 8)
        results = send(url, attempts, 32, RATE)
        wait_until(lambda: not back_office.value(COUNT_PENDING), 60, "the drain", every=0.2)
    seconds = [one.seconds for one in results]
    p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
    other = sum(one.status != 204 for one in results)
    critical = back_office.value(
        "SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM"
        " applied_at - received_at)) FROM webhooks_event"
        " WHERE event_type = 'labtest.result.critical'"
    )
    return [
        Goal("P3 answers other than 2xx", str(other), "0", other == 0),
        Goal("P3 answer time, p50", f"{p50:.1f} ms", "15 ms", p50 <= 15),
        Goal("P3 answer time, p99", f"{p99:.0f} ms", "100 ms", p99 <= 100),
        Goal("P3 answer time, longest", f"{1000 * max(seconds):.0f} ms", "2000 ms",
             max(seconds) <= 2),
        Goal("P3 pages that failed meanwhile", str(len(failed)), "0", not failed),
        Goal("P28 critical result on the worklist, p99", f"{float(critical):.1f} s", "10 s",
             float(critical) <= 10),
    ]  # fmt: skip


def redis_outages(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P4: Redis hangs for 20 s, is flushed ten times and killed, under beat and Celery workers."""
    catalogue = Catalogue(4, orders=500)
    failed: list[int] = []
    with own_cluster() as cluster:
        back_office = BackOffices(cluster.database_url, folder).build(
            SERVICE, REDIS_URL=cluster.redis_url
        )
        back_office.query(OUR_TEAM)
        processes = start_processes(back_office, folder)
        redis_pid = 0
        try:
            with receiving(back_office) as url, _api_clients(back_office, url, failed):
                done = "SELECT count(*) FROM webhooks_event WHERE state = 'done'"
                send(url, [attempt(catalogue.message("labtest.order.created"))], 1)
                wait_until(lambda: back_office.value(done), 60, "the first event", every=0.2)
                attempts = [
                    attempt(catalogue.message("labtest.order.updated")) for _ in range(100 * 60)
                ]
                results: list[Sent] = []
                sender = threading.Thread(
                    target=lambda: results.extend(send(url, attempts, 16, 100))
                )
                sender.start()
                recovered_at, redis_pid = _disturb_redis(cluster.redis_url)
                sender.join(120)
                wait_until(lambda: not back_office.value(COUNT_PENDING), 60, "the drain", every=0.2)
        finally:
            for process in processes:
                end(process)
            if redis_pid:
                os.kill(redis_pid, signal.SIGKILL)
        late = max(
            back_office.value(
                "SELECT coalesce(max(extract(epoch FROM applied_at - greatest(received_at,"
                " to_timestamp(%s)))), 0) FROM webhooks_event"
                " WHERE received_at < to_timestamp(%s)",
                [moment, moment],
            )
            for moment in recovered_at
        )
        lost = len(attempts) + 1 - int(back_office.value(done))
    p99 = percentile([one.seconds for one in results], 0.99)
    other = sum(one.status != 204 for one in results)
    return [
        Goal("P4 answers other than 2xx", str(other), "0", other == 0),
        Goal("P4 answer time, p99", f"{p99:.0f} ms", "100 ms", p99 <= 100),
        Goal("P4 pages that failed meanwhile", str(len(failed)), "0", not failed),
        Goal("P4 events not applied", str(lost), "0", lost == 0),
        Goal("P4 delay once Redis is back", f"{float(late):.1f} s", "10 s", float(late) <= 10),
    ]  # fmt: skip


def _disturb_redis(url: str) -> tuple[list[float], int]:
    """Disturb Redis. Return the times at which it worked again, and its new process id."""
    recovered_at = []
    client = redis.Redis.from_url(url)
    pid = int(client.info("server")["process_id"])
    program = os.readlink(f"/proc/{pid}/exe")
    output: dict[str | None, str | None] = client.config_get()
    names = ("port", "unixsocket", "unixsocketperm", "dir", "appendonly", "appendfsync", "save")
    options = [word for name in names for word in (f"--{name}", output.get(name) or "")]
    time.sleep(3)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(20)
    os.kill(pid, signal.SIGCONT)
    recovered_at.append(time.time())
    for _ in range(10):
        time.sleep(0.5)
        with contextlib.suppress(redis.RedisError):
            client.flushall()
    recovered_at.append(time.time())
    os.kill(pid, signal.SIGKILL)
    time.sleep(3)
    subprocess.run([program, *options, "--daemonize", "yes"], check=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: _answers(url), 20, "Redis")
    recovered_at.append(time.time())
    return recovered_at, int(redis.Redis.from_url(url).info("server")["process_id"])


def _answers(url: str) -> bool:
    try:
        return bool(redis.Redis.from_url(url, socket_timeout=1).ping())
    except redis.RedisError:
        return False


@contextlib.contextmanager
def _drainers(back_office: BackOffice, count: int) -> Iterator[None]:
    workers = [back_office.start("-m", "tests.webhooks.drainer") for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            end(worker)


@contextlib.contextmanager
def _api_clients(back_office: BackOffice, url: str, failed: list[int]) -> Iterator[None]:
    """Request five pages a second of the API and the sign-in page. `failed` gets error statuses."""
    output = subprocess.run(
        [sys.executable, "manage.py", "createtoken", "chaos"],
        env=back_office.environment(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    token = output.split()[-1]
    finished = threading.Event()

    def get(path: str) -> Attempt:
        request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Token {token}\r\n\r\n"
        return Attempt(path, request.encode())

    def read() -> None:
        while not finished.is_set():
            pages = ("/api/orders/?limit=50", "/api/events/?limit=50", "/accounts/login/")
            for one in send(url, [get(page) for page in pages], 1):
                if one.status != 200:
                    failed.append(one.status)
            finished.wait(0.6)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        finished.set()
        reader.join(30)


if __name__ == "__main__":
    sys.exit(
        run(
            "chaos-inbox",
            (million_events, database_crashes, steady_load, redis_outages),
            {"events": EVENTS},
        )
    )
