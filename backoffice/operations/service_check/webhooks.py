"""Checks of webhook delivery: the endpoint at the service, its secret, and a test event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.http.request import validate_host
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop, ngettext

from backoffice.core import service_team
from backoffice.operations.service_check.answers import NOT_ACCEPTED, ServiceAnswers, describe
from backoffice.operations.service_check.findings import Check, CheckFinding
from backoffice.operations.status import format_duration
from backoffice.service import Record, errors, signing
from backoffice.service.management import Webhook
from orders.models import Order
from webhooks.models import Event, Refusal
from webhooks.routes import ROUTES
from webhooks.silence import UNANNOUNCED_STATUSES

WAIT_SECONDS: Final = 30.0
"""Seconds until a test event that has not arrived counts as lost."""
NO_KEY: Final = gettext_noop(
    "The service lists its endpoints only with an accepted management key, and there is none."
)
FIX_SECRETS: Final = gettext_noop(
    "Set WEBHOOK_SECRETS to the endpoint's secret, as the service shows it, and restart web."
)
_HEADERS: Final = (signing.Unsigned.reason, "misshapen id", "misshapen timestamp")


def address() -> str:
    """Return the URL for deliveries: at SITE_URL, or at the first of ALLOWED_HOSTS.

    The second is used if the host of SITE_URL is not in ALLOWED_HOSTS.
    """
    site = settings.SITE_URL
    if not validate_host(urlsplit(site).hostname or "", settings.ALLOWED_HOSTS):
        site = f"https://{settings.ALLOWED_HOSTS[0].lstrip('.')}"
    return f"{site}{reverse('webhooks')}"


def is_here(url: str) -> bool:
    """Return whether a URL has a host in ALLOWED_HOSTS and the path where events are received."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_path = f"{parts.path.rstrip('/')}/" == reverse("webhooks")
    return is_path and validate_host(parts.hostname or "", settings.ALLOWED_HOSTS)


def endpoint_of(endpoints: Sequence[Webhook]) -> Webhook | None:
    """Return an endpoint with a URL of this installation, preferably one that is turned on."""
    own_endpoints = [endpoint for endpoint in endpoints if is_here(endpoint.url)]
    return min(own_endpoints, key=lambda endpoint: bool(endpoint.disabled), default=None)


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """An endpoint of the team, and whether its URL belongs to this installation."""

    endpoint: Webhook
    is_ours: bool


def listed_endpoints(answers: ServiceAnswers) -> list[ListedEndpoint]:
    """Return the team's endpoints at the service; empty if the service does not list them."""
    answer = answers.endpoints
    if answer is None or isinstance(answer, errors.ServiceError):
        return []
    return [ListedEndpoint(endpoint, is_here(endpoint.url)) for endpoint in answer]


class EndpointCheck(Check):
    title = gettext_noop("Webhook endpoint")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        endpoints = answers.endpoints
        if endpoints is None:
            return self.unknown(
                gettext(NO_KEY),
                gettext("At the service, the endpoint must be %(address)s")
                % {"address": address()},
            )
        if isinstance(endpoints, errors.ServiceError):
            return self.unknown(
                gettext("The service does not list its endpoints: %(reason)s.")
                % {"reason": describe(endpoints)}
            )
        endpoint = endpoint_of(endpoints)
        if endpoint is None:
            return self.problem(
                _none_here(len(endpoints)),
                gettext("Create one at the service for %(address)s") % {"address": address()},
            )
        if endpoint.disabled:
            return self.problem(
                gettext(
                    "The endpoint %(url)s is turned off at the service. This happens after five"
                    " days of failed deliveries."
                )
                % {"url": endpoint.url},
                gettext(
                    "Make sure that this address can be reached from outside, then turn the"
                    " endpoint on below."
                ),
            )
        if settings.HTTPS_ONLY and not endpoint.url.startswith("https://"):
            return self.problem(
                gettext("The endpoint %(url)s is not HTTPS. Its deliveries are refused here.")
                % {"url": endpoint.url},
                gettext("Change it at the service to %(address)s") % {"address": address()},
            )
        used = {name for name, route in ROUTES.items() if route.handler}
        missing = sorted(used.difference(endpoint.filter_types or used))
        if missing:
            return self.problem(
                ngettext(
                    "The endpoint %(url)s leaves out %(count)s event type that is used here:"
                    " %(example)s.",
                    "The endpoint %(url)s leaves out %(count)s event types that are used here,"
                    " such as %(example)s.",
                    len(missing),
                )
                % {"url": endpoint.url, "count": len(missing), "example": missing[0]},
                gettext("Remove the filter of event types from the endpoint at the service."),
            )
        return self.ok(gettext("The service delivers to %(url)s") % {"url": endpoint.url})


