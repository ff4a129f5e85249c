"""A page of a filtered list and the number of its rows, found in one of two ways.

1. By key. Up to `COUNT_CAP` matching rows are all found first, in any order, by the indexes of the
   filters. Their keys are the whole list: they are counted, sorted, and the page is cut from them.
   A filter by a name or an identifier finds its own keys first, up to a limit, whatever else is
   asked (`orders.models.name.name_condition`, `PatientQuerySet.matching`).
2. Along the sort. A longer list is one plain query: the filters, the columns of the sort, the
   cursor, and the size of the page as its limit. The index of the sort has the filtered columns.

A page of the second way may also begin with keys: the event log finds those of several types by
their index (`webhooks.models.EventQuerySet.first_of_types`).

PostgreSQL chooses the indexes of both. A list is never wrong because of this choice, only slow.
"""

from __future__ import annotations

from django.db.models import F, QuerySet

from backoffice.pages.paging.counts import COUNT_CAP, Count
from backoffice.pages.paging.keys import FewKeys, read_keys
from backoffice.pages.paging.pages import Page, PagePosition, Row, Sort, fetch_page


def count_and_page(
    rows: QuerySet[Row],
    all_rows: QuerySet[Row],
    sort: Sort,
    size: int,
    place: PagePosition,
    number: int | None = None,
    cap: int = COUNT_CAP,
) -> tuple[Count, Page[Row]]:
    """Return how many rows match, up to the cap, and a page of them.

    `all_rows` are the same rows without filters. `number` is their exact number where it is stored.
    """
    if number is not None and number > cap:
        return Count(number), fetch_page(rows, sort, size=size, **place)
    found, keys = read_keys(rows.order_by().values("pk"), cap)
    if found <= cap:
        rows = all_rows.filter(FewKeys(F("pk"), keys)) if found else all_rows.none()
    return Count.with_cap(found, cap), fetch_page(rows, sort, size=size, **place)
