"""Results with their markers (orders.md 8)."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Substr

from backoffice.core.models import FastModel
from backoffice.core.vocabulary import measures
from backoffice.mirror.models import MirrorModel
from orders.models.order import Order


class Result(MirrorModel):
    """The current result of an order: partial, final or corrected.

    `interpretation` is our reading of the head of the result, or the worst reading of its lines if
    that is worse (`vocabulary.interpretations`). `interpretation_received` is the service's value
    if it differs.
    """

    order = models.OneToOneField(
        Order,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="result",
    )
    status = models.TextField(default="final")
    interpretation = models.TextField(null=True)
    interpretation_received = models.TextField(null=True)
    read_under = models.BigIntegerField(
        default=0, db_default=0, help_text="Last decision on unknown values when it was read"
    )
    laboratory = models.TextField(null=True)
    specimen_number = models.TextField(default="")
    date_collected = models.TextField(null=True)
    date_received = models.TextField(null=True)
    date_reported = models.TextField(default="")
    returned = models.PositiveIntegerField(default=0, help_text="Markers with a value")
    missing = models.PositiveIntegerField(default=0, help_text="Markers reported missing")
    unreadable_lines = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Lines of which something, or all, could not be read"
    )
    unreadable_fields = models.TextField(
        default="",
        db_default="",
        help_text="Parts of the head that could not be read, such as status",
    )

    class Meta:
        indexes = [
            # Reader: results that an earlier release read (`mirror.MirrorTable.revision`)
            models.Index(Substr("content_hash", 16), "order", name="result_revision")
        ]

    @property
    def is_whole(self) -> bool:
        """Whether every part of the service's record could be read."""
        return not self.unreadable_lines and not self.unreadable_fields


class ResultMarker(FastModel):
    """One line of a result, or one marker that the lab reported as missing.

    `interpretation` is our reading of the whole line: critical, abnormal, unknown (not
    interpreted), normal, or empty where there is nothing to interpret. `interpretation_received` is
    the service's value if it differs, `source_interpretation` the lab's own flag.
    """

    pk = models.CompositePrimaryKey("result_id", "position")
    result = models.ForeignKey(
        Result,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="markers",
    )
    position = models.PositiveIntegerField()
    is_missing = models.BooleanField(default=False)
    name = models.TextField()
    slug = models.TextField(default="")
    text = models.TextField(default="", help_text="The result, always text")
    value = models.FloatField(null=True)
    type = models.TextField(default="")
    unit = models.TextField(null=True)
    timestamp = models.DateTimeField(null=True, help_text="Where it came with an offset")
    timestamp_written = models.TextField(
        null=True, help_text="As received, where it has no offset: never to be converted"
    )
    reference_range = models.TextField(null=True)
    min_range_value = models.FloatField(null=True)
    max_range_value = models.FloatField(null=True)
    is_above_max_range = models.BooleanField(null=True)
    is_below_min_range = models.BooleanField(null=True)
    interpretation = models.TextField(default="")
    interpretation_received = models.TextField(null=True)
    source_interpretation = models.TextField(default="", db_default="")
    side = models.TextField(default="", db_default="", help_text="high or low, where it is one")
    loinc = models.TextField(null=True)
    loinc_slug = models.TextField(null=True)
    provider_id = models.TextField(null=True)
    notes = models.TextField(null=True)
    failure_type = models.TextField(null=True, help_text="Why a marker is missing")
    is_unreadable = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Nothing but the place of the line, and maybe its name, was read",
    )
    unreadable_fields = models.TextField(
        default="",
        db_default="",
        help_text="Parts of the line that could not be read, such as value",
    )

    @property
    def shown_side(self) -> str:
        """Return `side`, or derive it from the service's flags.

        Lines that an earlier release stored have no `side`.
        """
        derived = "high" if self.is_above_max_range else "low" if self.is_below_min_range else ""
        return self.side or derived

    @property
    def number(self) -> float | None:
        """Return the value as a number, from the text: the service's `value` is deprecated."""
        return measures.line_number(self.type, self.text, self.value)

    class Meta:
        indexes = [
            models.Index(fields=["loinc_slug", "result"], name="marker_trend"),
            # Reader: causes of missing results, by month
            models.Index(
                fields=["result", "failure_type"],
                condition=models.Q(is_missing=True),
                name="marker_missing",
            ),
        ]
