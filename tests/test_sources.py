"""Rules for our sources that ruff, mypy and the import contracts cannot express."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("backoffice", "orders", "patients", "labs", "webhooks")
HOSTILE_LENGTH = 50_000
"""Length of a text that is meant to slow down a pattern."""
PATTERN_METHODS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
AnyPattern = re.Pattern[str] | re.Pattern[bytes]


def sources() -> Iterator[tuple[str, ast.Module]]:
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Yield every call in the product: its place, its node and the called expression."""
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield f"{name}:{node.lineno}", node, ast.unparse(node.func)


def test_named_templates_exist() -> None:
    """In Python and in templates. Templates of packages are named without a folder of ours."""
    folders = {path.name for path in (ROOT / "templates").iterdir() if path.is_dir()}
    files = [*(ROOT / "templates").rglob("*.html")]
    files += [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    named = {
        name
        for path in files
        for name in re.findall(r"[\"']([a-z_]+/[a-z0-9_/]+\.html)[\"']", path.read_text())
    }
    assert len(named) > 200
    missing = sorted(name for name in named if not (ROOT / "templates" / name).exists())
    assert not [name for name in missing if name.split("/")[0] in folders], missing


def test_each_script_says_what_works_without_it() -> None:
    scripts = [path for app in APPS for path in (ROOT / app).rglob("static/**/*.js")]
    assert len(scripts) > 10
    missing = []
    for path in scripts:
        header = "".join(takewhile(lambda line: line.startswith("//"), path.open()))
        if not re.search(r"\bWithout (this|it|scripts)\b", header):
            missing.append(str(path.relative_to(ROOT)))
    assert not missing, missing


def test_templates_escape_everything() -> None:
    wrong = []
    for path in (ROOT / "templates").rglob("*.html"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\|\s*safe\b|\|\s*safeseq\b|autoescape\s+off|\{%\s*debug", line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}")
    assert wrong == []


def test_our_scripts_do_not_evaluate_text() -> None:
    forbidden = re.compile(
        r"\.(inner|outer)HTML\s*\+?=|insertAdjacentHTML|document\.write|\beval\s*\(|new Function"
        r"|setTimeout\s*\(\s*[\"'`]|javascript:"
    )
    wrong = []
    scripts = [path for app in APPS for path in (ROOT / app).glob("static/**/*.js")]
    for path in scripts:
        if "htmx" in path.name:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if forbidden.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number} {line.strip()}")
    assert len(scripts) > 5
    assert wrong == []


def test_tasks_have_no_delay_and_no_celery_retry() -> None:
    """Due times are stored in rows: a message that outlives the visibility timeout runs twice."""
    wrong = []
    for place, call, function in calls():
        keywords = {word.arg for word in call.keywords}
        is_send = function.endswith((".apply_async", ".send_task", ".delay", ".signature"))
        if (is_send and keywords & {"eta", "countdown"}) or function in (
            "self.retry",
            "task.retry",
        ):
            wrong.append(place)
        if function.split(".")[-1] in ("chord", "AsyncResult", "crontab"):
            wrong.append(place)
    assert wrong == []


def test_request_data_is_never_used_as_keyword_arguments() -> None:
    """`filter(**request.GET)` lets a client choose the columns and the joins."""
    query_methods = {
        "filter",
        "exclude",
        "get",
        "create",
        "update",
        "annotate",
        "alias",
        "order_by",
        "Q",
    }
    wrong = [
        place
        for place, call, function in calls()
        for word in call.keywords
        if word.arg is None
        and function.split(".")[-1] in query_methods
        and re.search(r"\brequest\b.*\b(GET|POST|data)\b", ast.unparse(word))
    ]
    assert wrong == []


@functools.cache
def patterns() -> dict[str, tuple[AnyPattern, set[str]]]:
    """Return every regular expression of the product with the methods that use it."""
    named = {
        f"{name}:{variable}": (pattern, variable)
        for name, _ in sources()
        if "re.compile" in (ROOT / name).read_text()
        for variable, pattern in vars(import_module(name[:-3].replace("/", "."))).items()
        if isinstance(pattern, re.Pattern)
    }
    used: dict[str, set[str]] = {}
    inline: dict[str, tuple[AnyPattern, set[str]]] = {}
    for place, call, function in calls():
        holder, _, method = function.rpartition(".")
        if method not in PATTERN_METHODS:
            continue
        if holder == "re":
            with contextlib.suppress(ValueError, TypeError):
                inline[place] = re.compile(ast.literal_eval(call.args[0])), {method}
        else:
            used.setdefault(holder.rpartition(".")[2], set()).add(method)
    return {
        **inline,
        **{
            name: (pattern, used.get(variable, {"search"}))
            for name, (pattern, variable) in named.items()
        },
    }


MAX_SECONDS = 0.1
"""Processor seconds. Backtracking takes minutes, everything else a few milliseconds."""


def seconds(pattern: AnyPattern, method: str, text: str) -> float:
    """Return processor seconds: the minimum of three when the first is too long, because others
    share its caches."""
    for _ in range(3):
        duration = _seconds_once(pattern, method, text)
        if duration <= MAX_SECONDS:
            break
    return duration


def _seconds_once(pattern: AnyPattern, method: str, text: str) -> float:
    hostile = text.encode() if isinstance(pattern.pattern, bytes) else text
    more = (hostile[:0],) if method in ("sub", "subn") else ()
    started = time.thread_time()
    found = getattr(pattern, method)(*more, hostile)
    if method == "finditer":
        list(found)
    return time.thread_time() - started


@pytest.mark.parametrize("unit", ["a", " ", "1", "a.", "1 ", "\n", "/", "<", "@a"])
def test_no_pattern_backtracks_on_hostile_text(unit: str) -> None:
    text = unit * (HOSTILE_LENGTH // len(unit))
    durations = {
        (name, method, tail): seconds(pattern, method, text + tail)
        for name, (pattern, methods) in patterns().items()
        for method in methods
        for tail in ("", "\x00!")
    }
    assert {key: time for key, time in durations.items() if time > MAX_SECONDS} == {}


def test_backtracking_pattern_is_detected() -> None:
    assert seconds(re.compile(r"a+b"), "search", "a" * HOSTILE_LENGTH) > MAX_SECONDS


def test_patterns_are_found() -> None:
    found = patterns()
    assert len(found) > 30
    assert {"fullmatch"} in [methods for _, methods in found.values()]


SECRET_KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}|\bglpat-[\w-]{20}"
    r"|\bxox[bap]-[\w-]{10,}|\bpk_(?:us|eu)_[A-Za-z0-9]{20,}|\bsk_(?:us|eu)_[A-Za-z0-9]{20,}"
)


def test_tree_contains_no_secret_key() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.split(b"\x00")
    names = [name.decode() for name in listed if name] or [
        str(path.relative_to(ROOT)) for app in APPS for path in (ROOT / app).rglob("*.*")
    ]
    wrong = []
    for name in names:
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 2_000_000:
            found = SECRET_KEYS.search(path.read_bytes().decode("utf-8", "replace"))
            if found and path != Path(__file__):
                wrong.append(f"{name}: {found[0][:12]}…")
    assert wrong == []
