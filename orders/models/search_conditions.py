"""Conditions for what a typed text may mean, which `pages.paging.keys.keys_of_any` combines.

Each meaning is a condition of its own, so that its own index answers it.
"""

from __future__ import annotations

from django.db.models import Q

from orders.models.name import name_condition
from orders.search_text import OrderSearchText
from patients.models import Patient
from patients.search_text import SearchText


def list_conditions(search: OrderSearchText) -> list[Q]:
    """Return conditions for all that a text may mean to find orders, except a name alone."""
    conditions = [
        *order_conditions(search),
        *visit_conditions(search, "appointments__"),
        *patient_conditions(search),
    ]
    if search.typed.birth_date and (condition := person_condition(search.typed)):
        conditions.append(condition)
    return conditions


def order_conditions(search: OrderSearchText) -> list[Q]:
    """Return conditions for ids and numbers of the order itself, whole or their beginning."""
    conditions = []
    if ids := search.typed.id_range:
        conditions.append(Q(pk__range=ids))
        conditions.append(Q(order_transaction__gte=ids[0], order_transaction__lte=ids[1]))
    if search.code_prefix:
        conditions.append(Q(sample_id__identifier__startswith=search.code_prefix))
    elif search.whole_code:
        conditions.append(Q(sample_id__identifier=search.whole_code))
    if number := search.tracking_prefix:
        conditions.append(Q(outbound_tracking_number__identifier__startswith=number))
        conditions.append(Q(inbound_tracking_number__identifier__startswith=number))
    return conditions


def visit_conditions(search: OrderSearchText, relation: str = "") -> list[Q]:
    """Return conditions for the id and the lab's number of a visit, or their beginning.

    `relation` is the path from the filtered model to the visit, such as `appointments__`.
    """
    conditions = []
    if search.typed.id_range:
        conditions.append(Q(**{f"{relation}pk__range": search.typed.id_range}))
    if search.code_prefix:
        conditions.append(Q(**{f"{relation}external_id__upper__startswith": search.code_prefix}))
    return conditions


def patient_conditions(search: OrderSearchText) -> list[Q]:
    """Return conditions for the patient of an order: an id, our reference, or more than a name.

    A name alone is that on the order (`person_condition`), which may be another one.
    """
    typed, conditions = search.typed, []
    if ids := typed.id_range:
        conditions.append(Q(user__gte=ids[0], user__lte=ids[1]))
    if typed.identifier and search.whole_code:
        found = Patient.objects.order_by().filter(client_user_id__identifier=typed.identifier)
        conditions.append(Q(user__in=found.values("pk")))
    if typed.has_person and not typed.has_only_words:
        conditions.append(Q(user__in=Patient.objects.order_by().identified_by(typed).values("pk")))
    return conditions


def person_condition(typed: SearchText) -> Q:
    """Return the condition for the people on the order itself: patient and recipient.

    An order has their names and the birth date of the patient. The condition is empty if the text
    has none of these. Runs a query if it has a name.
    """
    if typed.birth_date and not (typed.email or typed.phone_digits):
        born = Q(patient_dob=typed.birth_date)
        return born & name_condition({"names": typed.words}) if typed.words else born
    return name_condition({"names": typed.name}) if typed.name else Q()
