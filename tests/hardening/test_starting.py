"""Processes refuse to start with a database that is not theirs; nothing prints a secret."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from backoffice.core.service_client import service
from backoffice.service import signing
from tests import databases
from tests.sync.house import House

OTHER = base64.b64encode(b"quokka-field-key-of-thirty-two-b").decode()
WEB = ("-c", "import backoffice.wsgi")
WORKER = ("-m", "celery", "-A", "backoffice.celery", "worker", "--queues", "bulk")
MIGRATE = ("manage.py", "migrate", "-v0")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = databases.migrated_house(os.environ["DATABASE_URL"])
    try:
        yield House(made, "http://127.0.0.1:9", tmp_path_factory.mktemp("logs") / "log")
    finally:
        databases.drop(made)


def started(house: House, command: tuple[str, ...], **changed: str) -> tuple[int, str]:
    """How it ended, and what it said."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(  # noqa: S603 - our own commands
        [sys.executable, *command], cwd=root, env=house.environment(**changed),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", [WEB, WORKER, MIGRATE], ids=["web", "worker", "migrate"])
def test_with_other_keys_nothing_starts(house: House, command: tuple[str, ...]) -> None:
    code, said = started(house, command, FIELD_KEYS=f"1:{OTHER}")
    assert code != 0 and "FIELD_KEYS are not the keys" in said
    assert OTHER not in said and house.database_url not in said


def test_with_another_environment_nothing_starts(house: House) -> None:
    theirs = {"SERVICE_API_KEY": "sk_eu_made_up", "MANAGEMENT_REGION": "eu"}
    code, said = started(house, WEB, **theirs)
    assert code != 0 and "holds data of the service's sandbox us" in said


def test_with_the_old_key_behind_a_new_one_it_starts(house: House) -> None:
    ours = settings.FIELD_KEYS[1]
    keys = f"2:{OTHER},1:{base64.b64encode(ours).decode()}"
    assert started(house, WEB, FIELD_KEYS=keys)[0] == 0


def test_without_its_database_it_starts(house: House) -> None:
    """It answers 503 until the database is there."""
    assert started(house, WEB, DATABASE_URL="postgres://nobody@127.0.0.1:9/none")[0] == 0


def test_nothing_that_holds_a_secret_shows_it() -> None:
    secrets = (settings.SERVICE_API_KEY, settings.MANAGEMENT_KEY, *settings.WEBHOOK_SECRETS)
    client = service()
    shown = [client, client.users, client.orders, signing.read_secrets(settings.WEBHOOK_SECRETS)]
    shown += [client._team, client._managed, client._reader, client._writer]
    for holder in shown:
        for secret in secrets:
            assert secret and secret not in repr(holder) + str(holder)
            assert secret.removeprefix("whsec_") not in repr(holder)
