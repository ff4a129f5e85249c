"""Install the SQL files of an app (`<app>/sql/*.sql`) from its migrations.

Every file can be installed again over itself. A change of one needs a migration that installs it.
"""

from __future__ import annotations

from pathlib import Path

from django.db import migrations


def install_sql(migration_file: str, *names: str) -> list[migrations.RunSQL]:
    """Return operations that run these files of the app's `sql` folder, in this order.

    Usage in a migration: `*install_sql(__file__, "reviews", "storage")`.
    """
    folder = Path(migration_file).resolve().parent.parent / "sql"
    return [
        migrations.RunSQL((folder / f"{name}.sql").read_text(), migrations.RunSQL.noop)
        for name in names
    ]
