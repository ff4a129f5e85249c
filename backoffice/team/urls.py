"""Addresses of team work."""

from django.urls import path

from backoffice.team.views import notifications, records

app_name = "team"

urlpatterns = [
    path("team/note/", records.write_note, name="note"),
    path("team/take/", records.take, name="take"),
    path("team/give/", records.give, name="give"),
    path("team/release/", records.give_back, name="release"),
    path("team/changes/", records.changes, name="changes"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/seen/", notifications.seen, name="seen"),
    path("notifications/choices/", notifications.choices, name="choices"),
    path("notifications/<int:notification_id>/", notifications.open_one, name="open"),
]
