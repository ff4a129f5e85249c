"""The environment of the Jinja templates, and the tag that includes them in Django templates."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.template import Context, Template, engines
from django.test import RequestFactory
from jinja2 import StrictUndefined, UndefinedError

from backoffice.pages.jinja import cell_macros, url
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.macros import render_macro
from orders.order_list.definition import ORDER_LIST

ENVIRONMENT = engines["jinja2"].env  # type: ignore[attr-defined]


def test_templates_escape_values_and_reject_missing_ones() -> None:
    assert ENVIRONMENT.undefined is StrictUndefined
    assert ENVIRONMENT.from_string("{{ v }}").render(v="<b>") == "&lt;b&gt;"
    with pytest.raises(UndefinedError):
        ENVIRONMENT.from_string("{{ missing }}").render()


def test_macro_escapes_values_and_returns_safe_html() -> None:
    html = render_macro("macros/status.html", "badge", "appointment.status", '<b a="1">')
    assert "&lt;b a=&#34;1&#34;&gt;" in html
    assert Template("{{ v }}").render(Context({"v": html})) == html


def test_tag_passes_values_and_request_to_jinja() -> None:
    request = RequestFactory().get("/orders/?lab=north&bucket=lost")
    tab = {"bucket": "closed", "label": "<b>", "glyph": "tick", "count": None, "current": True}
    html = Template('{% load jinja %}{% jinja "lists/_status_tabs.html" tabs=tabs %}').render(
        Context({"request": request, "tabs": [tab]})
    )
    assert 'href="?lab=north&amp;bucket=closed"' in html
    assert "&lt;b&gt;" in html


def test_url_of_page_record_and_other_route() -> None:
    key = UUID(int=7)
    assert url("orders:list") == "/orders/"
    assert url("orders:detail", key) == f"/orders/{key}/"
    assert url("orders:view", 3) == url("orders:view", key=3)


@pytest.mark.parametrize("list_page", [ORDER_LIST])
def test_every_column_has_a_macro(list_page: ListPage) -> None:
    macros = ENVIRONMENT.get_template(list_page.row_macros).module
    assert len(cell_macros(list_page.columns, macros)) == len(list_page.columns)
