"""Pieces of pages that are drawn once: for their values, and with the token of each page."""

from __future__ import annotations

import pytest
from django.template import Context, Template, TemplateSyntaxError

PIECE = (
    "{% load cached_fragment %}{% kept name=name %}"
    "<b>{{ name }}</b>{% csrf_token %}{{ other }}{% endkept %}"
)


def drawn(template: Template, **values: object) -> str:
    return str(template.render(Context(values)))


def test_a_piece_sees_its_values_and_nothing_else() -> None:
    piece = Template(PIECE)
    assert drawn(piece, name="<Ada>", other="secret", csrf_token="one").startswith(
        "<b>&lt;Ada&gt;</b><input"
    )
    assert "secret" not in drawn(piece, name="Bea", other="secret", csrf_token="one")


def test_each_page_has_its_own_token_in_what_is_kept() -> None:
    piece = Template(PIECE)
    for token in ("first", "second", "first"):
        assert f'value="{token}"' in drawn(piece, name="Ada", csrf_token=token)
    assert 'value="&quot;&gt;"' in drawn(piece, name="Ada", csrf_token='">')


def test_it_is_drawn_once_for_values_of_one_kind() -> None:
    calls: list[str] = []

    class Told:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Told)

        def __hash__(self) -> int:
            return 1

        def __str__(self) -> str:
            calls.append("")
            return "told"

    piece = Template(PIECE)
    assert [drawn(piece, name=Told()) for _ in range(3)] == [drawn(piece, name=Told())] * 3
    assert len(calls) == 1
    assert "<b>True</b>" in drawn(piece, name=True) and "<b>1</b>" in drawn(piece, name=1)


@pytest.mark.parametrize("inside", ["{% now 'Y' %}", "{% block b %}{% endblock %}"])
def test_what_is_of_one_page_is_refused(inside: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="of one page"):
        Template("{% load cached_fragment %}{% kept %}" + inside + "{% endkept %}")
