"""Which event goes to whom: one table, every type of the catalogue (webhooks, chapter 3).

Groups are applied in the order of this table. A type that is not in it is unknown: stored,
counted, and replayed once it has a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backoffice.service.events import Heard
from orders.sync.events import hear_appointments, hear_critical_results, hear_orders
from patients.hearing import hear_connections, hear_devices
from webhooks.reading import EXHAUSTED

Handler = Callable[[Sequence[Heard]], Mapping[str, str] | None]


@dataclass(frozen=True)
class Route:
    """`handler` applies events and says what came of those that are not plainly `outcome`. Without
    one, events are kept in the inbox and that is all there is to do."""

    name: str
    handler: Handler | None
    outcome: str = "applied"


CRITICAL_RESULTS: Final = Route("critical results", hear_critical_results)
ORDERS: Final = Route("orders", hear_orders)
APPOINTMENTS: Final = Route("appointments", hear_appointments)
CONNECTIONS: Final = Route("connections", hear_connections)
DEVICES: Final = Route("devices", hear_devices)
KEPT: Final = Route("kept", None, "kept")
IGNORED: Final = Route("ignored", None, "ignored")

ROUTES: Final[Mapping[str, Route]] = {
    "labtest.result.critical": CRITICAL_RESULTS,
    "labtest.order.created": ORDERS,
    "labtest.order.updated": ORDERS,
    "labtest.appointment.created": APPOINTMENTS,
    "labtest.appointment.updated": APPOINTMENTS,
    "provider.connection.created": CONNECTIONS,
    "provider.connection.error": CONNECTIONS,
    "provider.device.created": DEVICES,
    "provider.device.updated": DEVICES,
    # Nothing reads these yet.
    "labtest.match_review.created": KEPT,
    "labtest.match_review.updated": KEPT,
    "continuous_query.result_table.changed": KEPT,
    EXHAUSTED: KEPT,
    # Replaced by the sleep cycle events, and out of the catalogue.
    "daily.timeseries.hypnogram.created": IGNORED,
    "daily.timeseries.hypnogram.updated": IGNORED,
    "historical.timeseries.hypnogram.created": IGNORED,
    "daily.data.hypnogram.created": IGNORED,
    "daily.data.hypnogram.updated": IGNORED,
    "historical.data.hypnogram.created": IGNORED,
}
