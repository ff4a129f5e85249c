"""Mirrored records: their columns, the record as received, and fetching it again.

Nothing here writes a mirrored column. Fetching again schedules a lookup of the record (a row in
`Lookup`), or, if the service offers only the whole list, requests a sync run over that list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Field, Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, role_label, roles_with
from backoffice.admin import groups
from backoffice.admin.codes import CodeNames
from backoffice.admin.lists import (
    BaseAdmin,
    admin_url,
    capitalize_first,
    column_label,
    defer_record,
    display,
    display_value,
)
from backoffice.audit import recording
from backoffice.audit.recording import record_action, record_list
from backoffice.core import vocabulary
from backoffice.core.identifiers import same_identifier
from backoffice.core.time_formats import ago
from backoffice.pages.sync_health import state_of
from backoffice.sync.lookups import schedule_lookups_by_kind
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import SyncedList, request_run

MAX_FETCHED: Final = 100
"""The most rows that are fetched again at once."""
FETCH_REQUESTED: Final = gettext_noop(
    "Requested. The outcome appears on each record’s page in a few seconds."
)
LIST_RUN_REQUESTED: Final = gettext_noop(
    "These records can only be fetched with their whole list. A run was requested: see System > "
    "Runs."
)
LIST_RUN_OPEN: Final = gettext_noop(
    "A run of this list is already in progress and includes these records."
)
NOT_FETCHABLE: Final = gettext_noop("The service has no way to fetch these records.")

LookupKeys = Mapping[str, Iterable[object]]
"""Keys to read, by the kind of lookup."""


@dataclass(frozen=True, slots=True)
class FetchStatus:
    """The state of one way to fetch a record."""

    what: str
    words: str
    family: str

    @property
    def glyph(self) -> str:
        return vocabulary.GLYPHS[self.family]


class RecordAdmin(BaseAdmin):
    """One kind of record.

    `topic` is its name in audit entries. `patient` is the column with the patient's id.
    `synced_list` is read if the service has no call that reads a single record.
    """

    group = groups.MIRROR
    topic: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    patient: ClassVar[str] = ""
    searched: ClassVar[tuple[str, ...]] = ("pk",)
    """Indexed columns that the search compares with the typed text."""
    identifiers: ClassVar[tuple[str, ...]] = ()
    """Those of `searched` that match in any spelling."""
    synced_list: ClassVar[SyncedList | None] = None
    search_hint = gettext_noop("Full ID")
    search_fields = ("pk",)  # `get_search_results` reads `searched`
    actions = ("fetch_again",)

    def reasons(self, row: Any) -> LookupKeys:
        """Return the lookups that read this record."""
        return {}

    def lead(self, row: Any) -> tuple[str, str]:
        """Return the URL and name of the page where staff work with the record; "" for none."""
        return "", ""

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_fetch"
        fetch = require_POST(self.fetch_view)
        view = path("<str:object_id>/fetch/", self.admin_site.admin_view(fetch), name=name)
        return [view, *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        return defer_record(super().get_queryset(request))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Model], bool]:
        """Search by indexes only, never by a scan of the table."""
        typed, condition = search_term.strip(), Q(pk__in=[])
        if not typed:
            return queryset, False
        for name in self.searched:
            column = self.opts.pk if name == "pk" else self.opts.get_field(name)
            if name in self.identifiers:
                condition |= same_identifier(name, typed)
                continue
            assert isinstance(column, Field)
            try:
                condition |= Q(**{name: column.to_python(typed)})
            except (ValidationError, ValueError, OverflowError):
                continue
        return queryset.filter(condition), False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        answer = super().changelist_view(request, extra_context)
        listed = getattr(answer, "context_data", None)
        if listed and "cl" in listed:
            rows = listed["cl"].result_list
            record_list(
                request, self.topic, (row.pk for row in rows), self.patients_of(rows),
                searched=bool(request.GET.get("q")),
            )  # fmt: skip
        return answer

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the record. It accepts no form."""
        return require_safe(self.record_view)(request, object_id)

    def record_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self._row(request, object_id)
        recording.record_view(request, self.topic, [row.pk], self.patients_of([row]))
        url, name = self.lead(row)
        code_names = CodeNames(self.model, self.code_names)
        context = {
            "row": row,
            "names": capitalize_first(gettext(self.plural)),
            "list_url": admin_list_url(self),
            "fetch_url": admin_url(self.admin_site.name, row, "fetch"),
            "columns": [
                (
                    column_label(str(field.verbose_name)),
                    display_value(code_names.named(field.name, getattr(row, field.attname))),
                )
                for field in self.opts.fields
                if field.name not in ("record", "content_hash")
            ],
            "record": row.pretty() if may(request.user, "records.view") else None,
            "shown_to": list(map(role_label, roles_with("records.view"))),
            "fetches": self._fetches(row),
            "lead": {"url": url, "name": name} if url else None,
        }
        return render(request, "administration/record.html", context)

    def fetch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Fetch this record again, with an audit entry."""
        row = self._row(request, object_id)
        self._fetch(request, [row])
        return redirect(admin_url(self.admin_site.name, row))

    @display(gettext_noop("Fetch again"))
    def fetch_again(self, request: HttpRequest, queryset: QuerySet[Model]) -> None:
        rows = list(queryset[: MAX_FETCHED + 1])
        if len(rows) > MAX_FETCHED:
            text = gettext("Select at most %(count)s rows. Nothing was requested.")
            messages.error(request, text % {"count": MAX_FETCHED})
        else:
            self._fetch(request, rows)

    def _fetch(self, request: HttpRequest, rows: list[Model]) -> None:
        reasons: dict[str, set[object]] = {}
        for row in rows:
            for kind, keys in self.reasons(row).items():
                reasons.setdefault(kind, set()).update(keys)
        if not reasons and self.synced_list is None:
            messages.warning(request, gettext(NOT_FETCHABLE))
            return
        with transaction.atomic():
            run = None
            if reasons:
                schedule_lookups_by_kind(reasons)
            elif self.synced_list is not None:
                run = request_run(self.synced_list)
            keys = [row.pk for row in rows]
            record_action(request, f"fetch {self.topic} again", keys, self.patients_of(rows))
        messages.success(
            request,
            gettext(FETCH_REQUESTED if reasons else LIST_RUN_REQUESTED if run else LIST_RUN_OPEN),
        )

    def _fetches(self, row: Model) -> list[FetchStatus]:
        """Return the state of each way to fetch the record, with one query."""
        reasons = self.reasons(row)
        if not reasons:
            return [_list_status(self.synced_list)] if self.synced_list else []
        condition = Q()
        for kind, keys in reasons.items():
            condition |= Q(kind=kind, key__in=[str(key) for key in keys])
        by_kind: dict[str, list[Lookup]] = {kind: [] for kind in reasons}
        for lookup in Lookup.objects.filter(condition).order_by("kind", "key")[:MAX_FETCHED]:
            by_kind[lookup.kind].append(lookup)
        return [_lookup_status(kind, lookups) for kind, lookups in by_kind.items()]

    def _row(self, request: HttpRequest, object_id: str) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.row_or_none(request, object_id)
        if row is None:
            raise Http404
        return row

    def patients_of(self, rows: Iterable[Any]) -> list[UUID | None]:
        return [getattr(row, self.patient) for row in rows] if self.patient else []


def admin_list_url(kind: BaseAdmin) -> str:
    name = f"{kind.opts.app_label}_{kind.opts.model_name}_changelist"
    return reverse(f"{kind.admin_site.name}:{name}")


def _lookup_status(kind: str, lookups: list[Lookup]) -> FetchStatus:
    what = gettext(vocabulary.LISTS.get(kind, kind))
    now = timezone.now()
    if not lookups:
        words = gettext("Read with its list, not fetched separately yet.")
        return FetchStatus(what, words, vocabulary.PREPARING)
    due = [lookup for lookup in lookups if lookup.due_at is not None and lookup.due_at <= now]
    failing = next((lookup for lookup in lookups if lookup.error), None)
    last_read_at = max((row.looked_at for row in lookups if row.looked_at), default=None)
    if failing is not None:
        return FetchStatus(
            what,
            f"{gettext(failing.error)}. {_retry_text(failing, now)}",
            vocabulary.NEEDS_ACTION,
        )
    if due:
        return FetchStatus(what, gettext("Requested. It is fetched next."), vocabulary.ON_THE_WAY)
    if last_read_at is None:
        return FetchStatus(what, gettext("Not read yet."), vocabulary.PREPARING)
    words = gettext("Read %(ago)s.") % {"ago": ago(last_read_at, now)}
    return FetchStatus(what, words, vocabulary.RESULT_IN)


def _list_status(synced_list: SyncedList) -> FetchStatus:
    name = gettext(vocabulary.LISTS.get(synced_list.resource, synced_list.resource))
    what = gettext("%(list)s, whole list") % {"list": name}
    runs = SyncRun.objects.filter(resource=synced_list.resource, full=synced_list.full)
    run = runs.order_by("-created_at").first()
    if run is None:
        return FetchStatus(what, gettext("Never read."), vocabulary.PREPARING)
    family, _, word = state_of(run)
    last_read = ago(run.finished_at or run.created_at, timezone.now())
    words = f"{gettext(word)}, {last_read}."
    return FetchStatus(what, f"{words} {gettext(run.error)}" if run.error else words, family)


def _retry_text(failing: Lookup, now: datetime) -> str:
    if failing.due_at is None:
        return gettext("Not retried automatically.")
    if failing.due_at - now < timedelta(minutes=1):
        return gettext("Next try within a minute.")
    return gettext("Next try %(time)s.") % {"time": ago(failing.due_at, now)}
