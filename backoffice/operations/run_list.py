"""The list of sync runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.operations.filters import OPEN, RunFilterSet
from backoffice.pages import sync_health
from backoffice.pages.formats import list_name
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.sync.models import SyncRun


@dataclass(frozen=True, slots=True)
class RunRow:
    """A sync run as a page shows it at `now`."""

    run: SyncRun
    now: datetime

    @property
    def state(self) -> sync_health.RunState:
        return sync_health.state_of(self.run)

    @property
    def is_open(self) -> bool:
        return self.run.state in OPEN

    @property
    def seconds(self) -> float | None:
        """How long the run took, or has been running; None before its start."""
        length = sync_health.duration(self.run, self.now)
        return None if length is None else round(length.total_seconds(), 1)

    @property
    def took(self) -> str:
        return "" if self.seconds is None else format_duration(self.seconds)

    @property
    def rate(self) -> float | None:
        return sync_health.rate(self.run, self.now)


def format_duration(seconds: float) -> str:
    """Format a duration in its largest unit: `0.4 s`, `30 s`, `15 min`, `24 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else gettext("under 0.1 s")
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h".replace(".0 ", " ")


def _scope(row: RunRow) -> str:
    return gettext("Everything") if row.run.full else gettext("Changes")


COLUMNS: Final = (
    Column(
        "created_at",
        gettext_noop("Requested"),
        (ExportCell(gettext_noop("Requested"), lambda row: row.run.created_at, is_timestamp=True),),
        sort="created_at",
        cell_css="nowrap",
    ),
    Column(
        "resource",
        gettext_noop("List"),
        (ExportCell(gettext_noop("List"), lambda row: list_name(row.run.resource)),),
        sort="resource",
    ),
    Column(
        "state",
        gettext_noop("State"),
        (
            ExportCell(gettext_noop("State"), lambda row: row.state.label),
            ExportCell(gettext_noop("Failed attempts"), lambda row: row.run.attempts),
        ),
        sort="state",
    ),
    Column(
        "scope",
        gettext_noop("Scope"),
        (
            ExportCell(gettext_noop("Scope"), _scope),
            ExportCell(
                gettext_noop("Changed since"), lambda row: row.run.window_start, is_timestamp=True
            ),
            ExportCell(gettext_noop("Error"), lambda row: gettext(row.run.error)),
        ),
    ),
    Column(
        "took",
        gettext_noop("Duration"),
        (ExportCell(gettext_noop("Seconds"), lambda row: row.seconds),),
        css="num",
        cell_css="num nowrap",
    ),
    Column(
        "fetched",
        gettext_noop("Records read"),
        (ExportCell(gettext_noop("Records read"), lambda row: row.run.fetched),),
        css="num",
        macro="progress",
        cell_css="num",
    ),
    Column(
        "created",
        gettext_noop("New"),
        (ExportCell(gettext_noop("New"), lambda row: row.run.created),),
        css="num",
        cell_css="num",
    ),
    Column(
        "changed",
        gettext_noop("Changed"),
        (ExportCell(gettext_noop("Changed"), lambda row: row.run.changed),),
        css="num",
        cell_css="num",
    ),
    Column(
        "other",
        gettext_noop("Other"),
        (
            ExportCell(gettext_noop("Older"), lambda row: row.run.older),
            ExportCell(gettext_noop("No longer listed"), lambda row: row.run.unseen),
            ExportCell(gettext_noop("Unreadable"), lambda row: row.run.unreadable),
            ExportCell(gettext_noop("Differences"), lambda row: row.run.drifted),
        ),
    ),
)


class RunList(ListPage):
    name = "runs"
    title = gettext_noop("Sync runs")
    template = "system/runs.html"
    subject = "sync run"
    nouns = (gettext_noop("run"), gettext_noop("runs"))
    needs = ("system.view",)
    columns = COLUMNS
    row_macros = "system/run_rows.html"
    filter_set = RunFilterSet
    presets: ClassVar = (
        Preset("open", gettext_noop("In progress"), {"state": ["due", "running", "retrying"]}),
        Preset("failed", gettext_noop("Failed"), {"state": ["failed"]}),
        Preset("full", gettext_noop("Full syncs"), {"scope": ["full"]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[SyncRun]:
        return SyncRun.objects.defer("checkpoint")

    def with_related(self, rows: list[SyncRun], user: Any) -> list[RunRow]:
        now = timezone.now()
        return [RunRow(run, now) for run in rows]


RUN_LIST: Final = RunList()
