"""Webhook endpoints at the service: create, switch, delete, rotate the secret, show the secret.

These pages require recent authentication, because a person with a secret can forge deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import requires
from backoffice.accounts.recent_authentication import require_recent_authentication
from backoffice.audit.recording import record_entry
from backoffice.core import service_team
from backoffice.operations.service_check.answers import ServiceAnswers, describe
from backoffice.operations.service_check.endpoint_forms import NewEndpointForm, SwitchForm
from backoffice.operations.service_check.views.check import PAGE_SECONDS
from backoffice.operations.service_check.webhooks import ListedEndpoint, listed_endpoints
from backoffice.outbox.command import Command
from backoffice.outbox.forms import CommandForm
from backoffice.service import Record, errors
from webhooks.commands import CreateEndpoint, DeleteEndpoint, RotateSecret, SwitchEndpoint

METHODS: Final = ("GET", "HEAD", "POST")
NOT_LISTED: Final = gettext_noop("The service does not list this webhook endpoint.")
UNKNOWN: Final = gettext_noop(
    "The service does not list webhook endpoints right now. The check below shows why."
)
NO_TEAM: Final = gettext_noop(
    "Our team at the service is not known yet: no record here or at the service names it."
)


@requires("service.check")
@require_recent_authentication
@require_http_methods(METHODS)
def new(request: HttpRequest) -> HttpResponseBase:
    """Have the service deliver events to this installation."""
    form = NewEndpointForm.from_request(request)

    def command(team: UUID) -> Command:
        return CreateEndpoint(team_id=team, url=form.cleaned_data["url"])

    return _enqueue(request, form, command, "operations/endpoint_new.html", {})


@requires("service.check")
@require_recent_authentication
@require_http_methods(METHODS)
def rotate(request: HttpRequest, endpoint_id: str) -> HttpResponseBase:
    """Have the service sign with a new secret."""

    def command(team: UUID) -> Command:
        return RotateSecret(team_id=team, endpoint_id=endpoint_id)

    template, context = "operations/endpoint_rotate.html", {"endpoint_id": endpoint_id}
    return _enqueue(request, CommandForm.from_request(request), command, template, context)


@requires("service.check")
@require_recent_authentication
@require_http_methods(METHODS)
def switch(request: HttpRequest, endpoint_id: str) -> HttpResponseBase:
    """Have the service stop or resume deliveries to an endpoint."""
    endpoints = _listed()
    listed = _endpoint_with_id(endpoints, endpoint_id)
    if endpoints is None or listed is None:
        return _not_listed(request, endpoints)
    form = SwitchForm.from_request(
        request, initial={"to": "on" if listed.endpoint.disabled else "off"}
    )

    def command(team: UUID) -> Command:
        is_off = form.cleaned_data["to"] == "off"
        return SwitchEndpoint(team_id=team, endpoint_id=endpoint_id, disabled=is_off)

    context = {"one": listed, "is_last": _is_last(listed, endpoints)}
    return _enqueue(request, form, command, "operations/endpoint_switch.html", context)


@requires("service.check")
@require_recent_authentication
@require_http_methods(METHODS)
def delete(request: HttpRequest, endpoint_id: str) -> HttpResponseBase:
    """Have the service delete an endpoint."""
    endpoints = _listed()
    listed = _endpoint_with_id(endpoints, endpoint_id)
    if endpoints is None or listed is None:
        return _not_listed(request, endpoints)

    def command(team: UUID) -> Command:
        return DeleteEndpoint(team_id=team, endpoint_id=endpoint_id)

    context = {"one": listed, "is_last": _is_last(listed, endpoints)}
    form = CommandForm.from_request(request)
    return _enqueue(request, form, command, "operations/endpoint_delete.html", context)


@requires("service.check")
@require_recent_authentication
@require_safe
def secret(request: HttpRequest, endpoint_id: str) -> HttpResponseBase:
    """Show the secret with which deliveries to an endpoint are signed now."""
    team = _team()
    if team is None:
        messages.warning(request, gettext(NO_TEAM))
        return redirect("operations:service-check")
    record_entry(request, "view", "webhook secret", ids=[endpoint_id])
    with ServiceAnswers(PAGE_SECONDS) as answers:
        management_key = answers.management_key
        if management_key is None:
            messages.warning(request, gettext("The service does not accept our management key."))
            return redirect("operations:service-check")
        answer = answers.attempt(
            lambda: management_key.client.management.webhook_secret(team, endpoint_id)
        )
    if not isinstance(answer, Record):
        words = gettext("The service does not show the secret: %(reason)s.")
        messages.warning(request, words % {"reason": describe(answer)})
        return redirect("operations:service-check")
    context = {"endpoint_id": endpoint_id, "secret": answer.data.key, "name": answer.data.name}
    return render(request, "operations/endpoint_secret.html", context)


def _enqueue(
    request: HttpRequest,
    form: CommandForm,
    command: Callable[[UUID], Command],
    template: str,
    context: Mapping[str, object],
) -> HttpResponse:
    """Enqueue the command for our team and redirect to it; else show the form with its errors."""
    if request.method == "POST" and form.is_valid():
        team = _team()
        if team is None:
            form.add_error(None, gettext(NO_TEAM))
        elif (row := form.enqueue(request, command(team))) is not None:
            return redirect("commands:detail", row.pk)
    status = 422 if request.method == "POST" else 200
    return render(request, template, {**context, "form": form}, status=status)


def _team() -> UUID | None:
    """Return the team stored in this installation, else the team of the key; None if unknown."""
    remembered = service_team.mirror_team()
    if remembered is not None:
        return remembered
    with ServiceAnswers(PAGE_SECONDS) as answers:
        return answers.team


def _listed() -> list[ListedEndpoint] | None:
    """Return all endpoints of the team; None if the service does not list them now."""
    with ServiceAnswers(PAGE_SECONDS) as answers:
        if answers.endpoints is None or isinstance(answers.endpoints, errors.ServiceError):
            return None
        return listed_endpoints(answers)


def _endpoint_with_id(
    endpoints: list[ListedEndpoint] | None, endpoint_id: str
) -> ListedEndpoint | None:
    return next((row for row in endpoints or () if row.endpoint.id == endpoint_id), None)


def _is_last(listed: ListedEndpoint, endpoints: list[ListedEndpoint]) -> bool:
    """Return whether no event would arrive here without this endpoint."""
    others = [other for other in endpoints if other is not listed]
    return (
        listed.is_ours
        and not listed.endpoint.disabled
        and not any(other.is_ours and not other.endpoint.disabled for other in others)
    )


def _not_listed(request: HttpRequest, endpoints: list[ListedEndpoint] | None) -> HttpResponse:
    messages.warning(request, gettext(UNKNOWN if endpoints is None else NOT_LISTED))
    return redirect("operations:service-check")
