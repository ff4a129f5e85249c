"""The world: its clock, its seed, and counters of numbers without gaps."""

from django.db import models


class World(models.Model):
    """The single row (id 1) with the seed and the clock of the world."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    seed = models.BigIntegerField(default=1)
    epoch = models.DateTimeField()
    clock_offset = models.DurationField()
    speed = models.FloatField(default=1)
    orders_per_day = models.FloatField(default=60)
    next_place_at = models.DateTimeField(null=True)
    order_count = models.BigIntegerField(default=0)
    user_count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="world_is_one_row"),
            models.CheckConstraint(condition=models.Q(speed__gte=0), name="world_speed"),
        ]


class Team(models.Model):
    """A customer account. `order_count` is the team's highest `Order.seq`, and so its total."""

    id = models.UUIDField(primary_key=True)
    org_id = models.UUIDField()
    name = models.CharField(max_length=80)
    order_count = models.BigIntegerField(default=0)
    minor_ordering_enabled = models.BooleanField(default=True)
    partial_webhooks_enabled = models.BooleanField(default=True)
