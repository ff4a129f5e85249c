from importlib import import_module

Migration = import_module("django.contrib.admin.migrations.0001_initial").Migration
