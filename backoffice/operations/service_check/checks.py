"""Checks of address, keys, team, clocks and limits of the service: one class for each line."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from backoffice.core import duration_metrics, service_team
from backoffice.operations.service_check.answers import NOT_ACCEPTED, ServiceAnswers, describe
from backoffice.operations.service_check.findings import Check, CheckFinding
from backoffice.operations.status import format_duration
from backoffice.operations.sync_watch import MAX_CLOCK_OFFSET
from backoffice.service import RecordPage, errors
from backoffice.sync.models import Lookup, SyncRun

LIMITED: Final = errors.Limited.__name__
"""Beginning of the stored error of a sync run or lookup that was answered 429."""
ASK_LESS: Final = gettext_noop(
    "Sync less often (SYNC_ORDERS_SECONDS and similar settings), or ask the service for a higher"
    " limit."
)


class AddressCheck(Check):
    title = gettext_noop("Address")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        answer, url = answers.users_page, settings.SERVICE_BASE_URL
        if isinstance(answer, errors.Missing):
            return self.problem(
                gettext("A server answers at %(url)s, but it has no list of users (404).")
                % {"url": url},
                gettext(
                    "Set SERVICE_BASE_URL to the host of your environment and region, without a"
                    " path."
                ),
            )
        if isinstance(answer, errors.Redirected):
            return self.problem(
                gettext("%(url)s redirects to another address. The key is not sent there.")
                % {"url": url},
                gettext(
                    "Set SERVICE_BASE_URL to the address it redirects to, if that is the service's."
                ),
            )
        if isinstance(answer, errors.Malformed):
            return self.problem(
                gettext("The server at %(url)s is not the service: %(reason)s.")
                % {"url": url, "reason": describe(answer)},
                gettext(
                    "Set SERVICE_BASE_URL to the host of your environment and region. A proxy or a"
                    " gateway may be answering instead of the service."
                ),
            )
        if isinstance(answer, errors.Unreachable) and answer.status is None:
            return self.problem(
                gettext("The service at %(url)s does not answer: %(reason)s.")
                % {"url": url, "reason": describe(answer)},
                gettext(
                    "Check SERVICE_BASE_URL, the firewall of this machine, and whether the service"
                    " has an outage."
                ),
            )
        if isinstance(answer, errors.Unreachable):
            return self.problem(
                gettext("The service at %(url)s answers with an error: %(reason)s.")
                % {"url": url, "reason": describe(answer)},
                gettext(
                    "Wait a few minutes and check again. If the error continues, report it to the"
                    " service."
                ),
            )
        return self.ok(gettext("The service answers at %(url)s.") % {"url": url})


class KeyHeaderCheck(Check):
    title = gettext_noop("Key header")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        accepted_key, name = answers.accepted_key, settings.SERVICE_API_KEY_HEADER
        if accepted_key is not None and accepted_key.header == name:
            return self.ok(
                gettext("The service reads the key from the header %(name)s.") % {"name": name}
            )
        if accepted_key is not None:
            return self.problem(
                gettext(
                    "The service does not read the key from the header %(name)s. It accepts the key"
                    " in %(accepted)s."
                )
                % {"name": name, "accepted": accepted_key.header},
                gettext("Set SERVICE_API_KEY_HEADER=%(accepted)s and restart web and workers.")
                % {"accepted": accepted_key.header},
            )
        if isinstance(answers.users_page, errors.Denied):
            return self.unknown(
                gettext(
                    "The service refuses the key in %(name)s. It is unknown whether the service"
                    " reads that header."
                )
                % {"name": name},
                gettext(
                    "Compare SERVICE_API_KEY_HEADER with the name in your account documentation."
                ),
            )
        return self.unknown(gettext("The service gave no answer about the key."))


class TeamKeyCheck(Check):
    title = gettext_noop("Team key")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        if answers.accepted_key is not None:
            return self.ok(gettext("The service accepts the team key."))
        if isinstance(answers.users_page, errors.Denied):
            return self.problem(
                gettext("The service refuses the team key (%(status)s).")
                % {"status": answers.users_page.status},
                gettext(
                    "Set SERVICE_API_KEY to a valid key of your team, and check the key header"
                    " above. A key of another environment or region is refused, too."
                ),
            )
        return self.unknown(gettext("The service gave no answer about the key."))


class EnvironmentCheck(Check):
    """Check that settings and host name have the same environment and region.

    See errors and limits, chapters 4 and 5. The settings refuse a key of another environment when
    the process starts.
    """

    title = gettext_noop("Environment")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        host = urlsplit(settings.SERVICE_BASE_URL).hostname or ""
        labels = host.split(".")
        environment, region = settings.MANAGEMENT_ENV, settings.MANAGEMENT_REGION
        if labels[0] != "api":
            return self.ok(
                gettext(
                    "Key and settings are for %(environment)s, region %(region)s. The address does"
                    " not name its environment."
                )
                % {"environment": environment, "region": region}
            )
        host_environment = "sandbox" if "sandbox" in labels else "production"
        if host_environment != environment:
            return self.problem(
                gettext("The address is for %(host)s, but MANAGEMENT_ENV is %(environment)s.")
                % {"host": host_environment, "environment": environment},
                gettext(
                    "Set SERVICE_BASE_URL, SERVICE_API_KEY and MANAGEMENT_ENV for the same"
                    " environment."
                ),
            )
        regions = {"us", "eu"}.intersection(labels)
        if regions and region not in regions:
            return self.problem(
                gettext("The address is for region %(host)s, but MANAGEMENT_REGION is %(region)s.")
                % {"host": min(regions), "region": region},
                gettext(
                    "Set SERVICE_BASE_URL, SERVICE_API_KEY and MANAGEMENT_REGION for the same"
                    " region."
                ),
            )
        return self.ok(
            gettext("Key, settings and address are for %(environment)s, region %(region)s.")
            % {"environment": environment, "region": region}
        )


class TeamCheck(Check):
    title = gettext_noop("Team")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        key_team, our_team = answers.key_team, service_team.mirror_team()
        if not isinstance(key_team, service_team.KeyTeam):
            return self.unknown(
                gettext(NOT_ACCEPTED)
                if key_team is None
                else gettext("No team: %(reason)s.") % {"reason": describe(key_team)}
            )
        if our_team is None:
            if not key_team.team:
                return self.ok(
                    gettext("No record is here yet. The first sync remembers the key's team.")
                )
            return self.ok(
                gettext("No record is here yet. The first sync remembers the key's team %(team)s.")
                % {"team": key_team.team}
            )
        try:
            is_ours = service_team.is_our_key(key_team, our_team)
        except service_team.AnotherTeam as error:
            return self.problem(
                str(error),
                gettext(
                    "Set SERVICE_API_KEY to a key of team %(team)s. To move to the other team on"
                    " purpose, run manage.py adoptteam."
                )
                % {"team": our_team},
            )
        if is_ours:
            return self.ok(
                gettext("The key belongs to team %(team)s, as do the records here.")
                % {"team": our_team}
            )
        return self.unknown(
            gettext("The service shows no record yet that names its team. Ours is %(team)s.")
            % {"team": our_team}
        )


class ManagementKeyCheck(Check):
    title = gettext_noop("Management key")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        answer, name = answers.lab_accounts_page, settings.MANAGEMENT_KEY_HEADER
        if answer is None:
            return self.unknown(
                gettext(
                    "No management key is set. Lab accounts of the organization and webhook"
                    " endpoints are managed at the service."
                ),
                gettext(
                    "If your organization has a key, set MANAGEMENT_KEY and MANAGEMENT_ORG_ID."
                ),
            )
        management_key = answers.management_key
        if management_key is not None and management_key.header != name:
            return self.problem(
                gettext(
                    "The service does not read the management key from the header %(name)s. It"
                    " accepts the key in %(accepted)s."
                )
                % {"name": name, "accepted": management_key.header},
                gettext("Set MANAGEMENT_KEY_HEADER=%(accepted)s and restart web and workers.")
                % {"accepted": management_key.header},
            )
        if management_key is not None:
            return self.ok(gettext("The service accepts the management key for this organization."))
        assert not isinstance(answer, RecordPage)
        if isinstance(answer, errors.Denied) and answer.status == 401:
            return self.problem(
                gettext("The service refuses the management key (401)."),
                gettext(
                    "Set MANAGEMENT_KEY to a valid key of your organization, and compare"
                    " MANAGEMENT_KEY_HEADER with your account documentation."
                ),
            )
        if isinstance(answer, errors.Refused | errors.Missing):
            return self.problem(
                gettext("The service refuses the management key for this organization: %(reason)s.")
                % {"reason": describe(answer)},
                gettext(
                    "Compare MANAGEMENT_ORG_ID, MANAGEMENT_ENV, MANAGEMENT_REGION and"
                    " MANAGEMENT_BASE_URL with your account documentation."
                ),
            )
        if isinstance(answer, errors.Limited):
            return self.unknown(gettext("The service asks us to wait before the next call (429)."))
        return self.problem(
            gettext("%(url)s does not answer as the management API: %(reason)s.")
            % {"url": settings.MANAGEMENT_BASE_URL, "reason": describe(answer)},
            gettext("Check MANAGEMENT_BASE_URL and the firewall of this machine."),
        )


class ClockCheck(Check):
    """Compare the clocks. The service's is the Date header of its answers, in whole seconds."""

    title = gettext_noop("Clocks")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        if answers.accepted_key is None:
            return self.unknown(gettext("The service has not shown its time."))
        page = answers.accepted_key.page
        if page.server_date is None:
            return self.unknown(gettext("The answers of the service have no time."))
        ahead = (page.server_date - page.asked_at).total_seconds()
        if abs(ahead) <= MAX_CLOCK_OFFSET:
            return self.ok(gettext("The service's clock and ours agree within a minute."))
        words = (
            gettext("The service's clock is %(duration)s ahead of ours.")
            if ahead > 0
            else gettext("The service's clock is %(duration)s behind ours.")
        )
        return self.problem(
            words % {"duration": format_duration(abs(ahead))},
            gettext(
                "Compare the clock of this machine with a time server (timedatectl). If ours is"
                " right, report it to the service. With a difference of more than 5 minutes,"
                " webhook deliveries are refused."
            ),
        )


