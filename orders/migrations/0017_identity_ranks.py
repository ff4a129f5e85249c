"""Give a result that names somebody else at least the rank of abnormal results.

Whoever signs such a result must confirm the identity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.db import migrations, models

RULES: Final = Path(__file__).resolve().parent.parent / "results" / "sql"
DERIVE: Final = """
SELECT orders_derive_reviews(array_agg(order_id)) FROM orders_review
WHERE identity = 'different' AND version > signed;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0016_times_as_written")]

    operations = [
        migrations.AddField(
            "signature",
            "is_identity_confirmed",
            models.BooleanField(
                default=False,
                db_default=False,
                help_text="The result names somebody else, and the person said that it is right",
            ),
        ),
        migrations.RunSQL((RULES / "derive_reviews.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL(DERIVE, migrations.RunSQL.noop),
    ]
