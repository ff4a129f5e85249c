"""Query strings of links: those of a page, with some parameters changed."""

from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from jinja2 import pass_context
from jinja2.runtime import Context


def address_with(parameters: QueryDict, **changes: Any) -> str:
    dropped = {"after", "before", "at", "panel", *changes}
    unchanged = [text for name, text in _encoded_parameters(parameters) if name not in dropped]
    new = [(name, value) for name, value in changes.items() if value not in (None, "")]
    return f"?{'&'.join(filter(None, [*unchanged, urlencode(new, doseq=True)]))}"


def _encoded_parameters(parameters: QueryDict) -> list[tuple[str, str]]:
    """Return the encoded parameters of a page, by name.

    They are cached, because a list has dozens of links with most of its own parameters.
    """
    encoded: list[tuple[str, str]] | None = vars(parameters).get("_encoded_parameters")
    if encoded is None:
        encoded = [
            (name, urlencode({name: values}, doseq=True)) for name, values in parameters.lists()
        ]
        if not parameters._mutable:
            vars(parameters)["_encoded_parameters"] = encoded
    return encoded


def address_without(parameters: QueryDict, name: str, value: str) -> str:
    return address_with(
        parameters, **{name: [one for one in parameters.getlist(name) if one != value]}
    )


@pass_context
def query_string(context: Context, **changes: Any) -> str:
    """Return the query string of this page with some parameters replaced. It begins with `?`.

    None or an empty value removes a parameter. The position in the list (`after`, `before`, `at`)
    is dropped, because it is not valid for another filter.
    """
    return address_with(context["request"].GET, **changes)


@pass_context
def query_string_without(context: Context, name: str, value: str) -> str:
    """Return the query string of this page without one value of a parameter.

    The link that removes a filter uses it.
    """
    return address_without(context["request"].GET, name, value)
