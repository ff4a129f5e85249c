"""Wearable data. Interface: wearables."""

from backoffice.service.wearables.providers import Provider
from backoffice.service.wearables.reads import Wearables
from backoffice.service.wearables.source import Source
from backoffice.service.wearables.streams import WorkoutStream
from backoffice.service.wearables.summaries import SUMMARIES, Summary
from backoffice.service.wearables.timeseries import READ_NAMES, Sample, Samples

__all__ = [
    "READ_NAMES",
    "SUMMARIES",
    "Provider",
    "Sample",
    "Samples",
    "Source",
    "Summary",
    "Wearables",
    "WorkoutStream",
]
