"""Cached fragments: rendered once for their values, with the token of each page."""

from __future__ import annotations

import pytest
from django.template import Context, Template, TemplateSyntaxError

FRAGMENT = (
    "{% load cached_fragment %}{% cached name=name %}"
    "<b>{{ name }}</b>{% csrf_token %}{{ other }}{% endcached %}"
)


def render_fragment(template: Template, **values: object) -> str:
    return str(template.render(Context(values)))


def test_fragment_sees_only_its_values() -> None:
    fragment = Template(FRAGMENT)
    assert render_fragment(fragment, name="<Ada>", other="secret", csrf_token="one").startswith(
        "<b>&lt;Ada&gt;</b><input"
    )
    assert "secret" not in render_fragment(fragment, name="Bea", other="secret", csrf_token="one")


def test_each_page_has_its_own_token_in_cached_fragment() -> None:
    fragment = Template(FRAGMENT)
    for token in ("first", "second", "first"):
        assert f'value="{token}"' in render_fragment(fragment, name="Ada", csrf_token=token)
    assert 'value="&quot;&gt;"' in render_fragment(fragment, name="Ada", csrf_token='">')


def test_fragment_is_rendered_once_for_equal_values() -> None:
    calls: list[str] = []

    class EqualValue:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, EqualValue)

        def __hash__(self) -> int:
            return 1

        def __str__(self) -> str:
            calls.append("")
            return "told"

    fragment = Template(FRAGMENT)
    assert [render_fragment(fragment, name=EqualValue()) for _ in range(3)] == [
        render_fragment(fragment, name=EqualValue())
    ] * 3
    assert len(calls) == 1
    assert "<b>True</b>" in render_fragment(fragment, name=True) and "<b>1</b>" in render_fragment(
        fragment, name=1
    )


@pytest.mark.parametrize("inside", ["{% now 'Y' %}", "{% block b %}{% endblock %}"])
def test_page_specific_tags_are_refused(inside: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="of one page"):
        Template("{% load cached_fragment %}{% cached %}" + inside + "{% endcached %}")
