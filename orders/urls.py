"""Pages of orders."""

from django.urls import path

from backoffice.pages.lists.urls import paths
from orders import account_replay_views, changing_views, views
from orders.listing.rows import ORDERS
from orders.listing.views import order_list
from orders.placing import sheet_views
from orders.placing import views as placing
from orders.scheduling import views as scheduling

app_name = "orders"

urlpatterns = [
    path("", order_list, name="list"),
    *paths(ORDERS),
    path("refused/<uuid:account_id>/", account_replay_views.refused_orders, name="refused"),
    path("new/", placing.start, name="start"),
    path("new/<uuid:patient_id>/", placing.write, name="new"),
    path("new/<uuid:patient_id>/review/", placing.review, name="new-review"),
    path("new/<uuid:patient_id>/panels/", placing.panels, name="panels"),
    path("new/diagnoses/", placing.diagnoses, name="diagnoses"),
    path("import/", sheet_views.import_sheet, name="import-sheet"),
    path("import/sample/", sheet_views.sample_sheet, name="import-sample"),
    path("import/standing/", sheet_views.standing, name="import-standing"),
    path("import/<uuid:patient_id>/", placing.write, {"importing": True}, name="import"),
    path(
        "import/<uuid:patient_id>/review/",
        placing.review,
        {"importing": True},
        name="import-review",
    ),
    path("<uuid:order_id>/", views.order_detail, name="detail"),
    path("<uuid:order_id>/cancel/", changing_views.cancel, name="cancel"),
    path("<uuid:order_id>/activation/", changing_views.activation, name="activation"),
    path("<uuid:order_id>/drawn/", changing_views.drawn, name="drawn"),
    path("<uuid:order_id>/messages/", changing_views.messages, name="messages"),
    path("<uuid:order_id>/messages/state/", changing_views.message_state, name="message-state"),
    path("<uuid:order_id>/visit/book/", scheduling.book, name="book"),
    path("<uuid:order_id>/visit/move/", scheduling.move, name="move"),
    path("<uuid:order_id>/visit/times/", scheduling.times, name="times"),
    path("<uuid:order_id>/visit/cancel/", scheduling.cancel, name="cancel-visit"),
    path("<uuid:order_id>/resend/", changing_views.resend, name="resend"),
    path("<uuid:order_id>/simulate/", changing_views.simulate, name="simulate"),
]
