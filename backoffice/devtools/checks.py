"""The checks of `./run check`."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from backoffice.devtools import embedded
from backoffice.devtools.embedded import ROOT

PYTHON: Final = sys.executable
SOURCES: Final = ("backoffice", "orders", "patients", "labs", "webhooks", "tests")
VULNERABILITIES: Final = "known vulnerabilities"
AUDIT: Final = (
    *("pip_audit", "--requirement", "requirements.lock", "--require-hashes", "--disable-pip"),
    *("--format", "json", "--progress-spinner", "off", "--timeout", "5"),
)


def check(words: list[str]) -> int:
    """Run all checks, even after one has failed. `words`: only those whose title has one."""
    with embedded.servers() as servers:
        if not servers.embedded:
            return _check(servers.database_url, words)
        # The checks of migrations need a database. The one of a demo may have the migrations of an
        # earlier state.
        name = f"{embedded.database_name(servers.database_url)}_check"
        try:
            return _check(servers.empty_database(name), words)
        finally:
            servers.drop_database(name)


def _check(database_url: str, words: Sequence[str] = ()) -> int:
    local = {**os.environ, "LOCAL": "1", "PYTHONWARNINGS": "ignore::RuntimeWarning"}
    migrating = {**local, "DATABASE_URL": database_url, "LOG_LEVEL": "WARNING"}
    migrating["PYTHONPATH"] = str(ROOT)
    sandbox = {**local, "DJANGO_SETTINGS_MODULE": "sandbox.settings"}
    module = (PYTHON, "-m")
    sandbox_arguments = ("--config-file", ".ci/sandbox-mypy.ini", "sandbox", "tests/sandbox")
    drafts = ("makemigrations", "--check", "--dry-run")
    described = ("spectacular", "--validate", "--fail-on-warn", "--file", os.devnull)
    templates = "import djlint; djlint.main()"
    contracts = "from importlinter.cli import lint_imports_command as main; main()"
    steps: list[tuple[str, tuple[str, ...], Mapping[str, str]]] = [
        ("lint", (*module, "ruff", "check", "."), local),
        ("format", (*module, "ruff", "format", "--check", "."), local),
        ("types", (*module, "mypy", "--strict", *SOURCES), local),
        ("types of the sandbox", (*module, "mypy", *sandbox_arguments), sandbox),
        ("import contracts", (PYTHON, "-c", contracts), local),
        ("words of the glossary", (PYTHON, ".ci/names.py"), local),
        ("no HTML in Python", (PYTHON, ".ci/markup.py"), local),
        ("migrations", (PYTHON, "manage.py", *drafts), migrating),
        ("rules of migrations", (PYTHON, ".ci/migrations.py"), migrating),
        ("migrations of the sandbox", (*module, "django", *drafts), sandbox),
        ("templates", (PYTHON, "-c", templates, "--lint", "templates"), local),
        ("translations", (*module, "backoffice.devtools.messages", "--check"), local),
        ("tests that documents name", (*module, "tests.evidence"), local),
        ("description of the API", (PYTHON, "manage.py", *described), local),
        (
            "deploy settings",
            (PYTHON, "manage.py", "check", "--deploy", "--fail-level", "WARNING"),
            production_environment(),
        ),
    ]
    titles = [*(title for title, _, _ in steps), VULNERABILITIES]
    if unknown := [word for word in words if not any(word in title for title in titles)]:
        print(f"No check is named {' or '.join(unknown)}. The checks are: {', '.join(titles)}.")
        return 2
    wanted = [title for title in titles if not words or any(word in title for word in words)]
    audit: subprocess.Popen[str] | None = None
    if VULNERABILITIES in wanted:  # It waits for a server, so it runs in the background.
        audit = subprocess.Popen(  # noqa: S603 - our own command
            (*module, *AUDIT), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    failed = []
    for title, command, environment in steps:
        if title not in wanted:
            continue
        started = time.monotonic()
        done = subprocess.run(  # noqa: S603 - our own commands
            command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - started
        print(f"{'FAILED' if done.returncode else 'ok':7} {title} ({seconds:.1f} s)", flush=True)
        if done.returncode:
            failed.append(title)
            print((done.stdout + done.stderr).rstrip())
    if audit is not None and not report_vulnerabilities(*audit.communicate()):
        failed.append(VULNERABILITIES)
    print(f"Failed: {', '.join(failed)}." if failed else "All checks passed.")
    return 1 if failed else 0


def report_vulnerabilities(answer: str, error_output: str) -> bool:
    """Print known vulnerabilities and return whether there are none.

    Packages that could not be checked are printed but do not fail the check, because there may be
    no network.
    """
    try:
        packages = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        packages = []
    unchecked = [package["name"] for package in packages if "skip_reason" in package]
    flaws = [
        f"{package['name']} {package['version']}: {flaw['id']}, fixed in"
        f" {', '.join(flaw['fix_versions']) or 'no release yet'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    if flaws:
        print("FAILED  known vulnerabilities", *flaws, sep="\n")
    elif not packages:
        print(
            "NOT CHECKED  known vulnerabilities: no answer.",
            error_output.strip()[-300:],
            sep="\n",
        )
    elif unchecked:
        print(
            f"NOT CHECKED  known vulnerabilities of {len(unchecked)} of {len(packages)}:"
            f" {', '.join(unchecked[:5])} …"
        )
    else:
        print(f"ok      known vulnerabilities ({len(packages)} packages)")
    return not flaws


def production_environment() -> dict[str, str]:
    """Return settings of a deployment with made-up values, for Django's deploy check."""
    inherited = ("PATH", "HOME", "LANG", "PYTHONPATH")
    return {
        **{name: os.environ[name] for name in inherited if name in os.environ},
        "DATABASE_URL": "postgres://backoffice@database.invalid/backoffice",
        "REDIS_URL": "rediss://redis.invalid/0",
        "SECRET_KEY": secrets.token_urlsafe(60),
        "FIELD_KEYS": f"1:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        "ALLOWED_HOSTS": "backoffice.example.com",
        "SERVICE_BASE_URL": "https://service.invalid",
        "SERVICE_API_KEY": "pk_us_made_up",
        "MANAGEMENT_BASE_URL": "https://management.invalid",
        "MANAGEMENT_KEY": "made-up",
        "MANAGEMENT_ORG_ID": "00000000-0000-4000-8000-000000000000",
        "MANAGEMENT_ENV": "production",
        "WEBHOOK_SECRETS": "whsec_bWFkZS11cC1hbmQtbm9ib2R5LWVsc2Vz",
        "BEHIND_PROXY": "1",
    }
