"""Users, their demographics, connections, and historical pulls.

Interface: users, chapters 1-3, 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType, field

from backoffice.service.exchange import Calls, as_json
from backoffice.service.payload import (
    NEVER,
    Instant,
    Payload,
    Reader,
    Record,
    RecordPage,
    RequestBody,
    Unreadable,
    either,
    parse_day,
)


class ProviderPayload(Payload):
    """A wearable provider on a connected source."""

    name: str = ""
    slug: str = ""
    logo: str | None = None


class ConnectedSource(Payload):
    """A source of a user's data; ``source`` is the older name of ``provider``."""

    created_on: Instant | None = None
    provider_sent: ProviderPayload | None = field(default=None, name="provider")
    source: ProviderPayload | None = None

    @property
    def provider(self) -> ProviderPayload | None:
        return either(self.provider_sent, self.source)


class FallbackTimeZone(Payload):
    """A fallback time zone; ``id`` is an IANA zone name."""

    id: str = ""
    source_slug: str = ""
    updated_at: Instant | None = None


class FallbackBirthDate(Payload):
    value_sent: str | None = field(default=None, name="value")
    source_slug: str = ""
    updated_at: Instant | None = None

    @property
    def value(self) -> date | None:
        return parse_day(self.value_sent)


class UserPayload(Payload):
    user_id: UUID
    client_user_id: str
    created_on: Instant
    team_id: UUID | None = None
    connected_sources: list[ConnectedSource] = field(default_factory=list)
    fallback_time_zone: FallbackTimeZone | None = None
    fallback_birth_date: FallbackBirthDate | None = None
    ingestion_start: date | None = None
    ingestion_end: date | None = None


class Address(Payload):
    """A postal address; ``zip`` and ``zip_code`` read both spellings (differences.md 11)."""

    first_line: str = ""
    second_line: str | None = None
    city: str = ""
    state: str = ""
    zip_sent: str | None = field(default=None, name="zip")
    zip_code_sent: str | None = field(default=None, name="zip_code")
    country: str | None = None
    access_notes: str | None = None

    @property
    def zip(self) -> str | None:
        return either(self.zip_sent, self.zip_code_sent)

    @property
    def zip_code(self) -> str | None:
        return self.zip


class Guarantor(Payload):
    """Guarantor of an insurance, or medical proxy. Income in USD."""

    first_name: str = ""
    last_name: str = ""
    address: Address | None = None
    phone_number: str | None = None
    email: str | None = None
    household_income: float | None = None
    household_size: float | None = None


class UserInfo(Payload):
    """Demographics of a user; ``gender`` is free text: compare without case."""

    first_name: str
    last_name: str
    email: str = ""
    phone_number: str = ""
    gender: str = ""
    dob_sent: str | None = field(default=None, name="dob")
    address: Address | None = None
    medical_proxy: Guarantor | None = None
    race: str | None = None
    ethnicity: str | None = None
    sexual_orientation: str | None = None
    gender_identity: str | None = None

    @property
    def dob(self) -> date | None:
        return parse_day(self.dob_sent)


class Scopes(Payload):
    required: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)


class ScopeRequirements(Payload):
    user_granted: Scopes | None = None
    user_denied: Scopes | None = None


class ResourceAvailability(Payload):
    """Availability of one resource. ``status``: available, unavailable."""

    status: str = ""
    scope_requirements: ScopeRequirements | None = None


class ConnectionFault(Payload):
    """The reason why a connection is in status error."""

    error_type: str = ""
    error_message: str = ""
    errored_at: Instant | None = None


class ConnectionPayload(Payload):
    """A user's connection to a provider. ``external_user_id`` is personal data."""

    slug: str
    name: str = ""
    logo: str | None = None
    created_on: Instant | None = None
    status: str = ""
    external_user_id: str | None = None
    error_details: ConnectionFault | None = None
    resource_availability: dict[str, ResourceAvailability] = field(default_factory=dict)


class PullTimeline(Payload):
    scheduled_at: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None


class Pull(Payload):
    """The outcome of one historical pull of one resource."""

    status: str
    days_with_data: int = 0
    range_start: Instant | None = None
    range_end: Instant | None = None
    release: str | None = None
    error_details: str | None = None
    timeline: PullTimeline | None = None
    trace_id: str | None = None


class ProviderPulls(Payload):
    not_pulled: list[str] = field(default_factory=list)
    pulled: dict[str, msgspec.Raw] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class PullEntry:
    """One pulled resource.

    When it could not be read, ``pull`` is None and ``unreadable`` has the reason.
    """

    provider: str
    resource: str
    pull: Pull | None
    raw: bytes
    unreadable: Unreadable | None = None

    def __repr__(self) -> str:
        return f"<PullEntry {self.provider} {self.resource}>"


class HistoricalPullReport(Payload):
    """A user's historical pulls by provider slug and resource name."""

    user_id: UUID
    provider: dict[str, ProviderPulls] = field(default_factory=dict)

    def entries(self) -> Iterator[PullEntry]:
        for slug, pulls in self.provider.items():
            for resource, sent in pulls.pulled.items():
                raw = bytes(sent)
                read = _PULL.read(raw, NEVER)
                if isinstance(read, Record):
                    yield PullEntry(slug, resource, read.data, raw)
                else:
                    yield PullEntry(slug, resource, None, raw, read)


class ConnectLinkPayload(Payload):
    """A link with which one patient can connect a device, once, for about ten minutes.

    It is a secret: anyone who has the link can use it.
    """

    link_web_url: str


