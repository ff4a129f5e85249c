from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from backoffice.core.identifiers import IdentifierKey


class Migration(migrations.Migration):
    """Indexes of lists and of the search. Each names its reader in the `Meta` of its model."""

    atomic = False
    dependencies = [("orders", "0002_tracking_numbers")]

    operations = [
        AddIndexConcurrently(
            model_name="review",
            index=models.Index(
                fields=["-since", "-order", "lab_slug", "rank", "signer"], name="review_newest"
            ),
        ),
        AddIndexConcurrently(
            model_name="review",
            index=models.Index(
                fields=["rank", "since", "order", "lab_slug", "signer"], name="review_by_urgency"
            ),
        ),
        AddIndexConcurrently(
            model_name="review",
            index=models.Index(fields=["lab_slug", "-since", "-order"], name="review_of_lab"),
        ),
        AddIndexConcurrently(
            model_name="review",
            index=models.Index(fields=["signer", "-since", "-order"], name="review_signed_by"),
        ),
        AddIndexConcurrently(
            model_name="review",
            index=models.Index(
                condition=models.Q(("identity", "different")),
                fields=["-since", "-order"],
                name="review_of_somebody_else",
            ),
        ),
        AddIndexConcurrently(
            model_name="appointment",
            index=models.Index(
                condition=models.Q(("superseded_at", None), ("type", "patient_service_center")),
                fields=["provider_id", "draw_day", "start_at", "id"],
                name="appointment_of_site",
            ),
        ),
        AddIndexConcurrently(
            model_name="unmatchedresult",
            index=models.Index(
                condition=models.Q(("status__in", ("resolved", "matched"))),
                fields=[
                    "created_at",
                    "id",
                    "lab_slug",
                    "decision_code",
                    "interpretation",
                    "missing_since",
                ],
                name="unmatched_decided_received",
            ),
        ),
        AddIndexConcurrently(
            model_name="unmatchedresult",
            index=models.Index(
                condition=models.Q(("status__in", ("resolved", "matched"))),
                fields=[
                    "reviewed_at",
                    "id",
                    "created_at",
                    "lab_slug",
                    "decision_code",
                    "interpretation",
                    "missing_since",
                ],
                name="unmatched_decided_reviewed",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                OpClass(IdentifierKey("outbound_tracking_number"), name="text_pattern_ops"),
                condition=models.Q(("outbound_tracking_number__isnull", False)),
                name="order_outbound_parcel",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                OpClass(IdentifierKey("inbound_tracking_number"), name="text_pattern_ops"),
                condition=models.Q(("inbound_tracking_number__isnull", False)),
                name="order_inbound_parcel",
            ),
        ),
    ]
