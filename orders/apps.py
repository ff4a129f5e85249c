from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"

    def ready(self) -> None:
        from orders.rules.result_identity import update_patients
        from patients.signals import demographics_stored

        demographics_stored.connect(update_patients, dispatch_uid="orders.rules.result_identity")
