"""A page as a browser holds it: form controls, and what a partial refresh replaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

from django.http import HttpResponse
from django.test import Client

VOID_ELEMENTS: Final = (
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "wbr",
)
"""Elements without an end tag."""
CHECKABLE: Final = ("checkbox", "radio")
NOT_SENT: Final = ("submit", "button", "reset", "image", "file")


@dataclass(eq=False)
class Node:
    """An element. `given` holds its attributes, `value` the text that a person typed."""

    tag: str
    given: dict[str, str] = field(default_factory=dict)
    parts: list[Node | str] = field(default_factory=list)
    parent: Node | None = None

    def walk(self) -> Iterator[Node]:
        yield self
        for part in self.parts:
            if isinstance(part, Node):
                yield from part.walk()

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    def by_id(self, key: str) -> Node | None:
        return next((node for node in self.walk() if node.given.get("id") == key), None)

    def ancestors(self) -> Iterator[Node]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.at = Node("document")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs}, parent=self.at)
        self.at.parts.append(node)
        if tag not in VOID_ELEMENTS:
            self.at = node

    def handle_endtag(self, tag: str) -> None:
        for node in (self.at, *self.at.ancestors()):
            if node.tag == tag and node.parent is not None:
                self.at = node.parent
                return

    def handle_data(self, data: str) -> None:
        self.at.parts.append(data)


def parse(html: str) -> Node:
    builder = _Builder()
    builder.feed(html)
    builder.close()
    return builder.root


class Page:
    """A page with one form. `marker` is an attribute that identifies the form."""

    def __init__(self, html: str, marker: str) -> None:
        self.root = parse(html)
        self.marker = marker

    @property
    def form(self) -> Node:
        return next(
            node for node in self.root.walk() if node.tag == "form" and self.marker in node.given
        )

    def controls(self, name: str = "") -> list[Node]:
        """Return the controls of the form, optionally only those of one name."""
        return [
            node
            for node in self.form.walk()
            if node.tag in ("input", "select", "textarea")
            and node.given.get("name")
            and (not name or node.given["name"] == name)
            and not any(ancestor.tag == "template" for ancestor in node.ancestors())
        ]

    def values(self) -> dict[str, list[str]]:
        """Return what the form sends."""
        found: dict[str, list[str]] = {}
        for node in self.controls():
            kind = node.given.get("type", "")
            if kind in NOT_SENT or (kind in CHECKABLE and "checked" not in node.given):
                continue
            if (value := _value(node)) is not None:
                found.setdefault(node.given["name"], []).append(value)
        return found

    def shows(self, name: str) -> bool:
        """Return whether a person can answer this field."""
        return any(node.given.get("type") != "hidden" for node in self.controls(name))

    def set(self, name: str, value: str) -> None:
        """Type, choose or tick a value. An empty value removes a tick."""
        nodes = [one for one in self.controls(name) if one.given.get("type") != "hidden"]
        assert nodes, f"no control for {name}"
        node = nodes[0]
        if node.given.get("type") in CHECKABLE:
            for one in nodes:
                if one.given.get("value", "on") == value:
                    one.given["checked"] = ""
                elif not value or one.given["type"] == "radio":
                    one.given.pop("checked", None)
        elif node.tag == "select":
            options = [one for one in node.walk() if one.tag == "option"]
            assert value in [_option(one) for one in options], (name, value)
            for one in options:
                one.given.pop("selected", None)
                if _option(one) == value:
                    one.given["selected"] = ""
        elif node.tag == "textarea":
            node.parts = [value]
        else:
            node.given["value"] = value

    def untick(self, name: str, value: str) -> None:
        for one in self.controls(name):
            if one.given.get("value") == value:
                one.given.pop("checked", None)

    def refresh(
        self, client: Client, address: str, target: str, *, swap: str = "outerHTML", **more: str
    ) -> HttpResponse:
        """Send the form as htmx does, and insert the response into the page."""
        data: dict[str, Any] = {**self.values(), **more}
        response: Any = client.post(address, data, headers={"HX-Request": "true"})
        assert response.status_code in (200, 204), response.status_code
        if response.status_code == 200:
            target = response.headers.get("HX-Retarget", target).removeprefix("#")
            self._insert_response(response.content.decode(), target, swap)
        return response  # type: ignore[no-any-return]

    def _insert_response(self, html: str, target: str, swap: str) -> None:
        fresh = parse(html)
        for node in list(fresh.walk()):
            swap_target = node.given.get("hx-swap-oob")
            if swap_target is None:
                continue
            assert node.parent is not None
            node.parent.parts.remove(node)
            if swap_target.startswith("innerHTML"):
                self._replace(swap_target.partition("#")[2], node.parts, inner=True)
            else:
                self._replace(node.given["id"], [node], inner=False)
        parts = [part for part in fresh.parts if not _is_template(part)]
        self._replace(target, parts, inner=swap == "innerHTML")

    def _replace(self, key: str, parts: list[Node | str], *, inner: bool) -> None:
        old = self.root.by_id(key)
        assert old is not None and old.parent is not None, f"nothing has the id {key}"
        for part in parts:
            if isinstance(part, Node):
                part.parent = old if inner else old.parent
        if inner:
            old.parts = list(parts)
            return
        position = old.parent.parts.index(old)
        old.parent.parts[position : position + 1] = parts


def _is_template(part: Node | str) -> bool:
    return isinstance(part, Node) and part.tag == "template"


def _option(node: Node) -> str:
    return node.given.get("value", node.text)


def _value(node: Node) -> str | None:
    if node.tag == "textarea":
        return node.text.removeprefix("\n")
    if node.tag == "select":
        options = [one for one in node.walk() if one.tag == "option"]
        chosen = [one for one in options if "selected" in one.given] or options[:1]
        return _option(chosen[-1]) if chosen else None
    return node.given.get("value", "on" if node.given.get("type") in CHECKABLE else "")
