"""URLs of documents: those of one order, and the print jobs of many."""

from django.urls import path

from orders.documents.kinds import KINDS
from orders.documents.views import documents, print_jobs

app_name = "documents"

urlpatterns = [
    path("documents/", print_jobs.jobs, name="jobs"),
    path("documents/print/", print_jobs.choose, name="choose"),
    path("documents/<uuid:job_id>/", print_jobs.job, name="job"),
    path("documents/<uuid:job_id>/progress/", print_jobs.progress, name="job-progress"),
    path("documents/<uuid:job_id>/file/", print_jobs.file, name="job-file"),
    path("documents/<uuid:job_id>/cancel/", print_jobs.cancel_job, name="job-cancel"),
    path("documents/<uuid:job_id>/retry/", print_jobs.retry_job, name="job-retry"),
    path("<uuid:order_id>/documents/", documents.order_documents, name="order"),
    *(
        path(
            f"<uuid:order_id>/documents/{kind.slug}/", documents.document_view(kind), name=kind.slug
        )
        for kind in KINDS.values()
    ),
]
