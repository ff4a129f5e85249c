"""Orders, their events, transactions and kits (orders.md).

An order's JSON is kept ready: `fixed_part` (what creation settled) and `moving_part` (what the
life cycle changes) are fragments without braces, written only by `sandbox.records`, which also
joins them with the lab test and the requisition link when an order is served.
"""

from django.db import models


class OrderTransaction(models.Model):
    """A group of orders: the initial one, its redraw or recreation."""

    id = models.UUIDField(primary_key=True)
    team = models.ForeignKey("Team", models.PROTECT)
    status = models.CharField(max_length=12, default="active")


class Order(models.Model):
    """An order. `number` counts all orders of the world, `seq` those of the team; both dense and
    aligned with `created_at`, orders are never deleted, so `seq` ranges are page offsets.

    `updated_at` strictly increases with every visible change. `next_at` is when life moves the
    order again (null: never by itself). `step` is the number of moves made, the last part of the
    key of every random draw. `result_version` 0 means there is no result.
    """

    number = models.BigIntegerField(primary_key=True)
    id = models.UUIDField(unique=True)
    team = models.ForeignKey("Team", models.PROTECT)
    seq = models.BigIntegerField()
    user = models.ForeignKey("User", models.PROTECT)
    lab_test = models.ForeignKey("LabTest", models.PROTECT)
    lab_account = models.ForeignKey("LabAccount", models.PROTECT, null=True)
    transaction = models.ForeignKey(OrderTransaction, models.PROTECT, related_name="orders")
    origin = models.CharField(max_length=12, default="initial")
    parent_id = models.UUIDField(null=True)
    method = models.CharField(max_length=24)
    registrable = models.BooleanField(default=False)
    imported = models.BooleanField(default=False)

    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    status = models.CharField(max_length=80)
    low_level_status = models.CharField(max_length=40)
    status_detail = models.CharField(max_length=60, null=True)
    last_event_at = models.DateTimeField()
    next_at = models.DateTimeField(null=True)
    step = models.SmallIntegerField(default=0)

    patient_name = models.CharField(max_length=110)
    patient_dob = models.DateField(null=True)
    recipient_name = models.CharField(max_length=110)
    zip_code = models.CharField(max_length=10)
    billing_type = models.CharField(max_length=40)
    activate_by = models.DateField(null=True)
    sample_id = models.CharField(max_length=40, null=True)
    has_requisition = models.BooleanField(default=False)
    has_abn = models.BooleanField(default=False)
    sms_enabled = models.BooleanField(default=True)
    details_id = models.UUIDField()
    details_updated_at = models.DateTimeField()
    collected_at = models.DateTimeField(null=True)
    interpretation = models.CharField(max_length=12, null=True)
    has_missing_results = models.BooleanField(null=True)
    result_status = models.CharField(max_length=12, null=True)
    result_version = models.SmallIntegerField(default=0)
    expected_result_by_date = models.DateField(null=True)
    worst_case_result_by_date = models.DateField(null=True)

    fixed_part = models.TextField()
    moving_part = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "seq"], name="order_seq")]
        indexes = [
            models.Index(fields=["team", "updated_at"], name="order_updated"),
            models.Index(fields=["team", "created_at"], name="order_created"),
            models.Index(fields=["team", "low_level_status", "seq"], name="order_low_level"),
            models.Index(fields=["team", "patient_name", "seq"], name="order_patient"),
            models.Index(fields=["user", "seq"], name="order_user"),
            models.Index(
                fields=["team", "interpretation", "seq"],
                condition=models.Q(interpretation__isnull=False),
                name="order_interpretation",
            ),
            models.Index(
                fields=["sample_id"],
                condition=models.Q(sample_id__isnull=False),
                name="order_sample",
            ),
            models.Index(
                fields=["next_at"], condition=models.Q(next_at__isnull=False), name="order_due"
            ),
        ]


class OrderEvent(models.Model):
    """An entry of an order's history; ids are unique in the world and ascend within an order."""

    id = models.BigAutoField(primary_key=True)
    order = models.ForeignKey(Order, models.CASCADE, related_name="events")
    created_at = models.DateTimeField()
    status = models.CharField(max_length=80)
    status_detail = models.CharField(max_length=60, null=True)


class Shipment(models.Model):
    """The parcel of a kit (specification, Order details): tracking appears as it travels."""

    order = models.OneToOneField(Order, models.CASCADE, primary_key=True, related_name="shipment")
    id = models.UUIDField(unique=True)
    outbound_tracking_number = models.CharField(max_length=40, null=True)
    outbound_tracking_url = models.CharField(max_length=200, null=True)
    inbound_tracking_number = models.CharField(max_length=40, null=True)
    inbound_tracking_url = models.CharField(max_length=200, null=True)
    outbound_courier = models.CharField(max_length=40, null=True)
    inbound_courier = models.CharField(max_length=40, null=True)
    notes = models.CharField(max_length=200, null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
