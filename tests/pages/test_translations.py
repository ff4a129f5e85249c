"""Every text of a template is marked for translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest
from django.conf import settings

TEMPLATES: Final = Path(settings.BASE_DIR, "templates")
PATHS: Final = [str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html")]
DEVELOPER_PAGES: Final = {"system/_components.html"}
"""Shows the macros to those who write templates."""
TRANSLATED_BLOCK: Final = re.compile(r"{%-?\s*trans\b.*?endtrans\s*-?%}|{#.*?#}", re.S)
JINJA: Final = re.compile(r"{%.*?%}|{{.*?}}", re.S)
SHOWN_ATTRIBUTES: Final = {"alt", "aria-description", "aria-label", "label", "placeholder", "title"}
NOT_PROSE: Final = {"code", "kbd", "pre", "script", "style"}
WORD: Final = re.compile(r"[A-Za-zÀ-ÿ]{2,}")
UNTRANSLATED_WORDS: Final = {
    *("ABN", "API", "CLIA", "CPU", "CSV", "HTTP", "ICD", "ID", "IP", "JSON", "LOINC", "MRN"),
    *("NPI", "NTP", "PDF", "PostgreSQL", "QR", "Redis", "SMS", "SQL", "TLS", "URL", "UTC", "UUID"),
    *("kB", "lb", "lbs", "MB", "mi", "mg", "dL", "min", "ms", "kg", "cm", "ft", "bpm"),
}
"""Names, units and abbreviations that are the same in all languages."""
PRINTED: Final = re.compile(
    r'^{{-?\s*"([^"]*)"|\b(?:else|or)\s*"([^"]*)"\s*-?}}$|\bdefault\(\s*"([^"]*)"'
)
"""A literal that an expression prints: `{{ "on" if x else "off" }}`."""
ATTRIBUTE: Final = re.compile(r'[\w-]+="[^"]*"')
"""A macro may return attributes of a tag."""
SENTENCE: Final = re.compile(r'"([A-Z][a-z]+(?:[^"\\]|\\.)*)"')
MARKED: Final = re.compile(r"(\b(n?gettext|_)\(|\|\s*(date|now_text)\()\s*$")
NO_TEXT_FUNCTION: Final = re.compile(
    r"(\b(url|url_or_empty|static|icon|attr|may|preference|now_text|groupby)\(|==|!=|\bin)\s*$"
)


class TextOutsideMarkup(HTMLParser):
    """Collects text nodes and shown attributes that have words."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for name, value in attrs if value and name in SHOWN_ATTRIBUTES]
        if tag in NOT_PROSE:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            self._inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.texts.append(data)


def unmarked_texts(source: str) -> Iterator[str]:
    """Yield the texts that a translator would never see."""
    source = TRANSLATED_BLOCK.sub(" ", source)
    parser = TextOutsideMarkup()
    parser.feed(JINJA.sub(_printed_literals, source))
    parser.close()
    for text in parser.texts:
        text = ATTRIBUTE.sub("", text)
        if set(WORD.findall(text)) - UNTRANSLATED_WORDS:
            yield " ".join(text.split())
    for token in JINJA.findall(source):
        if re.match(r"{%-?\s*(extends|from|import|include)\b", token):
            continue
        for literal in SENTENCE.finditer(token):
            before = token[: literal.start()]
            if not MARKED.search(before) and not NO_TEXT_FUNCTION.search(before):
                yield literal[1]


def _printed_literals(token: re.Match[str]) -> str:
    """Return what an expression prints as far as it is known; a dot stands for all else."""
    literals = PRINTED.findall(token[0]) if token[0].startswith("{{") else []
    return " ".join(map("".join, literals)).replace('"', "") or "·"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<p>Save</p>", ["Save"]),
        ('<p>{{ _("Save") }} · {{ n }} mg/dL</p>', []),
        ("<p>{% trans name=x %}Hello <b>{{ name }}</b>{% endtrans %}</p>", []),
        ('<a title="Back">{{ _("Back") }}</a>', ["Back"]),
        ('<i aria-label="{{ _("Back") }}"></i>', []),
        ('{{ badge("Sent") }}{{ url("Sent") }}', ["Sent"]),
        ("<kbd>Enter</kbd><code>Any words</code>", []),
        ('{{ "on" if x else "off" }}', ["on off"]),
        ("<p class=\"{{ 'on' if x else 'off' }}\"></p>", []),
        ("{% if a %}and so on{% endif %}", ["and so on"]),
    ],
)
def test_what_is_unmarked_is_found(source: str, found: list[str]) -> None:
    assert [text.strip("· ") for text in unmarked_texts(source)] == found


@pytest.mark.parametrize("path", sorted(set(PATHS) - DEVELOPER_PAGES))
def test_template_marks_its_texts(path: str) -> None:
    assert list(unmarked_texts((TEMPLATES / path).read_text())) == []