def _none_here(elsewhere: int) -> str:
    if not elsewhere:
        return gettext("The service has no webhook endpoint that points here.")
    words = ngettext(
        "The service has no webhook endpoint that points here. %(count)s points elsewhere.",
        "The service has no webhook endpoint that points here. %(count)s point elsewhere.",
        elsewhere,
    )
    return words % {"count": elsewhere}


class SecretCheck(Check):
    """Compare the secrets. They are never shown; the event log uses the same names for them."""

    title = gettext_noop("Webhook secret")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        endpoints, management_key, team = (
            answers.endpoints,
            answers.management_key,
            answers.team,
        )
        if endpoints is None or management_key is None or team is None:
            return self.unknown(
                gettext(NO_KEY), gettext("The test event below shows whether the secret is right.")
            )
        endpoint = None if isinstance(endpoints, errors.ServiceError) else endpoint_of(endpoints)
        if endpoint is None:
            return self.unknown(gettext("There is no endpoint whose secret could be compared."))
        key = endpoint.id
        answer = answers.attempt(lambda: management_key.client.management.webhook_secret(team, key))
        if not isinstance(answer, Record):
            return self.unknown(
                gettext("The service does not show the secret: %(reason)s.")
                % {"reason": describe(answer)}
            )
        endpoint_secret = answer.data.name
        if not endpoint_secret:
            return self.unknown(
                gettext("The service shows a secret in a format that this release does not know.")
            )
        secret_names = [secret.name for secret in signing.read_secrets(settings.WEBHOOK_SECRETS)]
        if endpoint_secret in secret_names:
            return self.ok(
                gettext("The endpoint signs with secret %(secret)s, which is set here.")
                % {"secret": endpoint_secret}
            )
        return self.problem(
            gettext(
                "The endpoint signs with secret %(secret)s, but WEBHOOK_SECRETS has %(set_here)s."
                " Every delivery is refused."
            )
            % {"secret": endpoint_secret, "set_here": ", ".join(secret_names)},
            gettext(
                "Set WEBHOOK_SECRETS to the endpoint's secret, as the service shows it, and restart"
                " web. While a secret is being rotated, set both, separated by a comma."
            ),
        )


@dataclass(frozen=True, slots=True)
class ResentEvent:
    """The latest event of an order, requested again. `asked_at` is by the database's clock."""

    order_id: UUID
    asked_at: datetime


class CannotSend(Exception):
    """No test event was requested. The text is the reason."""


def order_to_resend() -> Order | None:
    """Return the order for the test event, the one that changed last; None if there is none."""
    team = service_team.mirror_team()
    if team is None:
        return None
    orders = Order.objects.filter(team_id=team, missing_since=None)
    announced = orders.exclude(low_level_status__in=UNANNOUNCED_STATUSES)
    return announced.order_by("-updated_at", "-pk").only("pk", "user_id").first()


