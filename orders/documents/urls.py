"""Addresses of documents: those of one order, and of jobs that print those of many."""

from django.urls import path

from orders.documents import views
from orders.documents.kinds import KINDS

app_name = "documents"

urlpatterns = [
    path("<uuid:order_id>/documents/", views.order_documents, name="order"),
    *(
        path(f"<uuid:order_id>/documents/{kind.slug}/", views.document_view(kind), name=kind.slug)
        for kind in KINDS.values()
    ),
]