class RateLimitCheck(Check):
    """Check whether the service has limited our calls.

    The service documents neither a number nor a header (errors and limits, chapter 3). So the check
    looks for answers with status 429: to its own calls, or to a sync run or lookup that waits.
    """

    title = gettext_noop("Rate limit")

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        if answers.limited:
            wait = max(error.retry_after for error in answers.limited)
            return self.problem(
                gettext(
                    "The service just answered that it gets too many requests (429): wait"
                    " %(duration)s."
                )
                % {"duration": format_duration(wait)},
                gettext(ASK_LESS),
            )
        runs = SyncRun.objects.filter(state=SyncRun.State.DUE, error__startswith=LIMITED)
        lookups = Lookup.objects.exclude(error="").filter(error__startswith=LIMITED)
        if runs.exists() or lookups.filter(due_at__isnull=False).exists():
            return self.problem(
                gettext(
                    "Lists or single records are waiting because the service got too many requests"
                    " (429)."
                ),
                gettext(ASK_LESS),
            )
        duration_metrics.flush()
        try:
            calls = [
                series
                for series in duration_metrics.read_series()
                if series.family == duration_metrics.CALLS
            ]
        except redis.RedisError:
            return self.ok(
                gettext("Nothing is waiting because of it. Without Redis, calls are not counted.")
            )
        total = sum(series.counts[-1] for series in calls)
        limited = sum(series.counts[-1] for series in calls if series.labels[1] == "429")
        return self.ok(
            gettext(
                "Nothing is waiting because of it. %(limited)s of %(total)s calls so far were over"
                " the limit (429)."
            )
            % {"limited": f"{limited:,}", "total": f"{total:,}"}
        )
