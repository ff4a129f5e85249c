"""What is collected is what pages ask for, and little more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from backoffice.devtools.checks import production_environment
from tests.accounts.people import freshly
from tests.api.rows import staff

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 4_000_000
"""Each file twice, with and without its hash, and compressed."""
FROM_PACKAGES = (
    *("admin/css/base.css", "admin/css/forms.css", "admin/js/core.js", "admin/js/actions.js"),
    *("admin/js/SelectFilter2.js", "admin/js/vendor/jquery/jquery.min.js", "admin/img/search.svg"),
    *("django_htmx/htmx-2.min.js", "mfa/js/webauthn-json.js", "mfa/js/webauthn.js"),
)
COLLECT = """
import sys, django
from django.conf import settings
django.setup()
settings.STATIC_ROOT = sys.argv[1]
from django.core.management import call_command
call_command("collectstatic", interactive=False, verbosity=0)
"""
ADMIN = (
    "",
    "backoffice/user/",
    "backoffice/user/add/",
    "auth/group/",
)


def named_in_templates() -> set[str]:
    """Static files that templates and tags name."""
    found: set[str] = set()
    for pattern in ("*.html", "*.py"):
        for folder in ("templates", "backoffice", "patients", "labs", "orders", "webhooks"):
            for path in (ROOT / folder).rglob(pattern):
                text = path.read_text()
                found |= set(re.findall(r"""{% static ['"]([^'"]+)['"]""", text))
                found |= set(re.findall(r"""\bstatic\(['"]([^'"]+)['"]""", text))
    return found


def test_what_is_collected_is_what_pages_need(tmp_path: Path) -> None:
    made = tmp_path / "static"
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(made)],
        cwd=ROOT,
        env={**production_environment(), "DJANGO_SETTINGS_MODULE": "backoffice.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-800:]
    named = named_in_templates()
    assert len(named) > 30
    missing = [name for name in {*named, *FROM_PACKAGES} if not (made / name).is_file()]
    assert missing == []
    files = [path for path in made.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    packages = {path.relative_to(made).parts[0] for path in files}
    assert not packages & {"rest_framework", "drf_spectacular_sidecar"}


@pytest.mark.django_db
def test_pages_of_the_admin_find_every_file_they_name(client: Client) -> None:
    person = staff("administrator")
    freshly(client, person)
    named: set[str] = set()
    for address in ADMIN:
        answer = client.get(f"/admin/{address}")
        assert answer.status_code == 200, address
        named |= set(re.findall(r"""["']/static/([^"'?]+)["']""", answer.content.decode()))
    assert len(named) > 10
    assert [name for name in sorted(named) if finders.find(name) is None] == []
