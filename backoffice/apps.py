"""The floor as a Django app. Its start makes our Celery app the one that tasks are sent through."""

from typing import Any

from django.apps import AppConfig
from django.apps.registry import Apps
from django.apps.registry import apps as all_apps
from django.db import DEFAULT_DB_ALIAS
from django.db.models.signals import post_migrate


class BackofficeConfig(AppConfig):
    name = "backoffice"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from backoffice.celery import app

        app.set_default()
        post_migrate.connect(make_roles, sender=self)


def make_roles(apps: Apps = all_apps, using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """A group for every role, so that a new installation can hand them out."""
    from backoffice.access import ROLES

    try:
        groups = apps.get_model("auth", "Group").objects.using(using)
    except LookupError:
        return
    for role in ROLES:
        groups.get_or_create(name=role)
