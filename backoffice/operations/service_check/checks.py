"""Checks of address, keys, team, clocks and limits of the service: one class for each line."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import redis
from django.conf import settings

from backoffice.core import duration_metrics, service_team
from backoffice.operations.service_check.answers import NOT_ACCEPTED, ServiceAnswers, describe
from backoffice.operations.service_check.findings import Check, CheckFinding
from backoffice.operations.status import format_duration
from backoffice.operations.sync_watch import MAX_CLOCK_OFFSET
from backoffice.service import RecordPage, errors
from backoffice.sync.models import Lookup, SyncRun

LIMITED: Final = errors.Limited.__name__
"""Beginning of the stored error of a sync run or lookup that was answered 429."""
ASK_LESS: Final = (
    "Ask less often (SYNC_ORDERS_SECONDS and the other settings of this kind), or ask the service"
    " for a higher limit."
)


class AddressCheck(Check):
    title = "Address"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        answer, url = answers.users_page, settings.SERVICE_BASE_URL
        if isinstance(answer, errors.Missing):
            return self.problem(
                f"Something answers at {url}, and it has no list of users (404).",
                "Set SERVICE_BASE_URL to the host of your environment and region, without a path.",
            )
        if isinstance(answer, errors.Redirected):
            return self.problem(
                f"{url} redirects to another address, and the key does not follow.",
                "Set SERVICE_BASE_URL to the address it redirects to, if that is the service's.",
            )
        if isinstance(answer, errors.Malformed):
            return self.problem(
                f"What answers at {url} is not the service: {describe(answer)}.",
                "Set SERVICE_BASE_URL to the host of your environment and region. A proxy or a"
                " gateway in between may answer in its place.",
            )
        if isinstance(answer, errors.Unreachable) and answer.status is None:
            return self.problem(
                f"The service at {url} does not answer: {describe(answer)}.",
                "Check SERVICE_BASE_URL, the firewall of this machine, and whether the service has"
                " an outage.",
            )
        if isinstance(answer, errors.Unreachable):
            return self.problem(
                f"The service at {url} answers with an error: {describe(answer)}.",
                "Wait a few minutes and check again. If it stays, report it to the service.",
            )
        return self.ok(f"The service answers at {url}.")


class KeyHeaderCheck(Check):
    title = "Key header"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        accepted_key, name = answers.accepted_key, settings.SERVICE_API_KEY_HEADER
        if accepted_key is not None and accepted_key.header == name:
            return self.ok(f"The service reads the key from the header {name}.")
        if accepted_key is not None:
            return self.problem(
                f"The service does not read the key from the header {name}. It accepts it in"
                f" {accepted_key.header}.",
                f"Set SERVICE_API_KEY_HEADER={accepted_key.header} and restart web and workers.",
            )
        if isinstance(answers.users_page, errors.Denied):
            return self.unknown(
                f"The service refuses the key in {name}; whether it reads that header is not said.",
                "Compare SERVICE_API_KEY_HEADER with the name in your account documentation.",
            )
        return self.unknown("The service gave no answer about the key.")


class TeamKeyCheck(Check):
    title = "Team key"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        if answers.accepted_key is not None:
            return self.ok("The service accepts the team key.")
        if isinstance(answers.users_page, errors.Denied):
            return self.problem(
                f"The service refuses the team key ({answers.users_page.status}).",
                "Set SERVICE_API_KEY to a valid key of your team, and check the key header above."
                " A key of another environment or region is refused, too.",
            )
        return self.unknown("The service gave no answer about the key.")


class EnvironmentCheck(Check):
    """Check that settings and host name have the same environment and region.

    See errors and limits, chapters 4 and 5. The settings refuse a key of another environment when
    the process starts.
    """

    title = "Environment"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        host = urlsplit(settings.SERVICE_BASE_URL).hostname or ""
        labels = host.split(".")
        environment, region = settings.MANAGEMENT_ENV, settings.MANAGEMENT_REGION
        if labels[0] != "api":
            return self.ok(
                f"Key and settings are of {environment}, region {region}. The address does not name"
                " its environment."
            )
        host_environment = "sandbox" if "sandbox" in labels else "production"
        if host_environment != environment:
            return self.problem(
                f"The address is of {host_environment}, and MANAGEMENT_ENV is {environment}.",
                "Set SERVICE_BASE_URL, SERVICE_API_KEY and MANAGEMENT_ENV to those of one"
                " environment.",
            )
        regions = {"us", "eu"}.intersection(labels)
        if regions and region not in regions:
            return self.problem(
                f"The address is of region {min(regions)}, and MANAGEMENT_REGION is {region}.",
                "Set SERVICE_BASE_URL, SERVICE_API_KEY and MANAGEMENT_REGION to those of one"
                " region.",
            )
        return self.ok(f"Key, settings and address are of {environment}, region {region}.")


class TeamCheck(Check):
    title = "Team"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        key_team, our_team = answers.key_team, service_team.mirror_team()
        if not isinstance(key_team, service_team.KeyTeam):
            return self.unknown(
                NOT_ACCEPTED if key_team is None else f"No team: {describe(key_team)}."
            )
        if our_team is None:
            named = f" {key_team.team}" if key_team.team else ""
            return self.ok(
                f"No record is here yet. The first sync remembers the key's team{named}."
            )
        try:
            is_ours = service_team.is_our_key(key_team, our_team)
        except service_team.AnotherTeam as error:
            return self.problem(
                str(error),
                f"Set SERVICE_API_KEY to a key of team {our_team}. For a wanted move to the other"
                " team: manage.py adoptteam.",
            )
        if is_ours:
            return self.ok(f"The key is of team {our_team}, as the records here are.")
        return self.unknown(
            f"The service shows no record yet that names its team; ours is {our_team}."
        )


class ManagementKeyCheck(Check):
    title = "Management key"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        answer, name = answers.lab_accounts_page, settings.MANAGEMENT_KEY_HEADER
        if answer is None:
            return self.unknown(
                "No management key is set. Lab accounts of the organization and webhook endpoints"
                " are managed at the service.",
                "If your organization has a key, set MANAGEMENT_KEY and MANAGEMENT_ORG_ID.",
            )
        management_key = answers.management_key
        if management_key is not None and management_key.header != name:
            return self.problem(
                f"The service does not read the management key from the header {name}. It accepts"
                f" it in {management_key.header}.",
                f"Set MANAGEMENT_KEY_HEADER={management_key.header} and restart web and workers.",
            )
        if management_key is not None:
            return self.ok("The service accepts the management key for this organization.")
        assert not isinstance(answer, RecordPage)
        if isinstance(answer, errors.Denied) and answer.status == 401:
            return self.problem(
                "The service refuses the management key (401).",
                "Set MANAGEMENT_KEY to a valid key of your organization, and compare"
                " MANAGEMENT_KEY_HEADER with your account documentation.",
            )
        if isinstance(answer, errors.Refused | errors.Missing):
            return self.problem(
                "The service refuses the management key for this organization:"
                f" {describe(answer)}.",
                "Compare MANAGEMENT_ORG_ID, MANAGEMENT_ENV, MANAGEMENT_REGION and"
                " MANAGEMENT_BASE_URL with your account documentation.",
            )
        if isinstance(answer, errors.Limited):
            return self.unknown("The service asks us to wait before the next call (429).")
        return self.problem(
            f"{settings.MANAGEMENT_BASE_URL} does not answer as the management interface:"
            f" {describe(answer)}.",
            "Check MANAGEMENT_BASE_URL, and the firewall of this machine.",
        )


class ClockCheck(Check):
    """Compare the clocks. The service's is the Date header of its answers, in whole seconds."""

    title = "Clocks"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        if answers.accepted_key is None:
            return self.unknown("The service has not shown its time.")
        page = answers.accepted_key.page
        if page.server_date is None:
            return self.unknown("The answers of the service carry no time.")
        ahead = (page.server_date - page.asked_at).total_seconds()
        if abs(ahead) <= MAX_CLOCK_OFFSET:
            return self.ok("The service's clock and ours agree within a minute.")
        way = "ahead of" if ahead > 0 else "behind"
        return self.problem(
            f"The service's clock is {format_duration(abs(ahead))} {way} ours.",
            "Compare the clock of this machine with a time server (timedatectl). If ours is right,"
            " report it to the service. Beyond 5 minutes, deliveries of webhooks are refused.",
        )


