"""What our sources do not do: rules that ruff, mypy and the import contracts cannot say."""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ("backoffice", "orders", "patients", "labs", "webhooks")
HOSTILE = 50_000
"""Letters of a text that is to keep a pattern busy."""
WAYS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
AnyPattern = re.Pattern[str] | re.Pattern[bytes]


def sources() -> Iterator[tuple[str, ast.Module]]:
    for app in HOUSE:
        for path in sorted((ROOT / app).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Every call in the house, where it stands, and what is called as it is written."""
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield f"{name}:{node.lineno}", node, ast.unparse(node.func)


def test_templates_escape_everything() -> None:
    wrong = []
    for path in (ROOT / "templates").rglob("*.html"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\|\s*safe\b|\|\s*safeseq\b|autoescape\s+off|\{%\s*debug", line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}")
    assert wrong == []


def test_scripts_of_ours_make_no_code_out_of_text() -> None:
    forbidden = re.compile(
        r"\.(inner|outer)HTML\s*\+?=|insertAdjacentHTML|document\.write|\beval\s*\(|new Function"
        r"|setTimeout\s*\(\s*[\"'`]|javascript:"
    )
    wrong = []
    scripts = [path for app in HOUSE for path in (ROOT / app).glob("static/**/*.js")]
    for path in scripts:
        if "htmx" in path.name:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if forbidden.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number} {line.strip()}")
    assert len(scripts) > 5
    assert wrong == []


def test_bells_carry_no_time_and_are_never_rung_again_by_celery() -> None:
    """Due times live in rows: a message that outlives the visibility timeout runs twice."""
    wrong = []
    for where, call, function in calls():
        asked = {word.arg for word in call.keywords}
        rung = function.endswith((".apply_async", ".send_task", ".delay", ".signature"))
        if (rung and asked & {"eta", "countdown"}) or function in ("self.retry", "task.retry"):
            wrong.append(where)
        if function.split(".")[-1] in ("chord", "AsyncResult", "crontab"):
            wrong.append(where)
    assert wrong == []


def test_what_a_request_says_is_never_taken_for_names_of_arguments() -> None:
    """`filter(**request.GET)` lets a stranger choose the columns, and how they are joined."""
    asking = {"filter", "exclude", "get", "create", "update", "annotate", "alias", "order_by", "Q"}
    wrong = [
        where
        for where, call, function in calls()
        for word in call.keywords
        if word.arg is None
        and function.split(".")[-1] in asking
        and re.search(r"\brequest\b.*\b(GET|POST|data)\b", ast.unparse(word))
    ]
    assert wrong == []


def patterns() -> dict[str, tuple[AnyPattern, set[str]]]:
    """Every regular expression of the house, and the ways in which it is used."""
    named = {
        f"{name}:{held}": (pattern, held)
        for name, _ in sources()
        if "re.compile" in (ROOT / name).read_text()
        for held, pattern in vars(import_module(name[:-3].replace("/", "."))).items()
        if isinstance(pattern, re.Pattern)
    }
    used: dict[str, set[str]] = {}
    inline: dict[str, tuple[AnyPattern, set[str]]] = {}
    for where, call, function in calls():
        holder, _, way = function.rpartition(".")
        if way not in WAYS:
            continue
        if holder == "re":
            with contextlib.suppress(ValueError, TypeError):
                inline[where] = re.compile(ast.literal_eval(call.args[0])), {way}
        else:
            used.setdefault(holder.rpartition(".")[2], set()).add(way)
    return {
        **inline,
        **{name: (pattern, used.get(held, {"search"})) for name, (pattern, held) in named.items()},
    }


BUSY = 0.1
"""Seconds of the processor. Backtracking takes minutes, everything else a few milliseconds."""


def seconds(pattern: AnyPattern, way: str, text: str) -> float:
    """Of the processor, the least of three where one is too many: others share its caches."""
    for _ in range(3):
        took = _seconds_once(pattern, way, text)
        if took <= BUSY:
            break
    return took


def _seconds_once(pattern: AnyPattern, way: str, text: str) -> float:
    hostile = text.encode() if isinstance(pattern.pattern, bytes) else text
    more = (hostile[:0],) if way in ("sub", "subn") else ()
    begun = time.thread_time()
    found = getattr(pattern, way)(*more, hostile)
    if way == "finditer":
        list(found)
    return time.thread_time() - begun


@pytest.mark.parametrize("unit", ["a", " ", "1", "a.", "1 ", "\n", "/", "<", "@a"])
def test_no_pattern_can_be_kept_busy(unit: str) -> None:
    text = unit * (HOSTILE // len(unit))
    took = {
        (name, way, tail): seconds(pattern, way, text + tail)
        for name, (pattern, ways) in patterns().items()
        for way in ways
        for tail in ("", "\x00!")
    }
    assert {what: time for what, time in took.items() if time > BUSY} == {}


def test_a_busy_pattern_is_noticed() -> None:
    assert seconds(re.compile(r"a+b"), "search", "a" * HOSTILE) > BUSY


def test_patterns_are_found() -> None:
    found = patterns()
    assert len(found) > 30
    assert {"fullmatch"} in [ways for _, ways in found.values()]


KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}|\bglpat-[\w-]{20}"
    r"|\bxox[bap]-[\w-]{10,}|\bpk_(?:us|eu)_[A-Za-z0-9]{20,}|\bsk_(?:us|eu)_[A-Za-z0-9]{20,}"
)


def test_no_key_of_anybody_stands_in_the_tree() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.split(b"\x00")
    names = [name.decode() for name in listed if name] or [
        str(path.relative_to(ROOT)) for app in HOUSE for path in (ROOT / app).rglob("*.*")
    ]
    wrong = []
    for name in names:
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 2_000_000:
            found = KEYS.search(path.read_bytes().decode("utf-8", "replace"))
            if found and path != Path(__file__):
                wrong.append(f"{name}: {found[0][:12]}…")
    assert wrong == []
