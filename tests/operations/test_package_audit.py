"""`./run check` fails on known vulnerabilities and reports when the database was not reachable."""

from __future__ import annotations

import json

import pytest

from backoffice.devtools.checks import report_vulnerabilities

SAFE_PACKAGE = {"name": "django", "version": "5.2.19", "vulns": []}
VULNERABLE_PACKAGE = {
    "name": "made-up",
    "version": "1.0",
    "vulns": [{"id": "MADE-UP-2026-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}],
}
SKIPPED_PACKAGE = {"name": "other", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answer", "passes", "expected_output"),
    [
        (json.dumps({"dependencies": [SAFE_PACKAGE], "fixes": []}), True, "ok      known"),
        (
            json.dumps({"dependencies": [SAFE_PACKAGE, SKIPPED_PACKAGE]}),
            True,
            "NOT CHECKED  known",
        ),
        (
            json.dumps({"dependencies": [SKIPPED_PACKAGE, VULNERABLE_PACKAGE]}),
            False,
            "made-up 1.0: MADE-UP-2026-1",
        ),
        ("", True, "NOT CHECKED  known vulnerabilities: no answer.\nno route"),
        ("[]", True, "NOT CHECKED"),
        (json.dumps({"dependencies": []}), True, "NOT CHECKED"),
    ],
)
def test_vulnerability_report_and_exit_status(
    answer: str, passes: bool, expected_output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_vulnerabilities(answer, "no route") is passes
    assert expected_output in capsys.readouterr().out
