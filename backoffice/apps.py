"""The floor as a Django app. Its start makes our Celery app the one that tasks are sent through."""

from django.apps import AppConfig


class BackofficeConfig(AppConfig):
    name = "backoffice"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from backoffice.celery import app

        app.set_default()
