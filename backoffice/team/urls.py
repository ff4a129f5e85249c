"""Addresses of team work."""

from django.urls import path

from backoffice.team import pages

app_name = "team"

urlpatterns = [
    path("team/note/", pages.write_note, name="note"),
    path("team/take/", pages.take, name="take"),
    path("team/give/", pages.give, name="give"),
    path("team/release/", pages.give_back, name="release"),
]
