"""Seed unmatched results from the orders of a world: one for each case."""

import uuid
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Count

from sandbox import unmatched
from sandbox.catalogue import TEAM_IDS
from sandbox.models import LabTest, Order

TEAM = uuid.UUID(TEAM_IDS[0])
AT_THE_LAB = ("draw_completed", "transit_lab", "delivered_to_lab")
STATUSES_BY_CASE = {
    "match_completed": ("completed",),
    "wrong_collection": ("requisition_created",),
    "wrong_lab": AT_THE_LAB,
    "multiple_demo_match": AT_THE_LAB,
    "match_sample_id_mismatch_demo": AT_THE_LAB,
    "match_demo": AT_THE_LAB,
    "no_match": (),
}
"""Statuses of the orders that a case needs, by case."""


@transaction.atomic
def seed_unmatched_results(most: int) -> int:
    """Make up to `most` results, fewer if the world has no suitable orders; return how many."""
    made = 0
    taken: list[uuid.UUID] = []
    for name, statuses in STATUSES_BY_CASE.items():
        if made == most:
            break
        orders = _orders(len(unmatched.CASES[name].roles), statuses, taken)
        if orders is None:
            continue
        taken += [order.id for order in orders]
        interpretation = "abnormal" if made % 3 == 0 else "normal"
        unmatched.make_result(TEAM, name, orders, _lab_test(name, orders), "final", interpretation)
        made += 1
    return made


def _orders(
    count: int, statuses: Sequence[str], taken: Sequence[uuid.UUID]
) -> Sequence[Order] | None:
    """Return the newest orders of one patient at one lab; None if there are too few."""
    if not count:
        return []
    found = Order.objects.filter(
        team_id=TEAM,
        low_level_status__in=statuses,
        patient_dob__isnull=False,
        sample_id__isnull=False,
    ).exclude(id__in=taken)
    group = (
        found.values("user_id", "lab_test__lab_id")
        .annotate(many=Count("number"))
        .filter(many__gte=count)
        .order_by("-many" if count > 1 else "-user_id", "user_id")
        .first()
    )
    if group is None:
        return None
    found = found.filter(user_id=group["user_id"], lab_test__lab_id=group["lab_test__lab_id"])
    return list(found.select_related("lab_test__lab").order_by("-number")[:count])


def _lab_test(name: str, orders: Sequence[Order]) -> LabTest:
    """Return the test of the result: that of the order, unless the order went to another lab."""
    if orders and name != "wrong_lab":
        return orders[0].lab_test
    tests = LabTest.objects.filter(team__isnull=True, status="active", auto_generated=False)
    for order in orders:
        tests = tests.exclude(lab_id=order.lab_test.lab_id)
    test = tests.select_related("lab").order_by("slug").first()
    assert test is not None
    return test
