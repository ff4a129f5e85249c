"""`manage.py sync [--full] [RESOURCE…]`: update the mirror, in the foreground."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db.models.functions import Now
from django.utils import timezone

import labs.sync
import orders.sync
import patients.sync
import patients.wearables.sync
from backoffice.core import service_team
from backoffice.operations.outage_messages import reporting
from backoffice.service import errors
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import SyncedList, request_run, work_on_run

SYNCED_LISTS = (
    *patients.sync.SYNCED_LISTS,
    *labs.sync.SYNCED_LISTS,
    *orders.sync.SYNCED_LISTS,
    *patients.wearables.sync.SYNCED_LISTS,
)
LOOKUP_TYPES = (*patients.sync.LOOKUP_TYPES, *labs.sync.LOOKUP_TYPES, *orders.sync.LOOKUP_TYPES)
ATTEMPTS = 8
WAIT = 1.0
LOOKED_UP = "look-ups"


class Command(BaseCommand):
    help = "Sync changes from the service, or everything with --full. Default: all lists."
    requires_system_checks: tuple[str, ...] = ()
    """No system checks: they take a second, twice as long as a start without them. `./run check`
    runs them."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        # Django adds this option only to commands that require checks, but scripts may pass it.
        parser.add_argument("--skip-checks", action="store_true", help=SUPPRESS)
        parser.add_argument(
            "--full", action="store_true", help="read everything, with every detail"
        )
        names = sorted({synced_list.resource for synced_list in SYNCED_LISTS} | {LOOKED_UP})
        parser.add_argument("resources", nargs="*", metavar="RESOURCE", help=", ".join(names))

    def handle(self, *args: Any, full: bool, resources: list[str], **options: Any) -> None:
        names = {synced_list.resource for synced_list in SYNCED_LISTS} | {LOOKED_UP}
        if unknown := set(resources) - names:
            listed = ", ".join(sorted(names))
            raise CommandError(f"no such resource: {', '.join(sorted(unknown))} (known: {listed})")
        with warnings_only(), reporting(self.stderr.write):
            self._sync(full, resources)

    def _sync(self, full: bool, resources: list[str]) -> None:
        chosen = self._select_lists(full, resources)
        self._check_team(chosen or list(SYNCED_LISTS))
        for synced_list in chosen:
            self._read_list(synced_list)
        if not resources or LOOKED_UP in resources:
            self._look_up(full)

    def _select_lists(self, full: bool, resources: list[str]) -> list[SyncedList]:
        return [
            synced_list
            for synced_list in SYNCED_LISTS
            if not resources or synced_list.resource in resources
            if synced_list.resource != "orders" or synced_list.full == self._reads_all_orders(full)
        ]

    @staticmethod
    def _check_team(synced_lists: list[SyncedList]) -> None:
        """Raise CommandError if the key belongs to another team.

        A sync run with this error is left in the database, so that the status shows it.
        """
        try:
            service_team.verified_service()
        except service_team.AnotherTeam as error:
            request_run(synced_lists[0])
            work_on_run(synced_lists[0])
            raise CommandError(str(error)) from None
        except errors.ServiceError:
            pass  # The first sync run gets the same error and reports it.

    @staticmethod
    def _reads_all_orders(full: bool) -> bool:
        """Return whether to read all orders. The first sync always does: it has no window yet."""
        return (
            full
            or not SyncRun.objects.filter(
                resource="orders", full=True, state=SyncRun.State.DONE
            ).exists()
        )

    def _read_list(self, synced_list: SyncedList) -> None:
        run = request_run(synced_list) or self._open_run(synced_list)
        bar = Bar(self.stdout, synced_list.resource)
        failures = 0
        while run.state in (SyncRun.State.DUE, SyncRun.State.RUNNING):
            is_ours = work_on_run(
                synced_list, progress=lambda now: bar.show(now.fetched, now.total)
            )
            run.refresh_from_db()
            if run.state == SyncRun.State.DUE and run.error:
                failures += 1 if is_ours else 0
                another_team = run.error.startswith(service_team.ANOTHER_TEAM)
                if failures >= ATTEMPTS or (is_ours and another_team):
                    raise CommandError(f"{synced_list.resource}: {run.error}")
                if is_ours:
                    wait = max(0.0, (run.due_at - timezone.now()).total_seconds())
                    self.stderr.write(
                        f"{synced_list.resource}: {run.error}. Attempt {failures} of {ATTEMPTS};"
                        f" the next one in {wait:.0f} s."
                    )
                time.sleep(WAIT)
            elif is_ours is None:
                bar.show(run.fetched, run.total)  # A worker holds the run.
                time.sleep(WAIT)
        bar.end(
            f"{run.created} new, {run.changed} changed, {run.unchanged} unchanged"
            + (f", {run.unseen} not seen" if run.unseen else "")
            + (f", {run.unreadable} unreadable" if run.unreadable else "")
        )
        if run.state == SyncRun.State.FAILED:
            raise CommandError(f"{synced_list.resource}: {run.error}")

    @staticmethod
    def _open_run(synced_list: SyncedList) -> SyncRun:
        return SyncRun.objects.filter(resource=synced_list.resource, full=synced_list.full).latest(
            "created_at"
        )

    def _look_up(self, full: bool) -> None:
        rows = Lookup.objects.filter(kind__in=[lookup_type.kind for lookup_type in LOOKUP_TYPES])
        if full:
            rows.update(due_at=Now(), attempts=0)
        due = rows.filter(due_at__lte=Now())
        total, done, failures = due.count(), 0, 0
        bar = Bar(self.stdout, LOOKED_UP)
        while True:
            count = run_due_lookups(LOOKUP_TYPES, seconds=WAIT)
            done += count
            left = due.count()
            total = max(total, done + left)
            bar.show(done, total)
            if left and not count:
                failures += 1
                if failures >= ATTEMPTS:
                    raise CommandError(f"{left} lookups are due, and the service does not answer")
                time.sleep(WAIT)
            elif not left:
                failing = rows.exclude(error="").filter(due_at__isnull=False)
                if not failing.exists():
                    break
                failures += 1
                if failures >= ATTEMPTS:
                    raise CommandError(f"{failing.count()} lookups could not be answered")
                failing.update(due_at=Now())
                time.sleep(WAIT)
        bar.end(f"{done} read")


