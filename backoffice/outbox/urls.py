"""URLs of the command pages."""

from django.urls import path

from backoffice.outbox import views

app_name = "commands"

urlpatterns = [
    path("", views.commands, name="list"),
    path("<uuid:command_id>/", views.command, name="detail"),
    path("<uuid:command_id>/strip/", views.strip, name="strip"),
    path("<uuid:command_id>/withdraw/", views.take_back, name="withdraw"),
    path("<uuid:command_id>/decide/", views.decision, name="decide"),
]
