"""Install the rules of the review queue and of the interpretation an order shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.db import migrations

RULES: Final = Path(__file__).resolve().parent.parent / "results" / "sql"
TRIGGER: Final = """
CREATE TRIGGER show_interpretation BEFORE INSERT OR UPDATE ON orders_order FOR EACH ROW
 WHEN (NEW.result_interpretation IS NOT NULL) EXECUTE FUNCTION orders_show_interpretation();
"""
# Versions stored before this migration have their reading, but not whether one of their lines was
# not interpreted.
DERIVE: Final = """
SELECT orders_derive_reviews(array_agg(order_id)) FROM orders_review WHERE version > signed;
"""
BACK: Final = """
DROP TRIGGER show_interpretation ON orders_order;
DROP FUNCTION orders_show_interpretation;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0013_interpretations")]

    operations = [
        migrations.RunSQL((RULES / "derive_reviews.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((RULES / "order_interpretation.sql").read_text() + TRIGGER, BACK),
        migrations.RunSQL(DERIVE, migrations.RunSQL.noop),
    ]
