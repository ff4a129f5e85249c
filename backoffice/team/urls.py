"""Addresses of team work."""

from django.urls import path

from backoffice.team import pages, told

app_name = "team"

urlpatterns = [
    path("team/note/", pages.write_note, name="note"),
    path("team/take/", pages.take, name="take"),
    path("team/give/", pages.give, name="give"),
    path("team/release/", pages.give_back, name="release"),
    path("team/changes/", pages.changes, name="changes"),
    path("notifications/", told.notifications, name="notifications"),
    path("notifications/seen/", told.seen, name="seen"),
    path("notifications/choices/", told.choices, name="choices"),
    path("notifications/<int:notification_id>/", told.open_one, name="open"),
]
