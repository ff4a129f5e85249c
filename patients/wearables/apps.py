from django.apps import AppConfig


class WearablesConfig(AppConfig):
    name = "patients.wearables"
    label = "wearables"
