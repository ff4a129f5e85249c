"""URLs of the report pages."""

from django.urls import path

from labs.reports import upload_views, views

app_name = "reports"

urlpatterns = [
    path("", views.report_list, name="list"),
    path("of/<uuid:patient_id>/", views.of_patient, name="of-patient"),
    path("upload/", upload_views.choose, name="choose"),
    path("upload/<uuid:patient_id>/", upload_views.upload, name="upload"),
    path("<uuid:report_id>/", views.detail, name="detail"),
    path("<uuid:report_id>/progress/", views.progress, name="progress"),
    path("<uuid:report_id>/files/<int:position>/", views.document, name="file"),
    path("<uuid:report_id>/again/", views.again, name="again"),
    path("<uuid:report_id>/arrived/", views.arrived, name="arrived"),
    path("<uuid:report_id>/give-up/", views.give_up, name="give-up"),
    path("<uuid:report_id>/rows/<int:position>/", views.row, name="row"),
    path("<uuid:report_id>/accept/", views.accept, name="accept"),
]
