"""Tables for list pages: saved views, chosen columns, and bulk runs."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from backoffice.core.models import FastModel


class SavedView(FastModel):
    """Filters, sort, columns and density of a list under one name.

    `query` has the parameters of the URL, each with its values. The form of the list validates it
    each time, with the permissions of the user who opens it. `opens_for` is the role for which this
    is the default view, or `me` for its owner only.
    """

    ME = "me"

    listing = models.CharField(max_length=40)
    name = models.CharField(max_length=60)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    shared = models.BooleanField(default=False)
    opens_for = models.CharField(max_length=40, default="", blank=True)
    position = models.PositiveIntegerField(default=0)
    query = models.JSONField(default=dict)
    columns = models.JSONField(default=list)
    density = models.CharField(max_length=10, default="", blank=True)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["listing", "owner", "name"], name="view_name_once"),
            models.UniqueConstraint(
                fields=["listing", "owner"],
                condition=Q(opens_for="me"),
                name="one_view_opens_for_me",
            ),
            models.UniqueConstraint(
                fields=["listing", "opens_for"],
                condition=~Q(opens_for__in=["", "me"]),
                name="one_view_opens_for_role",
            ),
            models.CheckConstraint(
                condition=Q(shared=True) | Q(opens_for__in=["", "me"]),
                name="view_of_role_is_shared",
            ),
        ]
        indexes = [
            # Reader: the tabs of a list, together with `view_name_once`
            models.Index(fields=["listing"], condition=Q(shared=True), name="view_shared"),
        ]

    def __str__(self) -> str:
        return self.name


class ListChoice(FastModel):
    """A user's settings for one list: columns in their order, row height, rows per page."""

    listing = models.CharField(max_length=40)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    columns = models.JSONField(default=list)
    density = models.CharField(max_length=10, default="", blank=True)
    size = models.PositiveSmallIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "listing"], name="list_choice_once")]


class BulkRun(models.Model):
    """One bulk action on many rows of a list. Its `BulkRow`s are the work: see `bulk.py`."""

    class State(models.TextChoices):
        OPEN = "open", gettext_lazy("In progress")
        DONE = "done", gettext_lazy("Done")
        STOPPED = "stopped", gettext_lazy("Stopped")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    listing = models.CharField(max_length=40)
    verb = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    given = models.JSONField(default=dict, help_text="What its form held, read")
    query = models.JSONField(default=dict, help_text="The list it was asked on, to go back to")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    asked_at = models.DateTimeField(db_default=Now())
    form_id = models.UUIDField(unique=True, help_text="One per form shown: a second send is none")
    again = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, help_text="The run whose failures it repeats"
    )
    state = models.CharField(max_length=10, choices=State, default=State.OPEN)
    total = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Reader: bulk.process_runs
            models.Index(fields=["asked_at"], condition=Q(state="open"), name="bulk_run_open"),
            models.Index(fields=["asked_by", "-asked_at"], name="bulk_run_of_person"),
        ]

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed


class BulkRow(models.Model):
    """One row of a bulk run, and its outcome."""

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("Waiting")
        DONE = "done", gettext_lazy("Done")
        FAILED = "failed", gettext_lazy("Not done")

    pk = models.CompositePrimaryKey("run_id", "key")
    run = models.ForeignKey(BulkRun, on_delete=models.CASCADE, db_index=False, related_name="rows")
    key = models.CharField(max_length=64, help_text="The primary key of the row, as text")
    patient_id = models.UUIDField(null=True)
    state = models.CharField(
        max_length=10, choices=State, default=State.WAITING, db_default="waiting"
    )
    words = models.TextField(default="", db_default="", blank=True, help_text="Why it was not done")
    command_id = models.UUIDField(null=True, help_text="What was asked of the service for it")

    class Meta:
        indexes = [
            # Reader: bulk.process_runs
            models.Index(
                fields=["run", "key"], condition=Q(state="waiting"), name="bulk_row_waiting"
            ),
            # Reader: the page of a run
            models.Index(
                fields=["run", "key"], condition=Q(state="failed"), name="bulk_row_failed"
            ),
        ]
