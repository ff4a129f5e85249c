"""The environment of the Jinja templates: the filters and globals that all of them have.

A filter or a global returns a value or plain text. What returns HTML is a macro in
`templates/macros/`. The only exceptions are `icon` and `shared_icon_svg`, whose SVG is that of a
package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import get_language, gettext, ngettext
from jinja2 import Environment

from backoffice.accounts.access import may
from backoffice.core import phone_numbers, vocabulary
from backoffice.core.template_functions import undefined_as_none
from backoffice.core.time_formats import calendar_day, hour, month_and_year, short_day, weekday
from backoffice.core.urls import page_url, record_url
from backoffice.pages import formats
from backoffice.pages.form_fields import checkbox_choices
from backoffice.pages.icons import icon_svg, shared_icon_svg
from backoffice.pages.javascript_catalog import javascript_catalog_url
from backoffice.pages.query_strings import (
    address_with,
    address_without,
    query_string,
    query_string_without,
)


def url(route: str, *args: object, **kwargs: object) -> str:
    """Return the URL of a route. Those of pages without arguments and of records are cached."""
    if kwargs or len(args) > 1:
        return reverse(route, args=args, kwargs=kwargs)
    if not args:
        return page_url(route)
    key = args[0]
    return record_url(route, key) if isinstance(key, UUID | int) else reverse(route, args=args)


def cell_macros(columns: Iterable[Any], macros: Any) -> list[tuple[Any, Any]]:
    """Return each column of a list with its macro, from the imported template `macros`."""
    return [(column, getattr(macros, column.macro or column.key)) for column in columns]


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "age": formats.age,
    "calendar_day": calendar_day,
    "cents": formats.cents,
    "cell_macros": cell_macros,
    "checkbox_choices": checkbox_choices,
    "clock_time": formats.clock_time,
    "coded": formats.coded,
    "dense_time": formats.dense_time,
    "exact_time": formats.exact_time,
    "full_day": formats.full_day,
    "full_time": formats.full_time,
    "hour": hour,
    "initials": formats.initials,
    "is_minor": formats.is_minor,
    "is_web_address": formats.is_web_address,
    "iso_day": formats.iso_day,
    "list_name": formats.list_name,
    "local_date": formats.local_date,
    "long_day": formats.long_day,
    "may": may,
    "money": formats.money,
    "month_and_year": month_and_year,
    "phone_parts": phone_numbers.display_and_dial,
    "short_day": short_day,
    "short_time": formats.short_time,
    "since": formats.since,
    "thousands": formats.thousands,
    "translated": formats.translated,
    "utc_iso": formats.utc_iso,
    "written_time": formats.written_time,
    "weekday": weekday,
    "yes_no": formats.yes_no,
}
GLOBALS: Final[Mapping[str, Callable[..., Any]]] = {
    "address_with": address_with,
    "address_without": address_without,
    "event_status_differs": formats.event_status_differs,
    "icon": icon_svg,
    "javascript_catalog_url": javascript_catalog_url,
    "language_code": get_language,
    "next_actor_word": formats.next_actor_word,
    "order_term": formats.order_term,
    "own_time": formats.own_time,
    "query_string": query_string,
    "query_string_without": query_string_without,
    "range_geometry": formats.range_geometry,
    "record_url": record_url,
    "shared_icon_svg": shared_icon_svg,
    "static": static,
    "term": vocabulary.term,
    "url": url,
    "zone_clock": formats.zone_clock,
}


def environment(**options: Any) -> Environment:
    """Return the environment that the setting `TEMPLATES` names."""
    made = Environment(extensions=["jinja2.ext.i18n"], **options)  # noqa: S701 - the setting escapes
    # In `_("…")` and `{% trans %}`; `translated` is for constants that Python marks.
    made.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    made.policies["ext.i18n.trimmed"] = True
    made.filters.update({name: undefined_as_none(function) for name, function in FILTERS.items()})
    made.globals.update(GLOBALS)
    return made
