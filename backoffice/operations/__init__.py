"""What whoever runs a deployment needs: its state, metrics, backups, database roles, migrations.

`status.py` reads every figure once, for monitors, Prometheus and the System page alike.
"""
