"""URLs of the report pages."""

from django.urls import path

from backoffice.pages.lists.urls import list_urls
from labs.reports.report_list import REPORT_LIST
from labs.reports.views import reports, upload

app_name = "reports"

urlpatterns = [
    *list_urls(REPORT_LIST),
    path("of/<uuid:patient_id>/", reports.of_patient, name="of-patient"),
    path("upload/", upload.choose, name="choose"),
    path("upload/<uuid:patient_id>/", upload.upload, name="upload"),
    path("<uuid:report_id>/", reports.detail, name="detail"),
    path("<uuid:report_id>/progress/", reports.progress, name="progress"),
    path("<uuid:report_id>/files/<int:position>/", reports.document, name="file"),
    path("<uuid:report_id>/again/", reports.again, name="again"),
    path("<uuid:report_id>/arrived/", reports.arrived, name="arrived"),
    path("<uuid:report_id>/give-up/", reports.give_up, name="give-up"),
    path("<uuid:report_id>/rows/<int:position>/", reports.row, name="row"),
    path("<uuid:report_id>/accept/", reports.accept, name="accept"),
]
