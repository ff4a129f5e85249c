"""The read calls of wearable data."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from backoffice.service.exchange import Calls
from backoffice.service.payload import Record, RecordPage
from backoffice.service.wearables.providers import PROVIDER, WearableProvider
from backoffice.service.wearables.streams import WORKOUT_STREAM, WorkoutStreamPayload
from backoffice.service.wearables.summaries import PROFILE, SUMMARIES, Profile
from backoffice.service.wearables.timeseries import GROUPED, READ_NAMES, SampleGroup, grouped_page

_KEYS = {"meal": "meals"}
_BY_DAY = frozenset({"electrocardiogram", "menstrual_cycle", "sleep_cycle"})


class Wearables(Calls):
    """Calls of wearables.md 1, 5 and 6.

    ``provider`` is a slug; None means all of them. An ``end_date`` without a time includes its day.
    """

    def providers(self, source_type: str | None = None) -> RecordPage[WearableProvider]:
        """Return all providers in one answer; they change rarely, so cache them for a day."""
        return self._call.page("/v2/providers", PROVIDER, query={"source_type": source_type})

    def summaries(
        self,
        resource: str,
        user_id: UUID | str,
        start_date: date | datetime,
        end_date: date | datetime | None = None,
        provider: str | None = None,
    ) -> RecordPage[Any]:
        """Return all summaries of a range in one answer.

        SUMMARIES has their type for each resource. Some resources accept whole days only. A profile
        has no range (see :meth:`profile`).
        """
        if resource in _BY_DAY:
            start_date, end_date = _day(start_date), _day(end_date) if end_date else None
        query = {"start_date": start_date, "end_date": end_date, "provider": provider}
        return self._call.page(
            f"/v2/summary/{resource}/{{user_id}}",
            SUMMARIES[resource],
            _KEYS.get(resource, resource),
            query=query,
            user_id=user_id,
        )

    def profile(self, user_id: UUID | str, provider: str | None = None) -> Record[Profile]:
        path = "/v2/summary/profile/{user_id}"
        return self._call.record(path, PROFILE, query={"provider": provider}, user_id=user_id)

    def samples(
        self,
        resource: str,
        user_id: UUID | str,
        start_date: date | datetime,
        end_date: date | datetime | None = None,
        provider: str | None = None,
        next_cursor: str | None = None,
    ) -> RecordPage[SampleGroup]:
        """Return a page of samples grouped by source; ``resource`` is named as in events.

        Call again with the ``next_cursor`` of the page, and an unchanged range, until it is None.
        """
        query = {
            "start_date": start_date,
            "end_date": end_date,
            "provider": provider,
            "next_cursor": next_cursor,
        }
        answer = self._call.record(
            "/v2/timeseries/{user_id}/{resource}/grouped",
            GROUPED,
            query=query,
            user_id=user_id,
            resource=READ_NAMES.get(resource, resource),
        )
        return grouped_page(answer)

    def workout_stream(self, workout_id: UUID | str) -> Record[WorkoutStreamPayload]:
        """Return the measurements during a workout, by the id of its summary."""
        path = "/v2/timeseries/workouts/{workout_id}/stream"
        return self._call.record(path, WORKOUT_STREAM, workout_id=workout_id)


def _day(sent: date | datetime) -> date:
    if not isinstance(sent, datetime):
        return sent
    return (sent if sent.tzinfo is None else sent.astimezone(UTC)).date()
