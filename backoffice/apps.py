"""Django app of the project package; it also sets the default Celery app."""

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

    def ready(self) -> None:
        from backoffice.celery import app
        from backoffice.operations import postgres

        app.set_default()
        checks.register(postgres.check_log_settings, checks.Tags.database)
        check_roles()
        connection_created.connect(connection_settings.apply_session_settings)
        post_migrate.connect(create_role_groups, sender=all_apps.get_app_config("accounts"))
        post_migrate.connect(verify_installation, sender=all_apps.get_app_config("core"))
        # Keep loaded modules out of garbage collections, and collect less often than every 700
        # objects: a page of orders creates many times that, which took a sixth of a sync.
        gc.freeze()
        gc.set_threshold(5_000, 20, 20)


def verify_installation(using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """Refuse a database that has other keys or belongs to another environment."""
    from backoffice.core import installation
    from backoffice.core.models import Installation

    if Installation._meta.db_table in connections[using].introspection.table_names():
        installation.ensure(using)


def check_roles() -> None:
    """Check that SECOND_FACTOR_ROLES exist: a typo would require a second factor of nobody."""
    from backoffice.accounts.access import ROLES

    unknown = settings.SECOND_FACTOR_ROLES - {*ROLES, "all"}
    if unknown:
        raise ImproperlyConfigured(
            f"SECOND_FACTOR_ROLES must name roles, or be all or none: {', '.join(sorted(unknown))}"
        )


def create_role_groups(
    apps: Apps = all_apps, using: str = DEFAULT_DB_ALIAS, **_signal: Any
) -> None:
    """Create a group for every role."""
    from backoffice.accounts.access import ROLES

    try:
        group = apps.get_model("auth", "Group")
    except LookupError:
        return
    groups = [group(name=role) for role in ROLES]
    group.objects.using(using).bulk_create(groups, ignore_conflicts=True)
