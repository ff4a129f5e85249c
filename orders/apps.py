from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from orders.results.identity import update_patients
        from patients.signals import demographics_stored

        demographics_stored.connect(update_patients, dispatch_uid="orders.results.identity")
