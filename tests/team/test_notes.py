"""Notes: who can write and read them, whom they notify, and that they cannot be changed."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client, RequestFactory

from backoffice.audit.models import AuditEntry
from backoffice.team.actions import MAX_NOTE_LENGTH, add_note, mentioned_names, record_contact
from backoffice.team.models import Contact, Note, Notification
from tests.api.rows import staff
from tests.team.forms import ORDER, PATIENT, form_subject, post, render_tag, signed_subject

pytestmark = pytest.mark.django_db
NOTES_TAG = 'notes_on("order", order, patient)'


def test_note_is_stored_shown_and_recorded(client: Client) -> None:
    user = staff("front desk")
    client.force_login(user)
    form = form_subject(user)
    answer = post(client, "note", about=form, text="Asked for a <b>later</b> visit.\nWill call.")
    assert answer.status_code == 302
    assert answer["Location"] == f"/orders/#notes-order-{ORDER}"
    row = Note.objects.get()
    assert (row.subject_type, row.subject_id, row.patient_id) == ("order", str(ORDER), PATIENT)
    assert row.author == user
    page = render_tag(user, NOTES_TAG)
    assert "Asked for a &lt;b&gt;later&lt;/b&gt; visit.<br>Will call." in page
    entry = AuditEntry.objects.get(action="change")
    assert (entry.object_type, entry.actor) == ("note", user)
    assert entry.object_ids == [str(row.pk), str(ORDER)] and entry.patient_ids == [PATIENT]
    assert "later" not in entry.reason


def test_htmx_note_returns_fragment(client: Client) -> None:
    client.force_login(staff("front desk"))
    answer = post(client, "note", htmx=True, text="One more.")
    page = answer.content.decode()
    assert answer.status_code == 200 and "One more." in page and "<html" not in page


@pytest.mark.parametrize("htmx", [True, False])
def test_invalid_note_keeps_typed_text(client: Client, htmx: bool) -> None:
    client.force_login(staff("front desk"))
    answer = post(client, "note", htmx=htmx, text="   ")
    assert "Write a note first." in answer.content.decode()
    too_long = "x" * (MAX_NOTE_LENGTH + 1)
    answer = post(client, "note", htmx=htmx, text=too_long)
    page = answer.content.decode()
    assert too_long in page and "at most 4,000 characters" in page
    assert answer.status_code == (200 if htmx else 400)
    assert not Note.objects.exists()


def test_forged_subject_is_refused(client: Client) -> None:
    client.force_login(staff("front desk"))
    for forged in ("", "order:1", signed_subject() + "x"):
        answer = post(client, "note", about=forged, text="Something")
        assert answer.status_code == 400
    assert not Note.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_notes_require_write_permission(client: Client, role: str) -> None:
    Note.objects.create(
        subject_type="order", subject_id=str(ORDER), text="Canary words", author=staff("clinician")
    )
    user = staff(role)
    assert "Canary" not in render_tag(user, NOTES_TAG) and "form" not in render_tag(user, NOTES_TAG)
    client.force_login(user)
    assert post(client, "note", text="Something").status_code == 403
    assert Note.objects.count() == 1


def test_redirect_after_note_stays_on_site(client: Client) -> None:
    client.force_login(staff("front desk"))
    for target in ("https://elsewhere.invalid/", "//elsewhere.invalid/", ""):
        answer = post(client, "note", text="Something", next=target)
        assert answer["Location"].startswith(f"/orders/{ORDER}/#notes-")


def test_mentioned_person_is_notified_once(client: Client) -> None:
    ana, ben = staff("clinician", "ana.sample"), staff("front desk", "Ben")
    staff("viewer", "vera")
    author = staff("lab coordinator", "cleo")
    client.force_login(author)
    text = "@Ana.Sample and @ben, @ana.sample: see @cleo. Mail a@ben.invalid, not @vera."
    page = post(client, "note", htmx=True, text=text).content.decode()
    assert {row.user for row in Notification.objects.all()} == {ana, ben}
    row = Notification.objects.filter(user=ana).get()
    assert (row.kind, row.subject_type, row.subject_id) == ("mentioned", "order", str(ORDER))
    assert "No one was notified as @vera" in page
    assert "<strong>@Ana.Sample</strong> and <strong>@ben</strong>" in page


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ana", ["ana"]),
        ("(@ana.)", ["ana"]),
        ("@ana @ANA", ["ana"]),
        ("at 8 @ noon", []),
        ("write to someone@example.invalid", []),
        ("@a-b.c+d, @x", ["a-b.c+d", "x"]),
    ],
)
def test_mentioned_names_are_found(text: str, names: list[str]) -> None:
    assert mentioned_names(text) == names


def test_notes_and_contacts_cannot_be_changed_or_deleted() -> None:
    user = staff("front desk")
    note = Note.objects.create(
        subject_type="order", subject_id=str(ORDER), text="As said", author=user
    )
    call = Contact.objects.create(
        subject_type="order", subject_id=str(ORDER), outcome="spoke", by=user, patient_id=PATIENT
    )
    for row in (note, call):
        table = row._meta.db_table
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET subject_id = 'x'"):
            with (
                pytest.raises(IntegrityError, match="added, never changed"),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(statement)
    assert Note.objects.get().text == "As said"


def test_calls_are_listed_with_notes_of_order_and_patient(rf: RequestFactory) -> None:
    user = staff("front desk")
    request = rf.get("/")
    request.user = user
    record_contact(request, PATIENT, "order", ORDER, "voicemail", "Will try at noon")
    add_note(request, "patient", PATIENT, "Prefers mornings", PATIENT)
    with pytest.raises(LookupError):
        record_contact(request, PATIENT, "order", ORDER, "shouted")
    on_order = render_tag(user, NOTES_TAG)
    assert "Left a voicemail" in on_order and "Prefers mornings" not in on_order
    on_patient = render_tag(user, 'notes_on("patient", patient, patient)')
    assert "Left a voicemail" in on_patient and "Prefers mornings" in on_patient
    assert "on the order" in on_patient


def test_notes_on_results_require_results_permission(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.resolver_match = None
    request.user = staff("clinician")
    add_note(request, "result", ORDER, "Potassium 6.9, call again", PATIENT)
    add_note(request, "order", ORDER, "Wants a later visit", PATIENT)
    on_patient = 'notes_on("patient", patient, patient)'
    assert "Potassium 6.9" in render_tag(staff("lab coordinator"), on_patient)
    page = render_tag(staff("front desk"), on_patient)
    assert "Potassium" not in page and "Wants a later visit" in page
