"""Every command says, beside what its `settle` compares, which sentence of the interface promises
it; and nothing else makes another record pass for the one that was asked for."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

from backoffice.core.service_client import service
from backoffice.outbox import Command
from backoffice.service.labs import NewLabTest
from labs.models import LabTest
from tests.outbox.desk import COMMANDS
from tests.outbox.proving import Proof, history
from tests.outbox.test_settling import CASE, State, never_arrived


@pytest.fixture(scope="module")
def transactional_db(kept_db: None) -> None:
    """In the place of pytest-django's, which empties all tables after each test."""


QUOTED = re.compile(r'"[^"]{6,}"')
CHAPTER = re.compile(r"\((?:orders|appointments|catalogue|users|webhooks)\.md \d|\(specification")


def _explanation(command: type[Command]) -> str:
    """Comments and docstring of what a command's `settle` is made of, code left out."""
    parts = [command.settle]
    for name in ("find_visit", "_ended"):
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


def test_every_settle_names_the_sentence_it_relies_on() -> None:
    assert len(COMMANDS) == 30
    bare = [
        command.kind
        for command in COMMANDS
        if not QUOTED.search(_explanation(command)) or not CHAPTER.search(_explanation(command))
    ]
    assert bare == []


def test_lab_test_of_that_name_but_another_method_is_not_ours(proof: Proof) -> None:
    """Somebody makes a test of the same name in the service's own dashboard, and the answer to
    ours was lost before it arrived."""
    case = CASE["lab_test.create"]
    command = case.make(proof.scene)
    row = never_arrived(proof, command, case.path)
    other = LabTest.objects.get(name="Gut Kit")
    assert other.method != command.method
    markers = [marker["id"] for marker in other.said()["markers"]]
    service().labs.create_test(
        NewLabTest(name=command.name, method=other.method, description="", marker_ids=markers)
    )
    proof.desk.later()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED, history(row)
    assert [one["words"].partition(",")[0] for one in row.found] == [command.name]
    proof.resolve(row, happened=True)
