from django.apps import AppConfig


class LabsConfig(AppConfig):
    name = "labs"

    def ready(self) -> None:
        from backoffice.outbox import record_names
        from labs.record_names import with_names

        record_names.register(with_names)
