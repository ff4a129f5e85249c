"""The collected static files are the ones that pages use, and few more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from backoffice.devtools.checks import production_environment
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import staff

ROOT = Path(__file__).resolve().parents[2]
MAX_BYTES = 4_000_000
"""Each file is stored with and without its hash, and compressed."""
PACKAGE_FILES = (
    *("admin/css/base.css", "admin/css/forms.css", "admin/js/core.js", "admin/js/actions.js"),
    *("admin/js/SelectFilter2.js", "admin/js/vendor/jquery/jquery.min.js", "admin/img/search.svg"),
    *("django_htmx/htmx-2.min.js", "mfa/js/webauthn-json.js", "mfa/js/webauthn.js"),
)
COLLECT_STATIC = """
import sys, django
from django.conf import settings
django.setup()
settings.STATIC_ROOT = sys.argv[1]
from django.core.management import call_command
call_command("collectstatic", interactive=False, verbosity=0)
"""
ADMIN_PATHS = (
    "",
    "accounts/user/",
    "accounts/user/add/",
    "auth/group/",
)


def static_names_in_templates() -> set[str]:
    """Return the static files that templates and functions name."""
    found: set[str] = set()
    for pattern in ("*.html", "*.py"):
        for folder in ("templates", "backoffice", "patients", "labs", "orders", "webhooks"):
            for path in (ROOT / folder).rglob(pattern):
                text = path.read_text()
                found |= set(re.findall(r"""\bstatic\(['"]([^'"]+)['"]""", text))
    return found


def test_collectstatic_collects_files_that_pages_use(tmp_path: Path) -> None:
    static_root = tmp_path / "static"
    done = subprocess.run(
        [sys.executable, "-c", COLLECT_STATIC, str(static_root)],
        cwd=ROOT,
        env={**production_environment(), "DJANGO_SETTINGS_MODULE": "backoffice.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-800:]
    names = static_names_in_templates()
    assert len(names) > 30
    missing = [name for name in {*names, *PACKAGE_FILES} if not (static_root / name).is_file()]
    assert missing == []
    files = [path for path in static_root.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_BYTES
    packages = {path.relative_to(static_root).parts[0] for path in files}
    assert not packages & {"rest_framework", "drf_spectacular_sidecar"}


@pytest.mark.django_db
def test_admin_pages_find_all_their_static_files(client: Client) -> None:
    person = staff("administrator")
    sign_in_recently_authenticated(client, person)
    names: set[str] = set()
    for address in ADMIN_PATHS:
        answer = client.get(f"/admin/{address}")
        assert answer.status_code == 200, address
        names |= set(re.findall(r"""["']/static/([^"'?]+)["']""", answer.content.decode()))
    assert len(names) > 10
    assert [name for name in sorted(names) if finders.find(name) is None] == []