class NewAddress(RequestBody):
    """A postal address to send, with ``zip`` and ``country`` (differences.md 11)."""

    first_line: str
    city: str
    state: str
    zip: str
    country: str
    second_line: str | None = None
    access_notes: str | None = None


class NewGuarantor(RequestBody):
    """Guarantor of an insurance, or medical proxy. Income in USD."""

    first_name: str
    last_name: str
    address: NewAddress
    phone_number: str
    email: str | None = None
    household_income: int | None = None
    household_size: int | None = None


class NewUser(RequestBody):
    """A user to create.

    ``client_user_id`` is the team's own reference and must contain nothing personal.
    ``fallback_time_zone`` is an IANA name. Ingestion has a first and a last day; all connections
    are paused one week after the last day.
    """

    client_user_id: str
    fallback_time_zone: str | None = None
    fallback_birth_date: date | None = None
    ingestion_start: date | None = None
    ingestion_end: date | None = None


class UserChange(RequestBody):
    """The fields to change: None clears a field, and a field that is left out does not change."""

    client_user_id: str | UnsetType = UNSET
    fallback_time_zone: str | UnsetType | None = UNSET
    fallback_birth_date: date | UnsetType | None = UNSET
    ingestion_start: date | UnsetType | None = UNSET
    ingestion_end: date | UnsetType | None = UNSET


class NewUserInfo(RequestBody):
    """Demographics, always complete. ``gender`` as in orders: female, male, other, unknown."""

    first_name: str
    last_name: str
    email: str
    phone_number: str
    gender: str
    dob: date
    address: NewAddress
    medical_proxy: NewGuarantor | None = None
    race: str | None = None
    ethnicity: str | None = None
    sexual_orientation: str | None = None
    gender_identity: str | None = None


_LINK = Reader(ConnectLinkPayload)
_USER = Reader(UserPayload)
_INFO = Reader(UserInfo)
_CONNECTION = Reader(ConnectionPayload)
_PULL = Reader(Pull)
_REPORT = Reader(HistoricalPullReport)


class UserCalls(Calls):
    """Calls of users.md 1-3, 7 and 8."""

    def create(self, user: NewUser) -> Record[UserPayload]:
        """Create a user.

        Raises Duplicate, with the ``existing_id`` to use, when the reference is in use. It is
        therefore safe to repeat a creation that was Uncertain.
        """
        return self._call.send("POST", "/v2/user", _USER, as_json(user))

    def update(self, user_id: UUID | str, change: UserChange) -> None:
        """Change a user.

        The service answers without a body: read the user to see the effect.
        """
        self._call.send_without_record(
            "PATCH", "/v2/user/{user_id}", as_json(change), user_id=user_id
        )

    def update_info(
        self, user_id: UUID | str, info: NewUserInfo | Mapping[str, object]
    ) -> Record[UserInfo]:
        """Replace the demographics; the service deletes fields that are left out."""
        path = "/v2/user/{user_id}/info"
        return self._call.send("PATCH", path, _INFO, as_json(info), user_id=user_id)

    def deregister(self, user_id: UUID | str, provider: str) -> None:
        """End the connection to a provider (slug).

        For a source on the patient's device, the service may answer with success and change
        nothing: read the connections again.
        """
        path = "/v2/user/{user_id}/{provider}"
        self._call.send_without_record("DELETE", path, user_id=user_id, provider=provider)

    def create_link(
        self, user_id: UUID | str, provider: str | None = None
    ) -> Record[ConnectLinkPayload]:
        """Create a link with which the patient connects a device in a browser (users.md 8).

        The link is for any provider, or for this one (slug). Each call creates another link. No
        call returns a link that was created before.
        """
        body = {"user_id": user_id} | ({"provider": provider} if provider else {})
        return self._call.send("POST", "/v2/link/token", _LINK, as_json(body))

    def list(self, offset: int = 0, limit: int = 500) -> RecordPage[UserPayload]:
        """Return a page of users; ``limit`` is at most 500."""
        query = {"offset": offset, "limit": limit}
        return self._call.page("/v2/user/", _USER, "users", query=query)

    def get(self, user_id: UUID | str) -> Record[UserPayload]:
        return self._call.record("/v2/user/{user_id}", _USER, user_id=user_id)

    def resolve(self, client_user_id: str) -> Record[UserPayload]:
        """Return the user with the team's own reference; raises Missing when there is none."""
        path = "/v2/user/resolve/{client_user_id}"
        return self._call.record(path, _USER, client_user_id=client_user_id)

    def info(self, user_id: UUID | str) -> Record[UserInfo]:
        """Return the latest demographics; raises Missing when none were given."""
        return self._call.record("/v2/user/{user_id}/info/latest", _INFO, user_id=user_id)

    def connections(self, user_id: UUID | str) -> RecordPage[ConnectionPayload]:
        path = "/v2/user/providers/{user_id}"
        return self._call.page(path, _CONNECTION, "providers", user_id=user_id)

    def historical_pulls(
        self,
        user_id: UUID | str | None = None,
        provider: str | None = None,
        user_limit: int = 50,
        next_cursor: str | None = None,
    ) -> RecordPage[HistoricalPullReport]:
        """Return a page of reports.

        A page may have fewer users than ``user_limit`` before the end. Only a ``next_cursor`` of
        None marks the last page.
        """
        query = {
            "user_id": user_id,
            "provider": provider,
            "user_limit": user_limit,
            "next_cursor": next_cursor,
        }
        return self._call.page("/v2/introspect/historical_pull", _REPORT, "data", query=query)