def resend_event(answers: ServiceAnswers, order: Order | None) -> ResentEvent:
    """Have the service deliver the latest event of an order again (orders.md 11).

    This changes nothing at the service or in the mirror. Raises CannotSend.
    """
    if order is None:
        raise CannotSend(gettext("There is no order yet whose event could be sent again."))
    if answers.accepted_key is None:
        words = gettext("%(problem)s No event can be requested.")
        raise CannotSend(words % {"problem": describe_key_error(answers)})
    client, order_id = answers.accepted_key.client, order.pk
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (asked_at,) = cursor.fetchone()
    answer = answers.attempt(lambda: client.orders.resend_events([order_id]))
    if isinstance(answer, errors.ServiceError):
        words = gettext("The service did not send an event again: %(reason)s.")
        raise CannotSend(words % {"reason": describe(answer)})
    if order_id not in answer.data.order_ids:
        raise CannotSend(
            gettext("The service did not send an event again: it has no endpoint that takes it.")
        )
    return ResentEvent(order_id, asked_at)


def describe_key_error(answers: ServiceAnswers) -> str:
    answer = answers.users_page
    if isinstance(answer, errors.Denied) or not isinstance(answer, errors.ServiceError):
        return gettext(NOT_ACCEPTED)
    return gettext("The service does not answer: %(reason)s.") % {"reason": describe(answer)}


class DeliveryCheck(Check):
    """Check whether the test event has arrived.

    `sent` is the event that was requested. `why_not` is the reason why none was.
    """

    title = gettext_noop("Test event")

    def __init__(self, sent: ResentEvent | None = None, why_not: str = "") -> None:
        self.sent, self.why_not = sent, why_not

    def run(self, answers: ServiceAnswers | None = None) -> CheckFinding:
        sent = self.sent
        if sent is None:
            return self.unknown(
                self.why_not or gettext("No test event was sent."),
                "" if self.why_not else gettext("Send one and see whether it arrives."),
            )
        events = Event.objects.filter(
            subject_id=str(sent.order_id), last_received_at__gte=sent.asked_at
        )
        arrived = events.order_by("-pk").values_list("last_received_at", "key_id").first()
        if arrived is not None:
            seconds = max(0.0, (arrived[0] - sent.asked_at).total_seconds())
            return self.ok(
                gettext("A test event arrived after %(seconds)s s, signed with secret %(secret)s.")
                % {"seconds": f"{seconds:.1f}", "secret": arrived[1]}
            )
        refused = Refusal.objects.filter(last_at__gte=sent.asked_at).order_by("-last_at").first()
        if refused is not None:
            return self._refused(refused)
        waited = _seconds_since(sent.asked_at)
        if waited < WAIT_SECONDS:
            return self.unknown(
                gettext("Waiting for %(seconds)s s so far.") % {"seconds": f"{waited:.0f}"},
                is_pending=True,
            )
        return self.problem(
            gettext("No delivery arrived within %(duration)s.")
            % {"duration": format_duration(WAIT_SECONDS)},
            gettext(
                "Check that the endpoint at the service is %(address)s and turned on, that this"
                " address can be reached from outside without a redirect and with a publicly"
                " trusted certificate, and that web is running."
            )
            % {"address": address()},
        )

    def _refused(self, refusal: Refusal) -> CheckFinding:
        words = gettext("A delivery arrived and was refused: %(reason)s.") % {
            "reason": gettext(refusal.reason)
        }
        if refusal.reason == signing.Forged.reason:
            return self.problem(words, gettext(FIX_SECRETS))
        if refusal.reason == signing.Stale.reason:
            return self.problem(
                words, gettext("Sync the clock of this machine with a time server (timedatectl).")
            )
        if refusal.reason in _HEADERS:
            return self.problem(
                words,
                gettext(
                    "Compare WEBHOOK_HEADER_PREFIXES with the names of the headers that the service"
                    " sends, and have the proxy pass them on."
                ),
            )
        return self.problem(words, gettext("See the log of web at the same time."))


def _seconds_since(moment: datetime) -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp() - %s)", [moment])
        return float(cursor.fetchone()[0])
