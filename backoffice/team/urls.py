"""URLs of team work."""

from django.urls import path

from backoffice.team.views import notifications, records

app_name = "team"

urlpatterns = [
    path("team/note/", records.write_note, name="note"),
    path("team/take/", records.assign_to_me, name="take"),
    path("team/give/", records.assign_to_colleague, name="give"),
    path("team/release/", records.release, name="release"),
    path("team/changes/", records.changes, name="changes"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/seen/", notifications.mark_seen, name="seen"),
    path("notifications/choices/", notifications.mail_choices, name="choices"),
    path("notifications/<int:notification_id>/", notifications.open_notification, name="open"),
]
