"""The page of a lab account and of the teams that may use it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import may, requires
from backoffice.core.service_team import mirror_team
from labs.account_catalogs import MAX_NAMED, compare_markers, compare_tests
from labs.allowlists.commands import SetAllowlist, obstacle
from labs.allowlists.effects import TeamEffect, compare_three_lists, team_effects
from labs.allowlists.forms import TeamsForm
from labs.allowlists.teams import allowed_team_ids, known_teams, sort_teams, team_names
from labs.details import billing_by_state
from labs.models import LabAccount

CHECK_EFFECTS = gettext_noop("Review the effect of this change, then save again.")
TYPE_NAMES = gettext_noop(
    "To confirm, type the name of each team that loses its last account: %(names)s"
)


@requires("labs.view")
@require_safe
def account(request: HttpRequest, account_id: UUID) -> HttpResponse:
    """Show one lab account and its teams, with the form for users who may change them."""
    lab_account = _account(account_id)
    return _page(
        request,
        lab_account,
        _form(request, lab_account) if _may_change(request, lab_account) else None,
    )


@requires("labs.view", "lab_accounts.change")
@require_http_methods(["GET", "HEAD", "POST"])
def teams(request: HttpRequest, account_id: UUID) -> HttpResponse:
    """Change which teams may use a lab account."""
    lab_account = _account(account_id)
    if not _may_change(request, lab_account):
        return _page(request, lab_account, None, status=422 if request.method == "POST" else 200)
    form = _form(request, lab_account)
    if request.method == "POST" and form.is_valid():
        target = form.target()
        effects = team_effects(lab_account, target)
        if effects and form.cleaned_data["looked_at"] != target:
            form.add_error(None, gettext(CHECK_EFFECTS))
        elif not form.is_confirmed(effects):
            names = _names_losing_last_account(effects)
            form.add_error("confirm", gettext(TYPE_NAMES) % {"names": ", ".join(names)})
        else:
            command = SetAllowlist(
                account_id=lab_account.pk,
                account_name=str(lab_account),
                expected=sorted(form.cleaned_data["expected"]),
                target=sorted(target),
            )
            if form.enqueue(request, command, form.cleaned_data["reason"]) is not None:
                return redirect("labs:account", lab_account.pk)
    return _page(request, lab_account, form, status=422 if request.method == "POST" else 200)


@requires("labs.view", "lab_accounts.change")
@require_safe
def effects(request: HttpRequest, account_id: UUID) -> HttpResponse:
    """Show the effects of the chosen teams: a fragment."""
    lab_account = _account(account_id)
    form = TeamsForm(
        request.GET, listed=known_teams() | allowed_team_ids(lab_account), our_team=mirror_team()
    )
    target = form.target()
    form.show(expected=allowed_team_ids(lab_account), looked_at=target)
    team_changes = team_effects(lab_account, target)
    context = {
        "account": lab_account,
        "form": form,
        "effects": team_changes,
        "left": _names_losing_last_account(team_changes),
    }
    return render(request, "labs/allowlists/_effects.html", context)


def _account(account_id: UUID) -> LabAccount:
    return get_object_or_404(LabAccount, pk=account_id)


def _may_change(request: HttpRequest, lab_account: LabAccount) -> bool:
    return may(request.user, "lab_accounts.change") and not obstacle(lab_account)


def _form(request: HttpRequest, lab_account: LabAccount) -> TeamsForm:
    allowed_ids = allowed_team_ids(lab_account)
    return TeamsForm.from_request(
        request,
        listed=known_teams() | allowed_ids,
        our_team=mirror_team(),
        initial={"teams": [str(team) for team in allowed_ids]},
    )


def _names_losing_last_account(effects: Iterable[TeamEffect]) -> list[str]:
    return [effect.name for effect in effects if effect.loses_last_account]


def _page(
    request: HttpRequest, lab_account: LabAccount, form: TeamsForm | None, status: int = 200
) -> HttpResponse:
    allowed_ids, our_team = allowed_team_ids(lab_account), mirror_team()
    context: dict[str, object] = {
        "account": lab_account,
        "lab": lab_account.find_lab(),
        "billing": billing_by_state(lab_account),
        "teams": sort_teams(allowed_ids, our_team),
        "ours": our_team,
        "names": team_names(),
        "obstacle": obstacle(lab_account),
        "offers": [compare_tests(lab_account), compare_markers(lab_account)],
        "named": MAX_NAMED,
    }
    if form is not None:
        target = form.target()
        saw = form.cleaned_data.get("expected", allowed_ids) if form.is_bound else allowed_ids
        team_changes = team_effects(lab_account, target)
        context |= {
            "form": form,
            "chips": [
                {
                    "team": team,
                    "ours": team == our_team,
                    "there": team in allowed_ids,
                    "on": team in target,
                }
                for team in sort_teams(known_teams() | allowed_ids | target, our_team)
            ],
            "effects": team_changes,
            "left": _names_losing_last_account(team_changes),
            "sides": compare_three_lists(saw, allowed_ids, target) if saw != allowed_ids else [],
        }
        form.show(expected=allowed_ids, looked_at=target)
    return render(request, "labs/account.html", context, status=status)
