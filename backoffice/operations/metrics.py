"""Status figures and call durations in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import redis
from django.conf import settings
from django.db import DatabaseError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from backoffice.core import duration_metrics
from backoffice.operations import status

LEVELS = ("ok", "degraded", "failing")


class Deployment(Collector):
    """A collector that reads the figures at each scrape."""

    def collect(self) -> Iterator[Metric]:
        version = GaugeMetricFamily("backoffice_version", "The release", labels=["version"])
        version.add_metric([settings.VERSION], 1)
        yield version
        yield from _figures()
        yield from _durations()


def _figures() -> Iterator[Metric]:
    try:
        read = status.read()
    except DatabaseError:
        read = None
    yield GaugeMetricFamily(
        "backoffice_database_up", "Whether PostgreSQL answered", value=float(read is not None)
    )
    if read is None:
        return
    level = GaugeMetricFamily("backoffice_status", "1 for the level it is", labels=["level"])
    for name in LEVELS:
        level.add_metric([name], float(name == read.level))
    yield level
    for group, figures in read.figures.items():
        if group == "queues":
            yield _heartbeats(figures)
            continue
        for name, value in figures.items():
            if value is not None:
                title = f"backoffice_{group}_{name}"
                yield GaugeMetricFamily(title, name.replace("_", " "), value=float(value))


def _heartbeats(ages: dict[str, status.Figure]) -> Metric:
    """Return the heartbeat ages, without queues that never had a heartbeat."""
    family = GaugeMetricFamily(
        "backoffice_heartbeat_age_seconds", "Since a worker answered on a queue", labels=["queue"]
    )
    for queue, age in ages.items():
        if age is not None:
            family.add_metric([queue], float(age))
    return family


def _durations() -> Iterator[Metric]:
    duration_metrics.flush()
    families = {
        name: HistogramMetricFamily(name, family.help, labels=list(family.labels))
        for name, family in duration_metrics.HISTOGRAMS.items()
    }
    up = 1.0
    try:
        for series in duration_metrics.read_series():
            bounds = [*map(str, series.family.bounds), "+Inf"]
            families[series.family.name].add_metric(
                list(series.labels),
                [(bound, float(count)) for bound, count in zip(bounds, series.counts, strict=True)],
                sum_value=series.seconds,
            )
    except redis.RedisError:
        up = 0.0
    yield GaugeMetricFamily("backoffice_redis_up", "Whether Redis answered", value=up)
    yield from families.values()


def text() -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Deployment())
    return generate_latest(registry)
