"""A registration is several writes: a worker that dies between two of them loses none of the
rest."""

from __future__ import annotations

from pathlib import Path

from backoffice.models import CommandRecord
from patients.models import Patient
from tests.outbox import workers
from tests.outbox.desk import Desk
from tests.outbox.test_people import CARD, insurances, reference, register, unlike, users

KINDS = ["patient.create", "patient.info", "insurance.create"]


def test_a_worker_that_dies_between_the_steps_loses_none(desk: Desk, tmp_path: Path) -> None:
    settings = {**workers.environment(), "SERVICE_BASE_URL": desk.sandbox.url}
    with workers.ready(settings, tmp_path / "log") as crew:
        for moment in (workers.ANSWERED, workers.STORED, workers.CLOSED):
            mine = reference()
            given = {"client_user_id": mine, "last_name": unlike(), **CARD}
            assert register(desk, None, **given).status_code == 302
            before = CommandRecord.objects.count()
            assert crew.killed(moment), moment
            desk.later()
            assert CommandRecord.objects.count() == before + 2, moment
            patient = Patient.objects.get(client_user_id=mine)
            rows = CommandRecord.objects.filter(patient_id=patient.pk).order_by("requested_at")
            assert [(row.kind, row.state) for row in rows] == [
                (kind, "done") for kind in KINDS[1:]
            ], moment
            assert users(desk, mine) == 1 and insurances(desk, patient) == 1, moment
