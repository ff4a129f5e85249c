from django.apps import AppConfig


class WearablesConfig(AppConfig):
    name = "patients.wearables"
    label = "wearables"
    default_auto_field = "django.db.models.BigAutoField"
