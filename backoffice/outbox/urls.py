"""URLs of the command pages."""

from django.urls import path

from backoffice.outbox import views
from backoffice.outbox.command_list import COMMAND_LIST
from backoffice.pages.lists.urls import list_urls

app_name = "commands"

urlpatterns = [
    *list_urls(COMMAND_LIST),
    path("<uuid:command_id>/", views.command, name="detail"),
    path("<uuid:command_id>/strip/", views.strip, name="strip"),
    path("<uuid:command_id>/withdraw/", views.take_back, name="withdraw"),
    path("<uuid:command_id>/decide/", views.decision, name="decide"),
]
