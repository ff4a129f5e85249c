"""The service as one object: ``Service(base_url, api_key).orders.list(...)``.

It is thread-safe: create one per process. Calls raise only the errors of
``backoffice.service.errors``, and ValueError for invalid arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Self

import httpx

from backoffice.service import errors
from backoffice.service.appointments import AppointmentCalls
from backoffice.service.call import Clock, Watch
from backoffice.service.exchange import WRITE_SECONDS, Exchange, Key
from backoffice.service.insurance import InsuranceCalls
from backoffice.service.labs import LabCalls
from backoffice.service.management import Management
from backoffice.service.orders import OrderCalls
from backoffice.service.reports import ReportCalls
from backoffice.service.transport import DeadlineTransport
from backoffice.service.unmatched import UnmatchedResultCalls
from backoffice.service.users import UserCalls
from backoffice.service.wearables import Wearables


class Service:
    """The remote service with a team key, and its management interface with a management key.

    ``deadline`` is the number of seconds that a read may take, with its retries and its body.
    ``write_deadline`` is the same for a write, which is sent once. ``attempts`` is the number of
    times a read is tried. ``watch`` holds callbacks for each attempt. Tests pass their own
    ``transport`` and ``clock``.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        key_header: str = "x-service-api-key",
        order_create_path: str = "/v3/order/create",
        management_url: str | None = None,
        management_key: str = "",
        management_key_header: str = "X-Management-Key",
        management_org_id: str = "",
        management_env: str = "sandbox",
        management_region: str = "us",
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
        deadline: float = 20.0,
        attempts: int = 3,
        write_deadline: float = WRITE_SECONDS,
        watch: Watch | None = None,
    ) -> None:
        clock = clock or Clock()
        self.order_create_path = order_create_path
        # The service may close an idle connection at the moment when a write is sent on it. Then it
        # is unknown whether the write happened, so each write opens a new connection.
        self._reader = _http(transport or DeadlineTransport())
        self._writer = _http(transport or DeadlineTransport(kept_alive=0))
        self._team = Exchange(
            self._reader,
            self._writer,
            _address(base_url),
            Key(key_header, api_key),
            clock,
            deadline,
            attempts,
            write_deadline=write_deadline,
            watch=watch,
        )
        self._managed: Exchange | None = None
        if management_url and management_key:
            self._managed = Exchange(
                self._reader,
                self._writer,
                _address(management_url),
                Key(management_key_header, management_key),
                clock,
                deadline,
                attempts,
                {
                    "org_id": management_org_id,
                    "env": management_env,
                    "region": management_region,
                },
                write_deadline,
                watch,
            )
        self._create_endpoints()

    def _create_endpoints(self) -> None:
        self.users = UserCalls(self._team)
        self.insurance = InsuranceCalls(self._team)
        self.labs = LabCalls(self._team)
        self.orders = OrderCalls(self._team, self.order_create_path)
        self.appointments = AppointmentCalls(self._team)
        self.wearables = Wearables(self._team)
        self.reports = ReportCalls(self._team)
        self.unmatched = UnmatchedResultCalls(self._team)

    @property
    def management(self) -> Management:
        """Return the management interface; raises Denied when none is configured."""
        if self._managed is None:
            raise errors.Denied(reason="no management interface configured")
        return Management(self._managed)

    def within(self, seconds: float) -> Service:
        """Return the same service with a shorter deadline, for calls that a person waits for.

        The copy shares the connections: close the original only.
        """
        return self._with(lambda exchange: exchange.within(seconds))

    def until(self, moment: float) -> Service:
        """Return the same service with calls that must end before a monotonic time.

        After that time no call is sent. The copy shares the connections: close the original only.
        """
        return self._with(lambda exchange: exchange.until(moment))

    def _with(self, change: Callable[[Exchange], Exchange]) -> Service:
        changed = object.__new__(Service)
        changed.order_create_path = self.order_create_path
        changed._reader = self._reader
        changed._writer = self._writer
        changed._team = change(self._team)
        changed._managed = change(self._managed) if self._managed else None
        changed._create_endpoints()
        return changed

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Service>"


def _http(transport: httpx.BaseTransport) -> httpx.Client:
    return httpx.Client(
        transport=transport,
        headers={"accept-encoding": "gzip", "user-agent": "backoffice"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        follow_redirects=False,
        trust_env=False,
    )


def _address(url: str) -> str:
    """Return a base address; raises ValueError when it is not a valid one."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise ValueError("the service address is not a URL") from None
    plain = not (parsed.query or parsed.fragment or parsed.userinfo)
    if parsed.scheme not in ("http", "https") or not parsed.host or not plain:
        raise ValueError("the service address must be http(s)://host[:port][/path]")
    return str(parsed)
