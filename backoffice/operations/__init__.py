"""Tools for operators: status, metrics, backups, database roles, migrations.

`status.py` is the only reader of the figures for monitors, Prometheus and the System pages.
"""
