from importlib import import_module

Migration = import_module("django.contrib.admin.migrations.0002_logentry_remove_auto_add").Migration
