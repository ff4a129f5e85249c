"""`python -m tests.browser.sample_data`: create rows that a synced mirror does not have.

They are reports, notes, calls, an assignment, notifications and commands in every state, so that no
page is empty. The program runs with the settings of the back office whose pages are visited.
"""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from backoffice.accounts.models import User
    from orders.models import Order


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
    django.setup()
    from backoffice.accounts.models import User
    from backoffice.outbox.models import CommandRecord
    from orders.models import Order

    ada = User.objects.get(username="administrator")
    frida = User.objects.get(username="front-desk")
    order = Order.objects.exclude(user=None).order_by("-created_at")[0]
    _create_reports(ada)
    _create_team_work(order, ada, frida)
    _create_list_views(ada)
    _create_print_job(order, ada)
    for state in CommandRecord.State.values:
        _create_command(order, ada, state)
    _create_refused_registration(ada)
    _create_unknown_values()
    _create_api_token(ada)
    _create_wearable_data(order)
    _create_audit_entries(order, ada, frida)


def _create_audit_entries(order: Order, ada: User, frida: User) -> None:
    """Create audit entries of several months, one with changes, a check and a reviewed month."""
    from django.utils import timezone

    from backoffice.audit import seals, verification
    from backoffice.audit.models import AuditEntry, AuditReview

    now = timezone.now()
    request = {"request_id": uuid.uuid4().hex, "ip": "192.0.2.7", "route": "admin:user_change"}
    AuditEntry.objects.create(
        **request,
        actor=ada,
        action="change",
        object_type="user",
        object_ids=[str(frida.pk)],
        reason="Made up: helps at the lab desk",
        before={"groups": ["front desk"], "is_staff": False},
        after={"groups": ["clinician", "front desk"], "is_staff": True},
    )
    about = {"object_type": "order", "object_ids": [str(order.pk)], "patient_ids": [order.user_id]}
    AuditEntry.objects.create(**request, **about, actor=ada, action="view")
    refused = {"action": "denied", "object_type": "permission", "object_ids": ["results.sign"]}
    AuditEntry.objects.create(**refused, actor=frida, outcome="refused", ip="192.0.2.9")
    for days in (20, 45, 70):
        AuditEntry.objects.create(
            **about, actor=frida, action="print", at=now - timedelta(days=days)
        )
    last_month = (now.replace(day=1) - timedelta(days=1)).date().replace(day=1)
    AuditReview.objects.create(month=last_month, by=ada, note="Made up: nothing out of order.")
    seals.seal()
    verification.run_due_check()


def _create_reports(by: User) -> None:
    from labs.reports import intake
    from patients.models import Demographics
    from tests.labs.reporting import attach_job, file

    people = Demographics.objects.select_related("user").order_by("pk")[:3]
    for person, status in zip(people, ("completed", "failed", ""), strict=True):
        upload = intake.UploadRequest(
            patient=person.user,
            by=by,
            form_id=uuid.uuid4(),
            files=(file(),),
            needs_human_review=False,
        )
        report = intake.create_report(upload, uuid.uuid4())
        if status:
            attach_job(report, status)


def _create_team_work(order: Order, ada: User, frida: User) -> None:
    from django.utils import timezone

    from backoffice.team.models import Assignment, Contact, Note, Notification

    for kind, key in (("order", order.pk), ("patient", order.user_id)):
        about = {"subject_type": kind, "subject_id": str(key), "patient_id": order.user_id}
        Note.objects.create(**about, text="Made up: asks to be called in the morning.", author=ada)
        Assignment.objects.create(**about, user=ada, by=frida)
        Contact.objects.create(
            **about,
            outcome="voicemail",
            note="Made up: said who we are, nothing else.",
            by=frida,
            next_due_at=timezone.now() + timedelta(hours=5),
        )
    for kind, seen in (("assigned", None), ("mentioned", timezone.now())):
        Notification.objects.create(
            user=ada, kind=kind, subject_type="order", subject_id=str(order.pk), seen_at=seen
        )


def _create_wearable_data(order: Order) -> None:
    from patients.wearables.models import Summary, WorkoutStream
    from tests.api.rows import envelope

    of_patient = {"user_id": order.user_id, **envelope()}
    Summary.objects.create(id=uuid.uuid4(), resource="activity", number=1, **of_patient)
    WorkoutStream.objects.create(id=uuid.uuid4(), **of_patient)


def _create_api_token(by: User) -> None:
    from django.db import transaction

    from backoffice.api import tokens

    with transaction.atomic():
        account, _ = tokens.account_of("export-sample")
        tokens.issue(account, name="Made up", by=by)


def _create_unknown_values() -> None:
    from backoffice.core.models import UnknownValue

    for vocabulary, value in (("order.low_level_status", "beamed_up"), ("event_type", "beam.done")):
        UnknownValue.objects.create(vocabulary=vocabulary, value=value, sightings=3)


def _create_list_views(by: User) -> None:
    """Create saved views, and a finished run of each bulk action."""
    from django.utils import timezone

    from backoffice.pages.lists.registry import all_lists
    from backoffice.pages.models import BulkRun, SavedView

    for each in all_lists():
        SavedView.objects.create(listing=each.name, name="Made up", owner=by, shared=True)
        for action in each.bulk_actions:
            BulkRun.objects.create(
                listing=each.name,
                verb=action.name,
                title="Made up",
                asked_by=by,
                form_id=uuid.uuid4(),
                state="done",
                total=2,
                done=2,
                finished_at=timezone.now(),
            )


def _create_print_job(order: Order, by: User) -> None:
    """Create a print job of two orders, one of which failed."""
    from datetime import timedelta

    from django.utils import timezone

    from orders.models import PrintFile, PrintJob, PrintPart

    now = timezone.now()
    job = PrintJob.objects.create(
        form_id=uuid.uuid4(),
        asked_by=by,
        kinds=["requisition"],
        labels=3,
        new_sheet=False,
        state="done",
        orders=2,
        total=2,
        done=1,
        failed=1,
        pages=1,
        finished_at=now,
        expires_at=now + timedelta(hours=24),
    )
    of_order = {"job": job, "order_id": order.pk, "patient_id": order.user_id}
    PrintPart.objects.create(
        **of_order, position=0, kind="requisition", state="failed", words="Not ready yet."
    )
    PrintFile.objects.create(pk=job.pk, job=job, content=b"%PDF-1.4 made up %%EOF")


def _create_command(order: Order, by: User, state: str) -> None:
    from backoffice.outbox.models import CommandRecord

    CommandRecord.objects.create(
        kind="cancel_order",
        title="Cancel order",
        subject_type="order",
        subject_id=str(uuid.uuid4()),
        payload={},
        form_id=uuid.uuid4(),
        requested_by=by,
        reason="Made up for a look at this page",
        idempotency_key=uuid.uuid4(),
        state=state,
        refusal="The order is past the point of no return." if state == "refused" else "",
    )


def _create_refused_registration(by: User) -> None:
    """Create a registration that the service refused."""
    from backoffice.outbox.models import CommandRecord
    from patients.commands.patients import CreateUser
    from tests.contract.test_people_writes import info

    command = CreateUser(client_user_id="made-up-2", info=info())
    CommandRecord.objects.create(
        kind=CreateUser.kind,
        title=command.title(),
        subject_type="new patient",
        subject_id="made-up-2",
        payload=command.payload(),
        form_id=uuid.uuid4(),
        requested_by=by,
        idempotency_key=uuid.uuid4(),
        state="refused",
        refusal="Made up: not now.",
    )


if __name__ == "__main__":
    main()
