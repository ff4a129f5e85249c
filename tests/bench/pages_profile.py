"""Where the time of one page goes: its statements, its template, and the rest of Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.template.base import Template

from tests.bench.common import Profile

TIMES = 5


def explain_page(name: str, ask: Callable[[], Any]) -> None:
    """Ask for it a few times in this process; print the middle of what each part takes."""
    ask()
    profile, template = Profile(), _Template()
    with profile.taken(), template.timed(profile):
        for _ in range(TIMES):
            ask()
    whole, sql, drawn = (
        1000 * each / TIMES for each in (profile.whole.wall, profile.sql.wall, template.seconds)
    )
    print(f"\nwhere {whole:.1f} ms of {name} go:")
    for words, part in (("SQL", sql), ("template", drawn), ("Python", whole - sql - drawn)):
        print(f"  {part:7.1f} ms  {100 * part / whole:3.0f} %  {words}")
    slowest = sorted(profile.statements.items(), key=lambda one: -one[1].wall)
    for statement, spent in slowest[:4]:
        print(f"  {1000 * spent.wall / TIMES:7.1f} ms         {statement}")


class _Template:
    """Seconds in templates, without those of statements that a template asks for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    @contextmanager
    def timed(self, profile: Profile) -> Iterator[None]:
        render = Template.render

        def rendered(template: Template, context: Any) -> Any:
            if self._depth:
                return render(template, context)
            self._depth, sql, begun = 1, profile.sql.wall, time.perf_counter()
            try:
                return render(template, context)
            finally:
                self._depth = 0
                self.seconds += time.perf_counter() - begun - (profile.sql.wall - sql)

        with mock.patch.object(Template, "render", rendered):
            yield
