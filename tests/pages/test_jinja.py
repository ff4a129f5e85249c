"""The environment of the Jinja templates."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.template import Context, Template, engines

from backoffice.pages.jinja import cell_macros, url
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.registry import all_lists
from backoffice.pages.macros import render_macro

ENVIRONMENT = engines["jinja2"].env  # type: ignore[attr-defined]


def test_templates_escape_values() -> None:
    assert ENVIRONMENT.from_string("{{ v }}").render(v="<b>") == "&lt;b&gt;"


def test_macro_escapes_values_and_returns_safe_html() -> None:
    html = render_macro("macros/status.html", "badge", "appointment.status", '<b a="1">')
    assert "&lt;b a=&#34;1&#34;&gt;" in html
    assert Template("{{ v }}").render(Context({"v": html})) == html


def test_url_of_page_record_and_other_route() -> None:
    key = UUID(int=7)
    assert url("orders:list") == "/orders/"
    assert url("orders:detail", key) == f"/orders/{key}/"
    assert url("orders:view", 3) == url("orders:view", key=3)


@pytest.mark.parametrize("list_page", all_lists(), ids=lambda each: each.name)
def test_every_column_has_a_macro(list_page: ListPage) -> None:
    macros = ENVIRONMENT.get_template(list_page.row_macros).module
    assert len(cell_macros(list_page.columns, macros)) == len(list_page.columns)
