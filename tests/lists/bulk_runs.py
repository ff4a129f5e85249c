"""Bulk actions in tests: begun by the form of a list, and worked on."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.test import Client

from backoffice.pages.lists import bulk
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.models import BulkRun


def begin_bulk_action(
    client: Client, list_page: ListPage, name: str, keys: Iterable[object], **form: Any
) -> Any:
    """Press the button of an action with the rows ticked. Return the response."""
    data = {"verb": name, "query": "", "here": "", "key": [str(key) for key in keys], **form}
    return client.post(list_page.url("bulk"), {"form_id": str(uuid.uuid4()), **data})


def run_bulk_action(
    client: Client, list_page: ListPage, name: str, keys: Iterable[object], **form: Any
) -> BulkRun:
    """Apply an action to the rows with these keys. `form`: the values of its form.

    Return the finished run: `done` and `failed` are numbers of rows.
    """
    answer = begin_bulk_action(client, list_page, name, keys, go="1", **form)
    assert answer.status_code == 302, answer.content.decode()[-2000:]
    while bulk.process_runs([list_page]):
        pass
    run = BulkRun.objects.latest("asked_at")
    assert run.state == BulkRun.State.DONE
    return run
