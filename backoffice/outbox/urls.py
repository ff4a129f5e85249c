"""Addresses of what was asked of the service."""

from django.urls import path

from backoffice.outbox import pages

app_name = "commands"

urlpatterns = [
    path("", pages.commands, name="list"),
    path("<uuid:command_id>/", pages.command, name="detail"),
    path("<uuid:command_id>/strip/", pages.strip, name="strip"),
    path("<uuid:command_id>/withdraw/", pages.take_back, name="withdraw"),
    path("<uuid:command_id>/decide/", pages.decision, name="decide"),
]
