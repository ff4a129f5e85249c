"""Hidden fields for the answers of a form whose questions the page does not show.

A form that is refreshed in part shows some questions only if another answer requires them. The
answer to a question must not be lost when the question disappears. `unshown` returns the answers
that no control of the page sends, so that the template can add hidden fields for them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from html.parser import HTMLParser
from typing import Final

_NEVER: Final = ("csrfmiddlewaretoken", "form_id")
_TICKS: Final = ("checkbox",)


class _Controls(HTMLParser):
    """A parser that collects the names of a page's controls, and the values of its checkboxes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.ticks: dict[str, set[str]] = {}
        self.others: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        name = attributes.get("name")
        if not name or tag not in ("input", "select", "textarea", "button"):
            return
        if attributes.get("type") in _TICKS:
            self.ticks.setdefault(name, set()).add(attributes.get("value") or "on")
        else:
            self.others.add(name)


def unshown(
    typed: Mapping[str, Sequence[str]], page: str, without: Container[str] = ()
) -> list[tuple[str, str]]:
    """Return the names and values that were sent and that no control of `page` can send."""
    controls = _Controls()
    controls.feed(page)
    controls.close()
    unsendable: list[tuple[str, str]] = []
    for name, values in typed.items():
        if name in without or name in _NEVER or name in controls.others:
            continue
        box_values = controls.ticks.get(name)
        if box_values is None:
            unsendable += [(name, value) for value in values if value]
        elif len(box_values) > 1 or "on" not in box_values:
            unsendable += [(name, value) for value in values if value not in box_values]
    return unsendable
