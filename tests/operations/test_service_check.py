"""The first-run check against the real sandbox names each wrong setting and its remedy.

The command runs in its own process. Test events arrive over real sockets at a real web server.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pytest
from pytest_django import Settings

from backoffice.devtools.embedded import free_port
from backoffice.operations.service_check.answers import ServiceAnswers
from backoffice.operations.service_check.checks import EnvironmentCheck
from backoffice.operations.service_check.webhooks import address, is_here
from tests.sandboxes import Sandbox
from tests.sandboxes import running as sandbox_running
from tests.sync.back_office import ROOT, BackOffice, BackOffices
from tests.webhooks.sending import receiving

TITLES = (
    *("Address", "Key header", "Team key", "Environment", "Team", "Management key", "Clocks"),
    *("Webhook endpoint", "Webhook secret", "Test event", "Rate limit"),
)
OTHER_SECRET = "whsec_Y2xpbmljLWJhY2stb2ZmaWNlLXRlc3Qta2V5LTAwMDE="
OTHER_TEAM_KEY = "sk_us_local_other_team"
ENDPOINT = (
    "/v1/org/0d4f7c1e-0000-4000-8000-00000000c11c"
    "/team/7ea00000-0000-4000-8000-000000000001/sandbox/webhook/ep_of_the_settings"
)
_LINE = re.compile(r"(OK|Problem|Could not be checked) +(\S.*)")


@dataclass(frozen=True)
class Line:
    label: str
    words: str


@dataclass(frozen=True)
class CheckedInstallation:
    """A back office with a web server that receives deliveries, and its sandbox."""

    back_office: BackOffice
    sandbox: Sandbox
    url: str

    def run(self, *words: str, **settings: str) -> tuple[int, dict[str, Line]]:
        """Exit code of the command and its lines by title."""
        done = subprocess.run(
            [sys.executable, "manage.py", "checkservice", "--no-color", *words],
            cwd=ROOT,
            env=self.back_office.environment(**settings),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, parse_lines(done.stdout)

    def deliver(self, **more: str | None) -> None:
        """Let the sandbox deliver to the web server, or as `more` says: `url`, `secret`."""
        self.sandbox.control("webhooks", {"url": f"{self.url}/webhooks/", **more})

    def change_endpoint(self, **values: Any) -> None:
        request = Request(  # noqa: S310 - our own loopback address
            self.sandbox.url + ENDPOINT,
            data=json.dumps(values).encode(),
            headers={"X-Management-Key": "mg_local_sandbox", "content-type": "application/json"},
            method="PATCH",
        )
        with urlopen(request, timeout=30) as answer:  # noqa: S310
            assert answer.status == 200


def parse_lines(printed: str) -> dict[str, Line]:
    found: dict[str, Line] = {}
    title = ""
    for line in printed.splitlines():
        if line.startswith(" "):
            found[title] = Line(found[title].label, f"{found[title].words} {line.strip()}")
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        title = next(one for one in sorted(TITLES, key=len)[::-1] if match[2].startswith(one))
        found[title] = Line(match[1], match[2].removeprefix(title).strip())
    return found


def failed_labels(found: dict[str, Line]) -> dict[str, str]:
    """Return the labels of the lines that are not OK, by title."""
    return {title: line.label for title, line in found.items() if line.label != "OK"}


@pytest.fixture(scope="module")
def shared_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedInstallation]:
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"))
    try:
        with sandbox_running(users=8, orders=24, seed=11) as sandbox:
            back_office = back_offices.build(sandbox.url)
            back_office.sync("users", "orders")
            with receiving(back_office, workers=1) as url:
                yield CheckedInstallation(back_office, sandbox, url)
    finally:
        back_offices.close()


@pytest.fixture
def installation(shared_installation: CheckedInstallation) -> Iterator[CheckedInstallation]:
    """Return to the correct settings before each test."""
    shared_installation.deliver()
    yield shared_installation
    shared_installation.sandbox.control("faults", method="DELETE")
    shared_installation.sandbox.control("answers", method="DELETE")


def test_correct_settings_pass_and_test_event_arrives(installation: CheckedInstallation) -> None:
    before = installation.back_office.value("SELECT count(*) FROM webhooks_event")
    code, found = installation.run()
    assert (code, failed_labels(found)) == (0, {}), found
    assert tuple(found) == TITLES
    assert installation.sandbox.url in found["Address"].words
    assert "7ea00000-0000-4000-8000-000000000001" in found["Team"].words
    assert f"delivers to {installation.url}/webhooks/" in found["Webhook endpoint"].words
    assert re.match(r"A test event arrived after \d+\.\d s", found["Test event"].words)
    assert installation.back_office.value("SELECT count(*) FROM webhooks_event") == before + 1


def test_wrong_header_name_is_named_with_the_right_one(installation: CheckedInstallation) -> None:
    code, found = installation.run(SERVICE_API_KEY_HEADER="x-some-other-header")
    assert (code, failed_labels(found)) == (1, {"Key header": "Problem"}), found
    words = found["Key header"].words
    assert "does not read the key from the header x-some-other-header" in words
    assert "Set SERVICE_API_KEY_HEADER=x-service-api-key" in words


def test_wrong_key_is_named(installation: CheckedInstallation) -> None:
    code, found = installation.run(SERVICE_API_KEY="sk_us_of_nobody")
    assert code == 1
    assert found["Address"].label == "OK"
    assert found["Team key"].label == "Problem"
    assert "refuses the team key (401)" in found["Team key"].words
    assert "Set SERVICE_API_KEY" in found["Team key"].words
    unchecked = ("Key header", "Team", "Clocks", "Test event")
    assert {found[title].label for title in unchecked} == {"Could not be checked"}, found


def test_wrong_key_is_not_printed(installation: CheckedInstallation) -> None:
    _, found = installation.run(SERVICE_API_KEY="sk_us_of_nobody", MANAGEMENT_KEY="mg_of_nobody")
    assert not any("of_nobody" in line.words for line in found.values())


def test_another_teams_key_is_named(installation: CheckedInstallation) -> None:
    code, found = installation.run("--no-event", SERVICE_API_KEY=OTHER_TEAM_KEY)
    assert (code, found["Team"].label, found["Team key"].label) == (1, "Problem", "OK"), found
    assert "SERVICE_API_KEY is of another team than the records here." in found["Team"].words
    assert "manage.py adoptteam" in found["Team"].words


@pytest.mark.parametrize(("seconds", "direction"), [(3600, "ahead of"), (-3600, "behind")])
def test_clock_an_hour_off_is_named(
    installation: CheckedInstallation, seconds: int, direction: str
) -> None:
    installation.sandbox.control("clock", {"advance_seconds": seconds})
    try:
        code, found = installation.run()
    finally:
        installation.sandbox.control("clock", {"advance_seconds": -seconds})
    assert (code, failed_labels(found)) == (1, {"Clocks": "Problem"}), found
    assert f"The service's clock is 60 min {direction} ours." in found["Clocks"].words
    assert "timedatectl" in found["Clocks"].words


def test_wrong_webhook_secret_is_named_twice(installation: CheckedInstallation) -> None:
    installation.deliver(secret=OTHER_SECRET)
    code, found = installation.run()
    wrong = {"Webhook secret": "Problem", "Test event": "Problem"}
    assert (code, failed_labels(found)) == (1, wrong), found
    assert "WEBHOOK_SECRETS" in found["Webhook secret"].words
    assert OTHER_SECRET[6:] not in str(found)
    assert "was refused: bad signature. Set WEBHOOK_SECRETS" in found["Test event"].words


def test_without_management_key_the_test_event_decides(installation: CheckedInstallation) -> None:
    code, found = installation.run(MANAGEMENT_KEY="")
    unchecked = ("Management key", "Webhook endpoint", "Webhook secret")
    assert (code, failed_labels(found)) == (0, dict.fromkeys(unchecked, "Could not be checked")), (
        found
    )
    installation.deliver(secret=OTHER_SECRET)
    code, found = installation.run(MANAGEMENT_KEY="")
    assert (code, found["Test event"].label) == (1, "Problem"), found


def test_service_that_refuses_connections_is_named(installation: CheckedInstallation) -> None:
    closed_url = f"http://127.0.0.1:{free_port()}"
    code, found = installation.run(SERVICE_BASE_URL=closed_url, MANAGEMENT_BASE_URL=closed_url)
    assert (code, found["Address"].label) == (1, "Problem"), found
    assert f"{closed_url} does not answer: no connection" in found["Address"].words
    assert "Check SERVICE_BASE_URL" in found["Address"].words
    for title in ("Key header", "Team key", "Team", "Clocks", "Webhook endpoint", "Test event"):
        assert found[title].label == "Could not be checked", found


def test_service_that_does_not_answer_is_named(installation: CheckedInstallation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        url = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
        code, found = installation.run(
            SERVICE_BASE_URL=url, MANAGEMENT_BASE_URL=installation.sandbox.url
        )
    assert (code, found["Address"].label) == (1, "Problem"), found
    assert "connected, but no answer in time" in found["Address"].words
    assert found["Management key"].label == "OK"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 404, "body": {"detail": "Not Found"}}, "it has no list of users (404)"),
        ({"body": "<html></html>", "headers": {"Content-Type": "text/html"}}, "is not the service"),
        ({"status": 503, "body": {}}, "answers with an error: answer 503"),
    ],
)
def test_answer_of_something_else_is_named(
    installation: CheckedInstallation, answer: dict[str, Any], words: str
) -> None:
    installation.sandbox.prepare_answer("^/v2/user/?$", times=None, **answer)
    code, found = installation.run("--no-event")
    assert (code, found["Address"].label) == (1, "Problem"), found
    assert words in found["Address"].words


def test_wrong_management_header_is_named(installation: CheckedInstallation) -> None:
    code, found = installation.run(MANAGEMENT_KEY_HEADER="X-Some-Other-Header")
    assert (code, failed_labels(found)) == (1, {"Management key": "Problem"}), found
    assert "Set MANAGEMENT_KEY_HEADER=X-Management-Key" in found["Management key"].words


def test_wrong_management_key_is_named(installation: CheckedInstallation) -> None:
    code, found = installation.run("--no-event", MANAGEMENT_KEY="mg_of_nobody")
    assert (code, found["Management key"].label) == (1, "Problem"), found
    assert "refuses the management key (401)" in found["Management key"].words


def test_wrong_organization_is_named(installation: CheckedInstallation) -> None:
    unknown_organization = "0d4f7c1e-0000-4000-8000-00000000dead"
    code, found = installation.run("--no-event", MANAGEMENT_ORG_ID=unknown_organization)
    assert (code, found["Management key"].label) == (1, "Problem"), found
    assert "MANAGEMENT_ORG_ID" in found["Management key"].words


def test_missing_endpoint_is_named(installation: CheckedInstallation) -> None:
    installation.deliver(url=None)
    code, found = installation.run()
    assert (code, found["Webhook endpoint"].label) == (1, "Problem"), found
    assert "has no webhook endpoint that points here." in found["Webhook endpoint"].words
    assert "Create one at the service for http" in found["Webhook endpoint"].words
    assert "it has no endpoint that takes it" in found["Test event"].words


def test_endpoint_that_leads_elsewhere_is_named(installation: CheckedInstallation) -> None:
    installation.deliver(url="http://127.0.0.1:9/elsewhere/")
    code, found = installation.run("--no-event")
    assert (code, found["Webhook endpoint"].label) == (1, "Problem"), found
    assert "1 points elsewhere." in found["Webhook endpoint"].words


def test_endpoint_that_is_switched_off_is_named(installation: CheckedInstallation) -> None:
    installation.change_endpoint(disabled=True)
    code, found = installation.run("--no-event")
    assert (code, failed_labels(found).get("Webhook endpoint")) == (1, "Problem"), found
    assert "is turned off at the service" in found["Webhook endpoint"].words


def test_endpoint_that_leaves_out_events_is_named(installation: CheckedInstallation) -> None:
    installation.change_endpoint(filter_types=["labtest.order.created"])
    try:
        code, found = installation.run("--no-event")
    finally:
        installation.change_endpoint(filter_types=None)
    assert (code, failed_labels(found).get("Webhook endpoint")) == (1, "Problem"), found
    assert re.search(r"leaves out \d+ event types", found["Webhook endpoint"].words)


def test_too_many_calls_are_named(installation: CheckedInstallation) -> None:
    fault = {"rate": 1, "kinds": ["status"], "statuses": [429], "paths": "^/v2/user/?$"}
    installation.sandbox.control("faults", {**fault, "retry_after": 7, "times": 1})
    code, found = installation.run("--no-event")
    assert (code, found["Rate limit"].label) == (1, "Problem"), found
    assert "(429): wait 7 s." in found["Rate limit"].words


def test_lost_delivery_is_a_problem_after_30_seconds(installation: CheckedInstallation) -> None:
    installation.deliver(url=f"http://127.0.0.1:{free_port()}/webhooks/")
    code, found = installation.run()
    assert (code, failed_labels(found)) == (1, {"Test event": "Problem"}), found
    assert "No delivery arrived within 30 s." in found["Test event"].words
    assert "turned on" in found["Test event"].words


def test_team_option_prints_one_line(installation: CheckedInstallation) -> None:
    def run(**settings: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "manage.py", "checkservice", "--team", "--no-color"],
            cwd=ROOT,
            env=installation.back_office.environment(**settings),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    assert run() == (0, "", "")
    code, _, words = run(SERVICE_API_KEY=OTHER_TEAM_KEY)
    assert code == 1 and len(words.splitlines()) == 1
    assert words.startswith("SERVICE_API_KEY is of another team than the records here.")
    code, _, words = run(SERVICE_BASE_URL=f"http://127.0.0.1:{free_port()}")
    assert code == 0 and len(words.splitlines()) == 1
    assert "could not be checked" in words


# Checks that make no call


@pytest.mark.parametrize(
    ("url", "environment", "region", "problem"),
    [
        ("https://api.sandbox.us.example.invalid", "sandbox", "us", ""),
        ("https://api.us.example.invalid", "production", "us", ""),
        ("https://service.example.invalid", "production", "eu", ""),
        ("https://api.us.example.invalid", "sandbox", "us", "The address is for production"),
        (
            "https://api.sandbox.us.example.invalid",
            "production",
            "us",
            "The address is for sandbox",
        ),
        ("https://api.sandbox.eu.example.invalid", "sandbox", "us", "The address is for region eu"),
    ],
)
def test_address_of_another_environment_is_named(
    settings: Settings, url: str, environment: str, region: str, problem: str
) -> None:
    settings.SERVICE_BASE_URL = url
    settings.MANAGEMENT_ENV, settings.MANAGEMENT_REGION = environment, region
    found = EnvironmentCheck().run(ServiceAnswers())
    assert (found.outcome == "problem") == bool(problem), found
    assert found.words.startswith(problem)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://desk.example.invalid/webhooks/", True),
        ("https://desk.example.invalid/webhooks", True),
        ("https://desk.example.invalid/webhook/", False),
        ("https://desk.example.invalid.evil.invalid/webhooks/", False),
        ("https://other.example.invalid/webhooks/", False),
        ("http://[broken/webhooks/", False),
        ("", False),
    ],
)
def test_endpoint_leads_here_by_host_and_path(settings: Settings, url: str, expected: bool) -> None:
    settings.ALLOWED_HOSTS = ["desk.example.invalid"]
    assert is_here(url) is expected


def test_address_for_the_endpoint_is_one_of_our_hosts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS, settings.SITE_URL = ["desk.example.invalid"], "http://127.0.0.1:8000"
    assert address() == "https://desk.example.invalid/webhooks/"
    settings.SITE_URL = "https://desk.example.invalid"
    assert address() == "https://desk.example.invalid/webhooks/"