class RateLimitCheck(Check):
    """Check whether the service has limited our calls.

    The service documents neither a number nor a header (errors and limits, chapter 3). So the check
    looks for answers with status 429: to its own calls, or to a sync run or lookup that waits.
    """

    title = "Rate limit"

    def run(self, answers: ServiceAnswers) -> CheckFinding:
        if answers.limited:
            wait = max(error.retry_after for error in answers.limited)
            return self.problem(
                f"The service answered just now that it is asked too often (429): wait"
                f" {format_duration(wait)}.",
                ASK_LESS,
            )
        runs = SyncRun.objects.filter(state=SyncRun.State.DUE, error__startswith=LIMITED)
        lookups = Lookup.objects.exclude(error="").filter(error__startswith=LIMITED)
        if runs.exists() or lookups.filter(due_at__isnull=False).exists():
            return self.problem(
                "Lists or single records wait, since the service was asked too often (429).",
                ASK_LESS,
            )
        duration_metrics.flush()
        try:
            calls = [
                series
                for series in duration_metrics.read_series()
                if series.family == duration_metrics.CALLS
            ]
        except redis.RedisError:
            return self.ok("Nothing waits for it. Calls so far are not counted without Redis.")
        total = sum(series.counts[-1] for series in calls)
        limited = sum(series.counts[-1] for series in calls if series.labels[1] == "429")
        return self.ok(
            f"Nothing waits for it. {limited:,} of {total:,} calls so far were too many (429)."
        )
