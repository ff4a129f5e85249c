"""Wearable data. Interface: wearables."""

from backoffice.service.wearables.providers import Provider
from backoffice.service.wearables.reads import Wearables
from backoffice.service.wearables.source import Source
from backoffice.service.wearables.timeseries import Sample, Samples

__all__ = ["Provider", "Sample", "Samples", "Source", "Wearables"]
