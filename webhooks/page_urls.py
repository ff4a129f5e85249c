"""URLs of the inbox: the event log, replay, and the sources of an order's values."""

from django.urls import include, path

from backoffice.pages.lists.urls import list_urls
from webhooks.event_list import EVENT_LIST
from webhooks.views import events, health, provenance, replay

app_name = "events"

urlpatterns = [
    path("health/inbox", health.inbox, name="health"),
    path("system/events/", include(list_urls(EVENT_LIST))),
    path("system/events/replay/", replay.replay_failed, name="replay"),
    path("system/events/<int:event_id>/", events.event_detail, name="detail"),
    path("system/events/<int:event_id>/replay/", replay.replay_one, name="replay-one"),
    path("orders/<uuid:order_id>/why/", provenance.order_why, name="why-order"),
]
