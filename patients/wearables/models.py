"""Device data of patients: historical pulls, summaries, series and their samples, streams."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q, QuerySet

from backoffice.mirror.models import MirrorModel
from patients.models import FAILING_STATUSES, mirrored_patient


class HistoricalPullQuerySet(QuerySet["HistoricalPull"]):
    """Queries for historical pulls."""

    def failing(self) -> Self:
        """Return the pulls that failed or are retried, by their own index."""
        return self.filter(status__in=FAILING_STATUSES, missing_since=None)


class HistoricalPull(MirrorModel):
    """The historical pull of one resource of one connection (users.md 7)."""

    user = mirrored_patient("historical_pulls")
    provider = models.TextField()
    resource = models.TextField()
    status = models.TextField(help_text="`not_pulled` for the names listed as such")
    error_details = models.TextField(null=True)
    days_with_data = models.IntegerField(default=0)
    range_start = models.DateTimeField(null=True)
    range_end = models.DateTimeField(null=True)
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    release = models.TextField(null=True)
    trace_id = models.TextField(null=True)

    objects = HistoricalPullQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "provider", "resource"], name="pull_key")
        ]
        indexes = [
            models.Index(
                fields=["user"],
                condition=Q(status__in=["failure", "retrying"]),
                name="pull_trouble",
            )
        ]


class Summary(MirrorModel):
    """A summary of any kind (wearables.md 2), identified by the service's id alone.

    Columns have the names and units of the service; columns of other resources are null.
    `starts_at` and `ends_at` are the times of a night, session or workout. `number` is the receipt
    number of the event that brought this version: the last received version wins.
    """

    id = models.UUIDField(primary_key=True)
    user = mirrored_patient("summaries")
    resource = models.TextField()
    provider = models.TextField(default="")
    source_type = models.TextField(default="")
    app_id = models.TextField(null=True)
    device_id = models.UUIDField(null=True)
    number = models.BigIntegerField()
    calendar_date = models.DateField(null=True)
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    time_zone = models.TextField(null=True)
    timezone_offset = models.IntegerField(null=True)

    # activity
    steps = models.BigIntegerField(null=True)
    calories_total = models.FloatField(null=True)
    calories_active = models.FloatField(null=True)
    distance = models.FloatField(null=True, help_text="meters; of workouts too")
    low = models.FloatField(null=True, help_text="minutes")
    medium = models.FloatField(null=True, help_text="minutes")
    high = models.FloatField(null=True, help_text="minutes")
    floors_climbed = models.BigIntegerField(null=True)
    avg_bpm = models.FloatField(null=True)
    min_bpm = models.FloatField(null=True)
    max_bpm = models.FloatField(null=True)
    resting_bpm = models.FloatField(null=True)
    # body
    weight = models.FloatField(null=True, help_text="kg")
    fat = models.FloatField(null=True, help_text="percent")
    muscle_mass_percentage = models.FloatField(null=True)
    water_percentage = models.FloatField(null=True)
    body_mass_index = models.FloatField(null=True)
    waist_circumference_centimeter = models.FloatField(null=True)
    # sleep; durations in seconds
    type = models.TextField(null=True)
    state = models.TextField(null=True)
    duration = models.BigIntegerField(null=True)
    total = models.BigIntegerField(null=True)
    awake = models.BigIntegerField(null=True)
    light = models.BigIntegerField(null=True)
    rem = models.BigIntegerField(null=True)
    deep = models.BigIntegerField(null=True)
    score = models.BigIntegerField(null=True)
    hr_lowest = models.BigIntegerField(null=True)
    hr_average = models.BigIntegerField(null=True)
    hr_resting = models.BigIntegerField(null=True)
    efficiency = models.FloatField(null=True)
    average_hrv = models.FloatField(null=True)
    respiratory_rate = models.FloatField(null=True)
    skin_temperature = models.FloatField(null=True)
    sleep_id = models.UUIDField(null=True, help_text="of a sleep cycle")
    # workouts
    title = models.TextField(null=True)
    sport = models.TextField(null=True, help_text="slug")
    average_hr = models.BigIntegerField(null=True)
    max_hr = models.BigIntegerField(null=True)
    calories = models.FloatField(null=True)
    moving_time = models.BigIntegerField(null=True)
    # meals, electrocardiograms, menstrual cycles, profile
    name = models.TextField(null=True)
    energy = models.FloatField(null=True, help_text="kcal")
    classification = models.TextField(null=True)
    heart_rate_mean = models.BigIntegerField(null=True)
    cycle_end = models.DateField(null=True)
    is_predicted = models.BooleanField(null=True)
    height = models.BigIntegerField(null=True, help_text="cm")

    class Meta:
        indexes = [
            # Reader: charts.py, api.py
            models.Index(fields=["user", "resource", "calendar_date"], name="summary_of_patient")
        ]


class WorkoutStream(MirrorModel):
    """The recording of one workout: parallel arrays along `time` (wearables.md 5)."""

    id = models.UUIDField(primary_key=True, help_text="of the workout")
    user = mirrored_patient("workout_streams")
    time = ArrayField(models.FloatField(null=True), null=True, help_text="unix seconds")
    heartrate = ArrayField(models.FloatField(null=True), null=True)
    cadence = ArrayField(models.FloatField(null=True), null=True)
    altitude = ArrayField(models.FloatField(null=True), null=True)
    velocity_smooth = ArrayField(models.FloatField(null=True), null=True)
    lat = ArrayField(models.FloatField(null=True), null=True)
    lng = ArrayField(models.FloatField(null=True), null=True)
    distance = ArrayField(models.FloatField(null=True), null=True)
    power = ArrayField(models.FloatField(null=True), null=True)
    resistance = ArrayField(models.FloatField(null=True), null=True)
    temperature = ArrayField(models.FloatField(null=True), null=True)

    class Meta:
        indexes = [models.Index(fields=["user"], name="stream_of_patient")]


class Source(models.Model):
    """A source of samples (wearables.md 3), each combination once. Missing values are empty."""

    id = models.AutoField(primary_key=True)
    provider = models.TextField()
    type = models.TextField()
    app_id = models.TextField()
    device_id = models.TextField()
    sport = models.TextField()
    workout_id = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "type", "app_id", "device_id", "sport", "workout_id"],
                name="source_once",
            )
        ]


class Series(models.Model):
    """The samples of one patient, resource, provider, source type and kind of reading.

    Only some resources have several kinds of reading. The series and the timestamp are the key of a
    sample.

    `unit` and `usual_type` are those of most samples; other samples have their own. A series gets
    its unit from the first sample that has one, and earlier samples count as having it. `divisor`
    is the largest one so far: see `chunks.py`.
    """

    id = models.AutoField(primary_key=True)
    user = mirrored_patient("series")
    resource = models.TextField()
    provider = models.TextField()
    source_type = models.TextField()
    kind = models.TextField(default="")
    unit = models.TextField(null=True)
    usual_type = models.TextField(null=True)
    divisor = models.IntegerField(default=1)

    class Meta:
        verbose_name_plural = "series"
        constraints = [
            models.UniqueConstraint(
                fields=["user", "resource", "provider", "source_type", "kind"], name="series_key"
            )
        ]


class Chunk(models.Model):
    """The samples of one series and one UTC day, as parallel arrays ordered by time.

    `chunks.py` describes the columns. The table is partitioned by month of `day`.
    """

    pk = models.CompositePrimaryKey("series_id", "day")
    series = models.ForeignKey(
        Series, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    day = models.DateField()
    first_at = models.BigIntegerField(help_text="microseconds into the day")
    last_at = models.BigIntegerField(help_text="microseconds into the day")
    block = models.IntegerField(help_text="receipt numbers are told from 2 ** 31 times this")
    number = models.IntegerField(null=True)
    divisor = models.IntegerField(help_text="of `scaled`; 0 where values are in `wide`")
    zone = models.IntegerField(null=True, help_text="seconds east of UTC")
    length = models.IntegerField(null=True, help_text="seconds, of intervals")
    source = models.IntegerField()
    seconds = ArrayField(models.IntegerField(), help_text="into the day")
    micros = ArrayField(models.IntegerField(), null=True)
    scaled = ArrayField(models.IntegerField(null=True), null=True)
    wide = ArrayField(models.FloatField(null=True), null=True)
    numbers = ArrayField(models.IntegerField(), null=True)
    zones = ArrayField(models.IntegerField(null=True), null=True)
    lengths = ArrayField(models.IntegerField(null=True), null=True)
    sources = ArrayField(models.IntegerField(), null=True)
    tail_seconds = ArrayField(models.IntegerField(), null=True)
    tail_scaled = ArrayField(models.IntegerField(null=True), null=True)
    tail_wide = ArrayField(models.FloatField(null=True), null=True)
    tail_numbers = ArrayField(models.IntegerField(), null=True)
    extras = models.JSONField(null=True, help_text="what single samples say beside, by their time")


class Sample(models.Model):
    """One sample as the JSON API shows it. It has no table: `sample_reader.py` decodes chunks."""

    id = models.TextField(primary_key=True)
    user_id = models.UUIDField()
    resource = models.TextField()
    provider = models.TextField()
    source_type = models.TextField()
    app_id = models.TextField(null=True)
    device_id = models.TextField(null=True)
    sport = models.TextField(null=True)
    workout_id = models.TextField(null=True)
    timestamp = models.DateTimeField()
    timezone_offset = models.IntegerField(null=True, help_text="seconds")
    type = models.TextField(null=True)
    unit = models.TextField(null=True)
    value = models.JSONField(null=True, help_text="a number; text for notes")
    start = models.DateTimeField(null=True)
    end = models.DateTimeField(null=True)
    systolic = models.FloatField(null=True)
    diastolic = models.FloatField(null=True)
    sensor_location = models.TextField(null=True)
    delivery_mode = models.TextField(null=True)
    delivery_form = models.TextField(null=True)
    bolus_purpose = models.TextField(null=True)
    intensity = models.TextField(null=True)
    tags = models.JSONField(null=True)

    class Meta:
        managed = False
