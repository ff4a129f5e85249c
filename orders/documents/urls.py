"""Addresses of documents: those of one order, and of jobs that print those of many."""

from django.urls import path

from orders.documents import job_views, views
from orders.documents.kinds import KINDS

app_name = "documents"

urlpatterns = [
    path("documents/", job_views.jobs, name="jobs"),
    path("documents/print/", job_views.choose, name="choose"),
    path("documents/<uuid:job_id>/", job_views.job, name="job"),
    path("documents/<uuid:job_id>/progress/", job_views.progress, name="job-progress"),
    path("documents/<uuid:job_id>/file/", job_views.file, name="job-file"),
    path("documents/<uuid:job_id>/cancel/", job_views.cancel_job, name="job-cancel"),
    path("documents/<uuid:job_id>/retry/", job_views.retry_job, name="job-retry"),
    path("<uuid:order_id>/documents/", views.order_documents, name="order"),
    *(
        path(f"<uuid:order_id>/documents/{kind.slug}/", views.document_view(kind), name=kind.slug)
        for kind in KINDS.values()
    ),
]
