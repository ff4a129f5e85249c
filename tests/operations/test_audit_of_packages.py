"""`./run check` fails on known vulnerabilities, and says when nobody could be asked."""

from __future__ import annotations

import json

import pytest

from backoffice.devtools.checks import report_vulnerabilities

FINE = {"name": "django", "version": "5.2.19", "vulns": []}
FLAWED = {
    "name": "made-up",
    "version": "1.0",
    "vulns": [{"id": "MADE-UP-2026-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "other", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answer", "passes", "words"),
    [
        (json.dumps({"dependencies": [FINE], "fixes": []}), True, "ok      known"),
        (json.dumps({"dependencies": [FINE, SKIPPED]}), True, "COULD NOT ASK for known"),
        (json.dumps({"dependencies": [SKIPPED, FLAWED]}), False, "made-up 1.0: MADE-UP-2026-1"),
        ("", True, "COULD NOT ASK for known vulnerabilities: no answer.\nno route"),
        ("[]", True, "COULD NOT ASK"),
        (json.dumps({"dependencies": []}), True, "COULD NOT ASK"),
    ],
)
def test_what_is_said(
    answer: str, passes: bool, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_vulnerabilities(answer, "no route") is passes
    assert words in capsys.readouterr().out
