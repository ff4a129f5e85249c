"""Celery messages only wake workers: their content has no effect beyond reading the tables."""

from __future__ import annotations

import inspect
import json
import os
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis
from celery import current_app
from celery.beat import Service
from celery.signals import beat_init
from django.conf import settings

from backoffice.celery import app
from tests.sync.back_office import BackOffices, end
from tests.waiting import wait_until
from tests.webhooks.records import OUR_TEAM, order
from tests.webhooks.rows import event

HOSTILE_MESSAGES = 1_000
app.loader.import_default_modules()
OUR_TASKS = [task for name, task in sorted(app.tasks.items()) if not name.startswith("celery.")]


def test_tasks_take_no_arguments() -> None:
    assert len(OUR_TASKS) > 20
    assert [task.name for task in OUR_TASKS if inspect.signature(task.run).parameters] == []


def test_celery_settings_protect_work() -> None:
    conf = app.conf
    assert conf.accept_content == ["json"] and conf.task_serializer == "json"
    assert conf.task_acks_late and conf.task_reject_on_worker_lost
    assert conf.result_backend is None and not conf.task_create_missing_queues
    assert conf.worker_max_memory_per_child and conf.worker_max_tasks_per_child
    assert 0 < conf.task_soft_time_limit < conf.task_time_limit
    assert 2 * conf.task_time_limit < conf.broker_transport_options["visibility_timeout"]
    assert all(
        task.time_limit is None or task.soft_time_limit < task.time_limit for task in OUR_TASKS
    )
    assert conf.broker_transport_options["socket_timeout"]
    for entry in conf.beat_schedule.values():
        assert isinstance(entry["schedule"], timedelta), (
            "an interval does not depend on clock changes"
        )
        assert entry["task"] in app.tasks
        assert not entry.get("args") and not entry.get("kwargs")


def test_start_of_beat_makes_every_entry_due(tmp_path: Path) -> None:
    beat = Service(app, schedule_filename=str(tmp_path / "schedule"))
    entries = beat.scheduler.schedule.values()
    assert not any(entry.is_due()[0] for entry in entries)
    beat_init.send(sender=beat)
    assert len(entries) > 20 and all(entry.is_due()[0] for entry in entries)
    beat.scheduler.close()


def hostile_message(number: int) -> dict[str, Any]:
    """Return a message in Celery's format, as an intruder in Redis could have put it there."""
    name = ("os.system", "webhooks.tasks.apply_due_events", "celery.backend_cleanup", "x" * 5_000)[
        number % 4
    ]
    arguments: tuple[Any, ...] = (
        [],
        [["rm -rf /"], {"a": 1}, {}],
        [[number], {}, {"chord": {"task": name}}],
    )
    kind = ("application/json", "application/x-python-serialize", "application/x-yaml")[number % 3]
    body = json.dumps(arguments[number % 3 - 1]) if number % 5 else "cos\nsystem\n(S'id'\ntR."
    message: dict[str, Any] = {
        "body": body,
        "content-encoding": "utf-8",
        "content-type": kind,
        "headers": {"task": name, "id": str(uuid.uuid4()), "lang": "py", "argsrepr": "{}"},
        "properties": {
            "correlation_id": str(uuid.uuid4()),
            "delivery_tag": str(uuid.uuid4()),
            "delivery_info": {"exchange": "", "routing_key": "inbox"},
            "delivery_mode": 2,
            "priority": 0,
        },
    }
    malformed_headers = {
        "task": name,
        "id": "x",
        "retries": "x",
        "eta": "soon",
        "expires": [],
        "timelimit": 7,
    }
    return message if number % 7 else {**message, "headers": malformed_headers}


def test_worker_survives_thousand_hostile_messages(
    tmp_path: Path,
) -> None:
    """A real worker reads them all and then applies the waiting event as usual."""
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path)
    broker = redis.Redis.from_url(settings.REDIS_URL)
    broker.delete("inbox")
    try:
        back_office = back_offices.build("http://127.0.0.1:9")
        back_office.query(OUR_TEAM)
        waiting = event("labtest.order.created", order(1, 1))
        back_office.query(
            "INSERT INTO webhooks_event (message_id, sent_at, key_id, body, body_digest,"
            " event_type) VALUES (%s, now(), '', %s, %s, %s)",
            [waiting.message_id, waiting.body, waiting.body_digest, waiting.event_type],
        )
        for number in range(HOSTILE_MESSAGES):
            broker.lpush("inbox", json.dumps(hostile_message(number)))
        worker = back_office.start(
            *("-m", "celery", "-A", "backoffice.celery", "worker", "--queues", "inbox"),
            *("--hostname", f"bells-{os.getpid()}@%h", "--concurrency", "1"),
            *("--loglevel", "ERROR", "--without-gossip", "--without-mingle"),
        )
        try:

            def is_applied() -> bool:
                current_app.send_task("webhooks.tasks.apply_due_events", queue="inbox", expires=30)
                return bool(back_office.value("SELECT count(*) FROM orders_order"))

            wait_until(is_applied, 60, "the event to be applied", every=1)
            wait_until(lambda: not broker.llen("inbox"), 60, "all messages to be read", every=0.5)
            assert worker.poll() is None, back_office.said()[-2_000:]
        finally:
            end(worker)
        assert "uid=" not in back_office.said()
    finally:
        broker.delete("inbox")
        back_offices.close()
