"""Where the time of one page goes: its SQL statements, its template and other Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.template.backends.jinja2 import Template

from tests.bench.common import Profile

ROUNDS = 5


def explain_page(name: str, open_page: Callable[[], Any]) -> None:
    """Open the page a few times in this process and print the average time of each part."""
    open_page()
    profile, template = Profile(), _TemplateTime()
    with profile.measure_thread(), template.measure(profile):
        for _ in range(ROUNDS):
            open_page()
    total, sql, rendering = (
        1000 * each / ROUNDS for each in (profile.total.wall, profile.sql.wall, template.seconds)
    )
    print(f"\nwhere {total:.1f} ms of {name} go:")
    for label, part in (("SQL", sql), ("template", rendering), ("Python", total - sql - rendering)):
        print(f"  {part:7.1f} ms  {100 * part / total:3.0f} %  {label}")
    slowest = sorted(profile.statements.items(), key=lambda item: -item[1].wall)
    for statement, times in slowest[:4]:
        print(f"  {1000 * times.wall / ROUNDS:7.1f} ms         {statement}")


class _TemplateTime:
    """Seconds spent in templates, without the SQL statements that they run."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    @contextmanager
    def measure(self, profile: Profile) -> Iterator[None]:
        render = Template.render

        def measured_render(template: Template, *args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return render(template, *args, **kwargs)
            self._depth, sql, started_at = 1, profile.sql.wall, time.perf_counter()
            try:
                return render(template, *args, **kwargs)
            finally:
                self._depth = 0
                self.seconds += time.perf_counter() - started_at - (profile.sql.wall - sql)

        with mock.patch.object(Template, "render", measured_render):
            yield
