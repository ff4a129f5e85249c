"""The floor as a Django app. Its start makes our Celery app the one that tasks are sent through."""

import gc
from typing import Any

from django.apps import AppConfig
from django.apps.registry import Apps
from django.apps.registry import apps as all_apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from backoffice.core import connection_settings


class BackofficeConfig(AppConfig):
    default = True
    name = "backoffice"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from backoffice.celery import app
        from backoffice.operations import postgres

        app.set_default()
        checks.register(postgres.keeps_quiet, checks.Tags.database)
        check_roles()
        connection_created.connect(connection_settings.apply_session_settings)
        post_migrate.connect(make_roles, sender=self)
        post_migrate.connect(know_whose_database, sender=self)
        # What is loaded stays: a collection need not look through it. Nor need one begin at every
        # 700 objects, which a page of orders makes many times: that took a sixth of a sync.
        gc.freeze()
        gc.set_threshold(5_000, 20, 20)


def know_whose_database(using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """Refuse to go on with a database of other keys or of another environment."""
    from backoffice.core import installation
    from backoffice.models import Installation

    if Installation._meta.db_table in connections[using].introspection.table_names():
        installation.ensure(using)


def check_roles() -> None:
    """Roles that settings name must exist: a mistyped one would ask nobody for a second factor."""
    from backoffice.core.access import ROLES

    unknown = settings.SECOND_FACTOR_ROLES - {*ROLES, "all"}
    if unknown:
        raise ImproperlyConfigured(
            f"SECOND_FACTOR_ROLES must name roles, or be all or none: {', '.join(sorted(unknown))}"
        )


def make_roles(apps: Apps = all_apps, using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """A group for every role, so that a new installation can hand them out."""
    from backoffice.core.access import ROLES

    try:
        group = apps.get_model("auth", "Group")
    except LookupError:
        return
    made = [group(name=role) for role in ROLES]
    group.objects.using(using).bulk_create(made, ignore_conflicts=True)
