from importlib import import_module

Migration = import_module("django.contrib.admin.migrations.0003_logentry_add_action_flag_choices").Migration
