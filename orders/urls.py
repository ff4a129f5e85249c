"""URLs of orders."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from orders.booking import views as booking
from orders.order_list.order_list import ORDER_LIST
from orders.placing.views import new_order as placing
from orders.placing.views import refused_orders, sheet_import
from orders.views import changes, detail

app_name = "orders"

urlpatterns = [
    *list_urls(ORDER_LIST),
    path("refused/<uuid:account_id>/", refused_orders.refused_orders, name="refused"),
    path("new/", placing.start, name="start"),
    path("new/<uuid:patient_id>/", placing.edit, name="new"),
    path("new/<uuid:patient_id>/review/", placing.review, name="new-review"),
    path("new/<uuid:patient_id>/panels/", placing.search_panels, name="panels"),
    path("new/diagnoses/", placing.search_diagnoses, name="diagnoses"),
    path("import/", sheet_import.import_table, name="import-sheet"),
    path("import/sample/", sheet_import.sample_table, name="import-sample"),
    path("import/standing/", sheet_import.import_status, name="import-standing"),
    path("import/<uuid:patient_id>/", placing.edit, {"importing": True}, name="import"),
    path(
        "import/<uuid:patient_id>/review/",
        placing.review,
        {"importing": True},
        name="import-review",
    ),
    path("<uuid:order_id>/", detail.order_detail, name="detail"),
    path("<uuid:order_id>/cancel/", changes.cancel, name="cancel"),
    path("<uuid:order_id>/activation/", changes.activation, name="activation"),
    path("<uuid:order_id>/drawn/", changes.complete_draw, name="drawn"),
    path("<uuid:order_id>/messages/", changes.messages, name="messages"),
    path("<uuid:order_id>/messages/state/", changes.message_state, name="message-state"),
    path("<uuid:order_id>/visit/book/", booking.book, name="book"),
    path("<uuid:order_id>/visit/move/", booking.move, name="move"),
    path("<uuid:order_id>/visit/times/", booking.times, name="times"),
    path("<uuid:order_id>/visit/cancel/", booking.cancel, name="cancel-visit"),
    path("<uuid:order_id>/resend/", changes.resend, name="resend"),
    path("<uuid:order_id>/simulate/", changes.simulate, name="simulate"),
]
