"""`./run messages`: bring the catalogs of translations up to date with the sources.

A catalog is `backoffice/locale/<language>/LC_MESSAGES/<domain>.po`, and beside it the compiled file
that Django reads. Texts that are new in the sources have no translation until somebody writes it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from backoffice.devtools.embedded import ROOT

FOLDER: Final = ROOT / "backoffice" / "locale"
LANGUAGES: Final = ("es",)
SOURCES: Final = ("backoffice", "labs", "orders", "patients", "templates", "webhooks")
DOMAINS: Final = {
    "django": [("**.py", "python"), ("**.html", "jinja2")],
    "djangojs": [("**.js", "javascript")],
}
"""Domain, as Django names it, and the files and extractors of its texts."""
OPTIONS: Final = {
    "**.html": {"extensions": "jinja2.ext.i18n", "trimmed": "true", "silent": "false"}
}
KEYWORDS: Final = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop"), None),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (1, 2)),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), ((1, "c"), 2)),
}


def messages(words: list[str]) -> int:
    """Update and compile all catalogs. `--check`: change nothing, return 1 if that would change
    one, or if a text has no translation."""
    if words not in ([], ["--check"]):
        print("Usage: ./run messages [--check]")
        return 2
    findings = [finding for domain in DOMAINS for finding in _update(domain, bool(words))]
    print("\n".join(findings) or "All catalogs are complete.")
    return 1 if findings and words else 0


def _update(domain: str, only_check: bool) -> Iterator[str]:
    """Yield what is not up to date in the catalogs of a domain."""
    texts = _extract(domain)
    for language in LANGUAGES:
        path = FOLDER / language / "LC_MESSAGES" / f"{domain}.po"
        catalog = _read(path, language, domain)
        catalog.update(texts, no_fuzzy_matching=True, update_creation_date=False)
        catalog.obsolete.clear()
        name = path.relative_to(ROOT)
        if missing := sum(not _is_translated(message.string) for message in catalog if message.id):
            yield f"{name}: {missing} of {len(catalog)} texts have no translation."
        for message in catalog:
            if message.id and _is_translated(message.string):
                yield from (f"{name}: {message.id!r}: {error}" for error in message.check(catalog))
        text, compiled = io.BytesIO(), io.BytesIO()
        write_po(text, catalog, width=100, include_lineno=False)
        write_mo(compiled, catalog)
        contents = {path: text.getvalue(), path.with_suffix(".mo"): compiled.getvalue()}
        for file, content in contents.items():
            if file.exists() and file.read_bytes() == content:
                continue
            if only_check:
                yield f"{file.relative_to(ROOT)} is not up to date: run ./run messages."
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)


def _extract(domain: str) -> Catalog:
    """Return the texts of a domain in the order of files and lines."""
    texts = Catalog(domain=domain)
    for top in SOURCES:
        for file, _line, message, comments, context in extract_from_dir(
            ROOT / top,
            DOMAINS[domain],
            OPTIONS,
            KEYWORDS,
            comment_tags=("Translators:",),
            strip_comment_tags=True,
        ):
            texts.add(
                message, None, [(f"{top}/{file}", 0)], auto_comments=comments, context=context
            )
    return texts


def _read(path: Path, language: str, domain: str) -> Catalog:
    if not path.exists():
        return Catalog(locale=language, domain=domain, project="backoffice", fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=language, domain=domain)


def _is_translated(string: str | tuple[str, ...] | list[str] | None) -> bool:
    return all(string) if isinstance(string, tuple | list) else bool(string)


if __name__ == "__main__":
    sys.exit(messages(sys.argv[1:]))
