"""Admin of laboratories: lab accounts, teams, and the catalog as received from the service.

The page of a lab account, not the admin, changes which teams may use it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib.admin import register
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, gettext_noop, ngettext

from backoffice.admin import BaseAdmin, RecordAdmin, groups, site
from backoffice.admin.lists import display
from backoffice.admin.records import LookupKeys
from backoffice.audit.recording import record_change
from backoffice.core.service_team import mirror_team
from backoffice.pages.macros import render_macro
from backoffice.pages.paging.pages import Sort
from labs import sync
from labs.allowlists.teams import known_teams, sort_teams, team_names
from labs.models import Lab, LabAccount, LabAccountTeam, LabTest, Marker, Physician, Team
from labs.reports.models import ReportJob
from labs.reports.sync import LOOKUP_KIND as REPORT_JOBS
from patients.admin import PatientRecordAdmin

_LISTS = {synced_list.resource: synced_list for synced_list in sync.SYNCED_LISTS}


class CatalogAdmin(RecordAdmin):
    """Base of records that belong to no patient and are read as whole lists."""

    needs = ("labs.view", "records.view")


@register(LabAccount, site=site)
class LabAccountAdmin(CatalogAdmin):
    """Lab accounts are mirrored. Only commands to the service change them."""

    group = groups.LABORATORIES
    words = gettext_noop("Lab accounts and the teams allowed to use them")
    topic = "lab account"
    list_display = ("account", "lab", "status", "delegated_flow", "catalog", "teams")
    list_filter = ("status", "lab")
    searched = ("pk", "provider_account_id")
    search_hint = gettext_noop("Full ID or account number at the lab")
    synced_list = _LISTS["lab-accounts"]
    code_names: ClassVar = {"lab": Lab.names}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(allowed=Count("teams"))
        return rows

    @display(gettext_noop("Account"))
    def account(self, account: LabAccount) -> str:
        return str(account)

    @display(gettext_noop("Catalog"))
    def catalog(self, account: LabAccount) -> SafeString:
        checked = account.catalog_read_at
        words = (
            format_html(
                gettext("Last checked {}"),
                render_macro("macros/times.html", "full_time", checked),
            )
            if checked
            else gettext("Not checked yet")
        )
        return format_html(
            '<a href="{}">{}</a>', reverse("labs:account-catalog", args=[account.pk]), words
        )

    @display(gettext_noop("Teams"))
    def teams(self, account: Any) -> SafeString:
        words = ngettext(
            "%(count)s team: view or change", "%(count)s teams: view or change", account.allowed
        ) % {"count": account.allowed}
        return format_html('<a href="{}">{}</a>', self.lead(account)[0], words)

    def lead(self, row: LabAccount) -> tuple[str, str]:
        return reverse("labs:account", args=[row.pk]), gettext(
            "Allowed teams and effect of a change"
        )


class TeamForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    class Meta:
        model = Team
        fields = ("id", "name")
        labels = {"id": gettext_lazy("Team ID")}
        help_texts = {
            "name": gettext_lazy(
                "Shown to staff next to the ID. Staff type it to confirm that a team loses its "
                "last account."
            )
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk:
            del self.fields["id"]


@register(Team, site=site)
class TeamAdmin(BaseAdmin):
    """Names of teams. The service has only ids of teams, so the names exist only here."""

    group = groups.LABORATORIES
    words = gettext_noop("Names of our organization’s teams and the accounts each may use")
    needs = ("labs.view",)
    changes = "lab_accounts.change"
    sort = Sort(("id",))
    form = TeamForm
    change_list_template = "administration/teams.html"

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Team | None:
        """Return the team; a team on an allowlist has no row until it gets a name."""
        record = super().get_object(request, object_id, from_field)
        if isinstance(record, Team):
            return record
        try:
            team = UUID(object_id)
        except ValueError:
            return None
        return Team(pk=team) if team in known_teams() else None

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        accounts: dict[UUID, list[LabAccount]] = defaultdict(list)
        for entry in LabAccountTeam.objects.select_related("account").defer("account__record"):
            accounts[entry.team_id].append(entry.account)
        names, our_team = team_names(), mirror_team()
        rows = [
            {
                "team": team,
                "ours": team == our_team,
                "name": names.get(team, ""),
                "accounts": sorted(accounts[team], key=str),
            }
            for team in sort_teams({*names, *accounts, *([our_team] if our_team else [])}, our_team)
        ]
        return super().changelist_view(request, {"rows": rows, "lab_names": Lab.names()})

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        before = team_names().get(obj.pk, "")
        obj.save()
        record_change(request, "team", [obj.pk], before={"name": before}, after={"name": obj.name})


@register(Lab, site=site)
class LabAdmin(CatalogAdmin):
    words = gettext_noop("Labs available through the lab service")
    topic = "lab"
    list_display = ("id", "name", "slug", "city", "missing_since")
    search_hint = gettext_noop("Full number")
    synced_list = _LISTS["labs"]

    def lead(self, row: Lab) -> tuple[str, str]:
        return reverse("labs:detail", args=[row.pk]), gettext("View lab")


@register(Marker, site=site)
class MarkerAdmin(CatalogAdmin):
    words = gettext_noop("What labs measure")
    topic = "marker"
    list_display = ("id", "name", "slug", "lab_id", "type", "missing_since")
    search_hint = gettext_noop("Full number")
    synced_list = _LISTS["markers"]


@register(LabTest, site=site)
class LabTestAdmin(CatalogAdmin):
    words = gettext_noop("Tests that can be ordered")
    topic = "lab test"
    list_display = ("id", "name", "method", "status", "lab_id", "missing_since")
    synced_list = _LISTS["lab-tests"]

    def lead(self, row: LabTest) -> tuple[str, str]:
        return reverse("labs:test", args=[row.pk]), gettext("View lab test")


@register(Physician, site=site)
class PhysicianAdmin(CatalogAdmin):
    words = gettext_noop("Ordering physicians of our team")
    topic = "physician"
    sort = Sort(("npi",))
    list_display = ("npi", "first_name", "last_name", "missing_since")
    search_hint = gettext_noop("Full NPI")
    synced_list = _LISTS["physicians"]


@register(ReportJob, site=site)
class ReportJobAdmin(PatientRecordAdmin):
    words = gettext_noop("Uploaded reports as read by the lab service")
    topic = "report"
    needs = ("reports.view", "patients.view", "results.view", "records.view")
    list_display = ("id", "user_id", "state", "lab_name", "as_of", "missing_since")

    def reasons(self, row: ReportJob) -> LookupKeys:
        return {REPORT_JOBS: [row.pk]}
