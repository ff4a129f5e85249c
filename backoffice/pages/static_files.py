"""The static files to serve: our own, and the files of packages that our pages use.

Packages also have files for pages that the back office does not have, and for their translations.
Without this filter those would be most of the collected files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from django.conf import settings
from django.contrib.staticfiles.finders import AppDirectoriesFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import Storage

UNUSED: Final = (
    "rest_framework/*",  # the API answers with JSON alone
    "admin/js/vendor/select2/*",
    "admin/css/vendor/select2/*",
    "admin/css/autocomplete.css",
    "admin/js/autocomplete.js",
)
USED_ALONE: Final = {
    "django_htmx/": ("django_htmx/htmx-2.min.js",),
    "mfa/": ("mfa/js/webauthn-json.js", "mfa/js/webauthn.js"),
    "account/": (),
}
"""Packages of which only these files are used."""
READABLE: Final = ("admin/js/vendor/*.js",)
"""Files used only with `DEBUG`, where the admin loads them instead of their `.min.js`."""


def is_used(path: str) -> bool:
    """Return whether a page uses this static file, given its path below `STATIC_URL`."""
    for package, files in USED_ALONE.items():
        if path.startswith(package):
            return path in files
    if matches_patterns(path, READABLE) and not settings.DEBUG:
        return path.endswith(".min.js")
    return not any(fnmatchcase(path, pattern) for pattern in UNUSED)


class UsedFiles(AppDirectoriesFinder):
    """A finder for `STATICFILES_FINDERS` that finds only the files that are used."""

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for path, storage in super().list(list(ignore_patterns or ())):
            if is_used(path):
                yield path, storage

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        if is_used(path):
            return super().find(path, *args, **options)
        return [] if options.get("find_all") else None
