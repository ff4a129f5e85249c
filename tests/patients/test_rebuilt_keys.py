"""The migrations that make the keys of names anew."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from orders.models import Order
from patients.models import Demographics, Patient, PatientNameWord
from patients.names import name_key
from tests.api.rows import demographics, order, patient

pytestmark = pytest.mark.django_db


def rebuild(app: str, name: str) -> None:
    import_module(f"{app}.migrations.{name}").rebuild_keys(apps, connection.schema_editor())


def test_migration_adds_other_spellings_to_keys() -> None:
    for n, last in enumerate(("O'Sample", "Sample")):
        patient(n).save()
        key = "marco o sample" if n == 0 else "marco sample"
        demographics(n, first_name="Marco", last_name=last, name_key=key).save()
        order(
            n,
            patient_first_name="Marco",
            patient_last_name=last,
            patient_name=key,
            recipient_name=key,
        ).save()
    rebuild("patients", "0006_names_written_together")
    rebuild("orders", "0009_names_written_together")
    keys = ["marco o sample  osample", "marco sample"]
    assert sorted(Demographics.objects.values_list("name_key", flat=True)) == keys
    assert sorted(Order.objects.values_list("patient_name", flat=True)) == keys
    assert sorted(Order.objects.values_list("recipient_name", flat=True)) == keys
    assert PatientNameWord.objects.filter(word="osample").count() == 1
    assert not PatientNameWord.objects.filter(word="")
    assert Order.objects.with_name("OSAMPLE").count() == 1


def test_migration_adds_contracted_words_to_keys() -> None:
    keys = ("joerg mueller", "marco o sample", "ana mueller o sample  osample")
    for n, key in enumerate(keys):
        patient(n).save()
        demographics(n, name_key=key).save()
        order(n, patient_name=key, recipient_name=key).save()
    rebuild("patients", "0011_names_with_one_letter_for_two")
    rebuild("orders", "0024_names_with_one_letter_for_two")
    wanted = [
        "ana mueller o sample  osample muller",
        "joerg mueller  jorg muller",
        "marco o sample",
    ]
    for column in ("patient_name", "recipient_name"):
        assert sorted(Order.objects.values_list(column, flat=True)) == wanted
    assert sorted(Demographics.objects.values_list("name_key", flat=True)) == wanted
    assert Patient.objects.matching("Muller").count() == 2
    assert Order.objects.with_name("muller").count() == 2
    assert name_key("Joerg", "Mueller") == wanted[1]
