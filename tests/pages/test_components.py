"""The page with all components renders every macro, for developers only."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.template import engines
from django.test import Client
from django.urls import NoReverseMatch, path, reverse
from jinja2 import nodes

from backoffice.pages.views import components
from backoffice.urls import urlpatterns as product_urls
from tests.api.rows import staff

pytestmark = pytest.mark.django_db

urlpatterns = [path("system/components/", components, name="components"), *product_urls]
MACROS = Path(settings.BASE_DIR) / "templates" / "macros"
ENVIRONMENT = engines["jinja2"].env  # type: ignore[attr-defined]


@pytest.mark.urls(__name__)
def test_components_page_renders_for_administrator(client: Client) -> None:
    client.force_login(staff("administrator"))
    answer = client.get("/system/components/")
    assert answer.status_code == 200
    page = answer.content.decode()
    for text in ("short_id(key)", "51–1,100 of 1,100+ orders", "lab’s local time", "by_drone"):
        assert text in page


def test_components_page_does_not_exist_without_debug() -> None:
    with pytest.raises(NoReverseMatch):
        reverse("components")


def test_components_page_calls_every_macro() -> None:
    page = ENVIRONMENT.parse(
        (MACROS.parent / "system" / "_components.html").read_text(encoding="utf-8")
    )
    files = {each.target: each.template.value for each in page.find_all(nodes.Import)}
    called = {
        (files[call.node.node.name], call.node.attr)
        for call in page.find_all(nodes.Call)
        if isinstance(call.node, nodes.Getattr) and isinstance(call.node.node, nodes.Name)
        if call.node.node.name in files
    }
    defined = {
        (f"macros/{file.name}", macro.name)
        for file in MACROS.glob("*.html")
        for macro in ENVIRONMENT.parse(file.read_text(encoding="utf-8")).find_all(nodes.Macro)
    }
    assert len(defined) > 30
    assert defined == called
