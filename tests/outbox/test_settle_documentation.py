"""Every `settle` cites the sentence of the interface that promises what it compares.

No other record is taken for the requested one.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

from backoffice.core.service_client import service
from backoffice.outbox.command import Command
from backoffice.service.labs import NewLabTest
from labs.models import LabTest
from tests.outbox.harness import COMMANDS
from tests.outbox.test_settling import CASE_BY_KIND, State, send_without_arrival
from tests.outbox.worker_setup import WorkerSetup, attempt_history


@pytest.fixture(scope="module")
def transactional_db(module_database: None) -> None:
    """Override the fixture of pytest-django, which empties all tables after each test."""


QUOTED = re.compile(r'"[^"]{6,}"')
CHAPTER = re.compile(r"\((?:orders|appointments|catalogue|users|webhooks)\.md \d|\(specification")


def _explanation(command: type[Command]) -> str:
    """Return the comments and docstrings of a command's `settle` and its helpers."""
    parts = [command.settle]
    for name in ("find_appointment", "_ended"):
        if f"self.{name}(" in inspect.getsource(command.settle):
            parts.append(getattr(command, name))
    words = []
    for part in parts:
        source = textwrap.dedent(inspect.getsource(part))
        function = ast.parse(source).body[0]
        assert isinstance(function, ast.FunctionDef)
        words.append(ast.get_docstring(function) or "")
        words += re.findall(r"^\s*# (.*)$", source, re.M)
    return " ".join(" ".join(words).split())


def test_every_settle_cites_the_interface() -> None:
    assert len(COMMANDS) == 30
    undocumented = [
        command.kind
        for command in COMMANDS
        if not QUOTED.search(_explanation(command)) or not CHAPTER.search(_explanation(command))
    ]
    assert undocumented == []


def test_lab_test_with_other_method_is_not_ours(worker_setup: WorkerSetup) -> None:
    """Somebody creates a test of the same name in the service's dashboard. Our request is lost."""
    case = CASE_BY_KIND["lab_test.create"]
    command = case.create_command(worker_setup.records)
    row = send_without_arrival(worker_setup, command, case.path)
    other_test = LabTest.objects.get(name="Gut Kit")
    assert other_test.method != command.method
    markers = [marker["id"] for marker in other_test.record_at()["markers"]]
    service().labs.create_test(
        NewLabTest(name=command.name, method=other_test.method, description="", marker_ids=markers)
    )
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED, attempt_history(row)
    assert [one["words"].partition(",")[0] for one in row.found] == [command.name]
    worker_setup.resolve(row, happened=True)