@contextlib.contextmanager
def warnings_only() -> Iterator[None]:
    """Log only warnings and errors. A log line per request would hide the progress bar."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)


class Bar:
    """A progress bar with rows, rate and time left; without a terminal, only the last line."""

    def __init__(self, out: OutputWrapper, name: str) -> None:
        self.out, self.name = out, name
        self.live = bool(getattr(sys.stdout, "isatty", lambda: False)())
        self.started = self.shown_at = time.monotonic()
        self.rows = 0

    def show(self, rows: int, total: int | None) -> None:
        self.rows = rows
        now = time.monotonic()
        if not self.live or now - self.shown_at < 0.2:
            return
        self.shown_at = now
        rate = rows / max(now - self.started, 0.001)
        line = f"{self.name:14} {rows:>9,}"
        if total and total >= rows:
            filled = min(20, 20 * rows // total)
            left = (total - rows) / rate if rate else 0
            line += f" of {total:,} [{'#' * filled}{'.' * (20 - filled)}] {left:,.0f} s left"
        self.out.write(f"\r{line}, {rate:,.0f}/s\x1b[K", ending="")

    def end(self, words: str) -> None:
        seconds = time.monotonic() - self.started
        lead = "\r" if self.live else ""
        tail = "\x1b[K" if self.live else ""
        self.out.write(
            f"{lead}{self.name:14} {self.rows:>9,} in {seconds:,.1f} s,"
            f" {self.rows / max(seconds, 0.001):,.0f}/s: {words}{tail}"
        )
