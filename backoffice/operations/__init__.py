"""Tools for operators: status, metrics, backups, database roles, migrations.

`status.py` reads every figure once, for monitors, Prometheus and the System page alike.
"""
