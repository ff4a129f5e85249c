"""The service's answers for the checks. Each call is made once, and its answer is cached."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Final, Generic, Self, TypeVar
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from backoffice.core import service_client, service_team
from backoffice.operations.outage_messages import REASONS
from backoffice.service import RecordPage, Service, errors
from backoffice.service.labs import LabAccountPayload
from backoffice.service.management import Webhook
from backoffice.service.users import UserPayload

T = TypeVar("T")

CALL_SECONDS: Final = 5.0
NOT_ACCEPTED: Final = gettext_noop("The service has not accepted the team key.")
KEY_HEADER: Final = "x-service-api-key"
"""Header name in the specification, chapter "Authentication"."""
MANAGEMENT_KEY_HEADERS: Final = ("X-Management-Key", "X-Service-Org-Key")
"""Both header names in the same chapter."""


@dataclass(frozen=True, slots=True)
class AcceptedKey(Generic[T]):
    """A key that the service accepts: the header, a client that uses it, and the answer."""

    header: str
    client: Service
    page: RecordPage[T]


class ServiceAnswers:
    """The calls of one check. A context manager that closes the connections.

    Each call is tried once, for at most 5 s. `seconds` is the limit for all calls together.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self._deadline = time.monotonic() + seconds
        self._clients = ExitStack()
        self.limited: list[errors.Limited] = []
        """Answers with status 429."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clients.close()

    def _client(
        self, *, key_header: str | None = None, management_key_header: str | None = None
    ) -> Service:
        client = service_client.new_service_client(
            key_header=key_header,
            management_key_header=management_key_header,
            deadline=CALL_SECONDS,
            attempts=1,
        )
        self._clients.enter_context(client)
        return client.until(self._deadline)

    def attempt(self, call: Callable[[], T]) -> T | errors.ServiceError:
        """Return the answer of a call, or its error."""
        try:
            return call()
        except errors.Limited as error:
            self.limited.append(error)
            return error
        except errors.ServiceError as error:
            return error

    @cached_property
    def _as_configured(self) -> Service:
        return self._client()

    @cached_property
    def users_page(self) -> RecordPage[UserPayload] | errors.ServiceError:
        """A page with one user, requested with the configured header."""
        return self.attempt(lambda: self._as_configured.users.list(0, 1))

    @cached_property
    def accepted_key(self) -> AcceptedKey[UserPayload] | None:
        """The team key in the configured header, else in the header of the specification.

        None if it is accepted in neither, or if the service did not answer.
        """
        configured = settings.SERVICE_API_KEY_HEADER
        if isinstance(self.users_page, RecordPage):
            return AcceptedKey(configured, self._as_configured, self.users_page)
        if isinstance(self.users_page, errors.Denied) and configured.lower() != KEY_HEADER:
            client = self._client(key_header=KEY_HEADER)
            page = self.attempt(lambda: client.users.list(0, 1))
            if isinstance(page, RecordPage):
                return AcceptedKey(KEY_HEADER, client, page)
        return None

    @cached_property
    def key_team(self) -> service_team.KeyTeam | errors.ServiceError | None:
        """The team of the key, or an error; None if the key is not accepted."""
        accepted_key = self.accepted_key
        if accepted_key is None:
            return None
        return self.attempt(lambda: service_team.read_key_team(accepted_key.client, CALL_SECONDS))

    @cached_property
    def team(self) -> UUID | None:
        """The team of the key, else the team stored in this installation."""
        key_team = self.key_team
        if isinstance(key_team, service_team.KeyTeam) and key_team.team is not None:
            return key_team.team
        return service_team.mirror_team()

    @cached_property
    def lab_accounts_page(self) -> RecordPage[LabAccountPayload] | errors.ServiceError | None:
        """Lab accounts of the organization, requested with the configured header.

        None if no management key is set.
        """
        if not settings.MANAGEMENT_KEY:
            return None
        return self.attempt(lambda: self._as_configured.management.lab_accounts())

    @cached_property
    def management_key(self) -> AcceptedKey[LabAccountPayload] | None:
        """The management key in the configured header, else in a header of the specification.

        None if it is accepted in none, if there is no key, or if the service did not answer.
        """
        configured = settings.MANAGEMENT_KEY_HEADER
        if isinstance(self.lab_accounts_page, RecordPage):
            return AcceptedKey(configured, self._as_configured, self.lab_accounts_page)
        if isinstance(self.lab_accounts_page, errors.Denied):
            for name in MANAGEMENT_KEY_HEADERS:
                if name.lower() == configured.lower():
                    continue
                client = self._client(management_key_header=name)
                page = self.attempt(client.management.lab_accounts)
                if isinstance(page, RecordPage):
                    return AcceptedKey(name, client, page)
        return None

    @cached_property
    def endpoints(self) -> list[Webhook] | errors.ServiceError | None:
        """The webhook endpoints of the team (webhooks, chapter 1.2), or an error.

        None if no management key is accepted, or if no team is known.
        """
        management_key, team = self.management_key, self.team
        if management_key is None or team is None:
            return None
        management = management_key.client.management
        return self.attempt(lambda: [record.data for record in management.every_webhook(team)])


def describe(error: errors.ServiceError) -> str:
    """Describe an error answer, or why there is no answer, as the end of a sentence."""
    if error.status is None:
        if error.reason in REASONS:
            return gettext(REASONS[error.reason])
        reason = error.reason or gettext("no reason given")
        return gettext("the connection broke (%(reason)s)") % {"reason": reason}
    if error.reason:
        return gettext("answer %(status)s, %(reason)s") % {
            "status": error.status,
            "reason": error.reason,
        }
    return gettext("answer %(status)s") % {"status": error.status}
