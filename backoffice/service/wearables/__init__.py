"""Wearable data. Interface: wearables."""

from backoffice.service.wearables.providers import WearableProvider
from backoffice.service.wearables.reads import Wearables
from backoffice.service.wearables.source import SourcePayload
from backoffice.service.wearables.streams import WorkoutStreamPayload
from backoffice.service.wearables.summaries import SUMMARIES, SummaryPayload
from backoffice.service.wearables.timeseries import READ_NAMES, SampleGroup, SamplePayload

__all__ = [
    "READ_NAMES",
    "SUMMARIES",
    "SampleGroup",
    "SamplePayload",
    "SourcePayload",
    "SummaryPayload",
    "WearableProvider",
    "Wearables",
    "WorkoutStreamPayload",
]
