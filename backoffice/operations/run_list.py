"""The list of sync runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from backoffice.operations.mirror_filters import DATE_FILTER, LIST_FILTER, MirrorFilters
from backoffice.pages import sync_health
from backoffice.pages.formats import list_name
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.forms import Filter
from backoffice.sync.models import SyncRun

OPEN: Final = (SyncRun.State.DUE, SyncRun.State.RUNNING)
STATES: Final = {
    "due": Q(state=SyncRun.State.DUE, attempts=0),
    "running": Q(state=SyncRun.State.RUNNING, attempts=0),
    "retrying": Q(state__in=OPEN, attempts__gt=0),
    "done": Q(state=SyncRun.State.DONE),
    "failed": Q(state=SyncRun.State.FAILED),
}
"""The states that rows show (`sync_health.state_of`), each with its condition."""


class RunFilters(MirrorFilters):
    """Filter by list, state, scope and time of the request."""

    state = forms.MultipleChoiceField(
        required=False,
        label="State",
        choices=[(state, state.capitalize()) for state in STATES],
        widget=forms.CheckboxSelectMultiple,
    )
    scope = forms.ChoiceField(
        required=False,
        label="Scope",
        choices=[("", "Either"), ("full", "Everything"), ("changes", "Changes")],
    )

    MODEL = SyncRun
    TIME = "created_at"
    SORTS: ClassVar = {
        "created_at": ("created_at", "id"),
        "resource": ("resource", "created_at", "id"),
        "state": ("state", "created_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"created_at"})
    FILTERS: ClassVar = (
        LIST_FILTER,
        Filter("State", ("state",), always_shown=True),
        Filter("Scope", ("scope",), always_shown=True),
        DATE_FILTER,
    )

    def apply(self, rows: QuerySet[SyncRun]) -> QuerySet[SyncRun]:
        rows = super().apply(rows)
        if states := self.cleaned_data["state"]:
            condition = Q()
            for state in states:
                condition |= STATES[state]
            rows = rows.filter(condition)
        if scope := self.cleaned_data["scope"]:
            rows = rows.filter(full=scope == "full")
        return rows


@dataclass(frozen=True, slots=True)
class RunRow:
    """A sync run as a page shows it at `now`."""

    run: SyncRun
    now: datetime

    @property
    def family(self) -> str:
        return sync_health.state_of(self.run)[0]

    @property
    def glyph(self) -> str:
        return sync_health.state_of(self.run)[1]

    @property
    def word(self) -> str:
        return sync_health.state_of(self.run)[2]

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
        return f"{seconds:.1f} s" if seconds >= 0.1 else "under 0.1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h".replace(".0 ", " ")


COLUMNS: Final = (
    Column(
        "created_at",
        "Requested",
        (ExportCell("Requested", lambda row: row.run.created_at, is_timestamp=True),),
        sort="created_at",
        macro="created_at",
        cell_css="nowrap",
    ),
    Column(
        "resource",
        "List",
        (ExportCell("List", lambda row: list_name(row.run.resource)),),
        sort="resource",
        macro="resource",
    ),
    Column(
        "state",
        "State",
        (
            ExportCell("State", lambda row: row.word),
            ExportCell("Failed attempts", lambda row: row.run.attempts),
        ),
        sort="state",
        macro="state",
    ),
    Column(
        "scope",
        "Scope",
        (
            ExportCell("Scope", lambda row: "Everything" if row.run.full else "Changes"),
            ExportCell("Changed since", lambda row: row.run.window_start, is_timestamp=True),
            ExportCell("Error", lambda row: row.run.error),
        ),
        macro="scope",
    ),
    Column(
        "took",
        "Took",
        (ExportCell("Seconds", lambda row: row.seconds),),
        css="num",
        macro="took",
        cell_css="num nowrap",
    ),
    Column(
        "fetched",
        "Records read",
        (ExportCell("Records read", lambda row: row.run.fetched),),
        css="num",
        macro="progress",
        cell_css="num",
    ),
    Column(
        "created",
        "New",
        (ExportCell("New", lambda row: row.run.created),),
        css="num",
        macro="created",
        cell_css="num",
    ),
    Column(
        "changed",
        "Changed",
        (ExportCell("Changed", lambda row: row.run.changed),),
        css="num",
        macro="changed",
        cell_css="num",
    ),
    Column(
        "besides",
        "Besides",
        (
            ExportCell("Older", lambda row: row.run.older),
            ExportCell("No longer listed", lambda row: row.run.unseen),
            ExportCell("Unread", lambda row: row.run.unreadable),
            ExportCell("Differed", lambda row: row.run.drifted),
        ),
        macro="besides",
    ),
)


class RunList(ListPage):
    name = "runs"
    title = "Sync runs"
    template = "system/runs.html"
    subject = "sync run"
    nouns = ("run", "runs")
    needs = ("system.view",)
    columns = COLUMNS
    row_macros = "system/run_rows.html"
    presets: ClassVar = (
        Preset("open", "Under way", {"state": ["due", "running", "retrying"]}),
        Preset("failed", "Failed", {"state": ["failed"]}),
        Preset("full", "Everything read", {"scope": ["full"]}),
    )

    def form(self, data: QueryDict, user: Any) -> RunFilters:
        return RunFilters(data)

    def visible_rows(self, user: Any) -> QuerySet[SyncRun]:
        return SyncRun.objects.defer("checkpoint")

    def rows(self, form: Any, user: Any) -> QuerySet[SyncRun]:
        rows: QuerySet[SyncRun] = form.apply(self.visible_rows(user))
        return rows

    def with_related(self, rows: list[SyncRun], user: Any) -> list[RunRow]:
        now = timezone.now()
        return [RunRow(run, now) for run in rows]

    def patient_id_of(self, row: SyncRun) -> None:
        return None


RUN_LIST: Final = RunList()
