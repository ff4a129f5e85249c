"""Processes refuse to start with a database of other keys. No object shows a secret."""

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
from tests.sync.back_office import BackOffice

OTHER_KEY = base64.b64encode(b"quokka-field-key-of-thirty-two-b").decode()
WEB = ("-c", "import backoffice.wsgi")
WORKER = ("-m", "celery", "-A", "backoffice.celery", "worker", "--queues", "bulk")
MIGRATE = ("manage.py", "migrate", "-v0")


@pytest.fixture(scope="module")
def back_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    database_url = databases.migrated_database(os.environ["DATABASE_URL"])
    try:
        yield BackOffice(
            database_url, "http://127.0.0.1:9", tmp_path_factory.mktemp("logs") / "log"
        )
    finally:
        databases.drop(database_url)


def run_command(
    back_office: BackOffice, command: tuple[str, ...], **changed: str
) -> tuple[int, str]:
    """Run a command. Return its exit code and output."""
    root = Path(__file__).resolve().parents[2]
    process = subprocess.run(  # noqa: S603 - our own commands
        [sys.executable, *command], cwd=root, env=back_office.environment(**changed),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return process.returncode, process.stdout + process.stderr


@pytest.mark.parametrize("command", [WEB, WORKER, MIGRATE], ids=["web", "worker", "migrate"])
def test_no_process_starts_with_other_keys(
    back_office: BackOffice, command: tuple[str, ...]
) -> None:
    code, output = run_command(back_office, command, FIELD_KEYS=f"1:{OTHER_KEY}")
    assert code != 0 and "FIELD_KEYS are not the keys" in output
    assert OTHER_KEY not in output and back_office.database_url not in output


def test_no_process_starts_with_another_environment(back_office: BackOffice) -> None:
    other_settings = {"SERVICE_API_KEY": "sk_eu_made_up", "MANAGEMENT_REGION": "eu"}
    code, output = run_command(back_office, WEB, **other_settings)
    assert code != 0 and "holds data of the service's sandbox us" in output


def test_web_starts_with_new_key_before_old_key(back_office: BackOffice) -> None:
    old_key = settings.FIELD_KEYS[1]
    keys = f"2:{OTHER_KEY},1:{base64.b64encode(old_key).decode()}"
    assert run_command(back_office, WEB, FIELD_KEYS=keys)[0] == 0


def test_web_starts_without_its_database(back_office: BackOffice) -> None:
    """The web server then answers 503 until the database is reachable."""
    assert run_command(back_office, WEB, DATABASE_URL="postgres://nobody@127.0.0.1:9/none")[0] == 0


def test_repr_of_objects_with_secrets_hides_them() -> None:
    secrets = (settings.SERVICE_API_KEY, settings.MANAGEMENT_KEY, *settings.WEBHOOK_SECRETS)
    client = service()
    holders = [client, client.users, client.orders, signing.read_secrets(settings.WEBHOOK_SECRETS)]
    holders += [client._team, client._managed, client._reader, client._writer]
    for holder in holders:
        for secret in secrets:
            assert secret and secret not in repr(holder) + str(holder)
            assert secret.removeprefix("whsec_") not in repr(holder)
