"""Sync runs, and lookups of single records."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy


class SyncRun(models.Model):
    """One sync run over a list of the service, with all its state: see `backoffice.sync`."""

    class State(models.TextChoices):
        DUE = "due", gettext_lazy("Due")
        RUNNING = "running", gettext_lazy("Running")
        DONE = "done", gettext_lazy("Done")
        FAILED = "failed", gettext_lazy("Failed")

    resource = models.CharField(max_length=40)
    full = models.BooleanField(help_text="A sweep over everything; otherwise what changed")
    state = models.CharField(max_length=10, choices=State, default=State.DUE)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    window_start = models.DateTimeField(null=True, help_text="Updated since; null for all")
    server_date = models.DateTimeField(null=True, help_text="Service's clock at the first page")
    checkpoint = models.JSONField(default=dict, help_text="Where to resume")
    due_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(default=0)
    fence = models.BigIntegerField(default=0, help_text="Grows with each claim; guards writes")
    lease_until = models.DateTimeField(null=True)
    total = models.BigIntegerField(null=True, help_text="Rows the service says it has")
    fetched = models.BigIntegerField(default=0)
    created = models.BigIntegerField(default=0)
    changed = models.BigIntegerField(default=0)
    unchanged = models.BigIntegerField(default=0)
    older = models.BigIntegerField(default=0)
    unseen = models.BigIntegerField(default=0)
    unreadable = models.BigIntegerField(default=0)
    drifted = models.BigIntegerField(default=0)
    error = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["resource", "full"],
                condition=Q(state__in=["due", "running"]),
                name="one_open_run_of_a_kind",
            )
        ]
        indexes = [
            # Readers: the list of runs, filtered and sorted; the latest run of a resource
            models.Index(fields=["created_at", "id"], name="run_by_time"),
            models.Index(fields=["resource", "created_at", "id"], name="run_of_resource"),
            models.Index(fields=["state", "created_at", "id"], name="run_in_state"),
            models.Index(
                fields=["resource", "created_at", "id"],
                condition=Q(full=True),
                name="run_full_of_resource",
            ),
            # Reader: sync.runs
            models.Index(
                fields=["due_at"], condition=Q(state__in=["due", "running"]), name="run_claimable"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.resource} {'full' if self.full else 'incremental'} {self.state}"


class Lookup(models.Model):
    """A scheduled read of one record by its own call.

    `due_at` is null if no change is expected. `generation` grows with every new reason for a
    lookup, so that an answer that was requested before the reason does not clear it.
    """

    pk = models.CompositePrimaryKey("kind", "key")
    kind = models.CharField(max_length=30)
    key = models.TextField()
    due_at = models.DateTimeField(null=True, db_default=Now())
    generation = models.BigIntegerField(default=1, db_default=1)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    unread_answers = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text="Those of the attempts that were answered, but not read or stored",
    )
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, default="", db_default="", blank=True)

    class Meta:
        indexes = [
            # Reader: sync.run_due_lookups
            models.Index(
                fields=["kind", "due_at"], condition=Q(due_at__isnull=False), name="lookup_due"
            ),
            models.Index(fields=["kind"], condition=~Q(error=""), name="lookup_failing"),
        ]
