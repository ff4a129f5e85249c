"""Notes: who writes and reads them, whom they tell, and that they stay."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client, RequestFactory

from backoffice.audit.models import AuditEntry
from backoffice.team.actions import MAX_NOTE_LENGTH, add_note, mentioned_names, record_contact
from backoffice.team.models import Contact, Note, Notification
from tests.api.rows import staff
from tests.team.forms import ORDER, PATIENT, about, post, shown, signed

pytestmark = pytest.mark.django_db
LIST = 'notes_on "order" order patient'


def test_a_note_is_written_shown_and_audited(client: Client) -> None:
    user = staff("front desk")
    client.force_login(user)
    form = about(user)
    answer = post(client, "note", about=form, text="Asked for a <b>later</b> visit.\nWill call.")
    assert answer.status_code == 302
    assert answer["Location"] == f"/orders/#notes-order-{ORDER}"
    row = Note.objects.get()
    assert (row.subject_type, row.subject_id, row.patient_id) == ("order", str(ORDER), PATIENT)
    assert row.author == user
    page = shown(user, LIST)
    assert "Asked for a &lt;b&gt;later&lt;/b&gt; visit.<br>Will call." in page
    entry = AuditEntry.objects.get(action="change")
    assert (entry.object_type, entry.actor) == ("note", user)
    assert entry.object_ids == [str(row.pk), str(ORDER)] and entry.patient_ids == [PATIENT]
    assert "later" not in entry.reason


def test_with_htmx_the_part_of_the_page_comes_back(client: Client) -> None:
    client.force_login(staff("front desk"))
    answer = post(client, "note", htmx=True, text="One more.")
    page = answer.content.decode()
    assert answer.status_code == 200 and "One more." in page and "<html" not in page


@pytest.mark.parametrize("htmx", [True, False])
def test_an_error_keeps_what_was_typed(client: Client, htmx: bool) -> None:
    client.force_login(staff("front desk"))
    answer = post(client, "note", htmx=htmx, text="   ")
    assert "Write what your colleagues should know." in answer.content.decode()
    long = "x" * (MAX_NOTE_LENGTH + 1)
    answer = post(client, "note", htmx=htmx, text=long)
    page = answer.content.decode()
    assert long in page and "at most 4,000 characters" in page
    assert answer.status_code == (200 if htmx else 400)
    assert not Note.objects.exists()


def test_only_what_a_page_showed_can_be_written_about(client: Client) -> None:
    client.force_login(staff("front desk"))
    for forged in ("", "order:1", signed() + "x"):
        answer = post(client, "note", about=forged, text="Something")
        assert answer.status_code == 400
    assert not Note.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_who_may_not_write_neither_sees_nor_adds_notes(client: Client, role: str) -> None:
    Note.objects.create(
        subject_type="order", subject_id=str(ORDER), text="Canary words", author=staff("clinician")
    )
    user = staff(role)
    assert "Canary" not in shown(user, LIST) and "form" not in shown(user, LIST)
    client.force_login(user)
    assert post(client, "note", text="Something").status_code == 403
    assert Note.objects.count() == 1


def test_a_way_back_never_leaves_the_house(client: Client) -> None:
    client.force_login(staff("front desk"))
    for wrong in ("https://elsewhere.invalid/", "//elsewhere.invalid/", ""):
        answer = post(client, "note", text="Something", next=wrong)
        assert answer["Location"].startswith(f"/orders/{ORDER}/#notes-")


def test_who_is_named_is_told_once_and_not_by_name(client: Client) -> None:
    ana, ben = staff("clinician", "ana.sample"), staff("front desk", "Ben")
    staff("viewer", "vera")
    author = staff("lab coordinator", "cleo")
    client.force_login(author)
    text = "@Ana.Sample and @ben, @ana.sample: see @cleo. Mail a@ben.invalid, not @vera."
    page = post(client, "note", htmx=True, text=text).content.decode()
    assert {row.user for row in Notification.objects.all()} == {ana, ben}
    row = Notification.objects.filter(user=ana).get()
    assert (row.kind, row.subject_type, row.subject_id) == ("mentioned", "order", str(ORDER))
    assert "nobody here is called @vera" in page
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
def test_names_in_a_text(text: str, names: list[str]) -> None:
    assert mentioned_names(text) == names


def test_notes_and_contacts_cannot_be_changed_or_removed() -> None:
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


def test_calls_stand_among_the_notes_and_on_the_patient_all_of_them(rf: RequestFactory) -> None:
    user = staff("front desk")
    request = rf.get("/")
    request.user = user
    record_contact(request, PATIENT, "order", ORDER, "voicemail", "Will try at noon")
    add_note(request, "patient", PATIENT, "Prefers mornings", PATIENT)
    with pytest.raises(LookupError):
        record_contact(request, PATIENT, "order", ORDER, "shouted")
    on_order = shown(user, LIST)
    assert "Left a voicemail" in on_order and "Prefers mornings" not in on_order
    on_patient = shown(user, 'notes_on "patient" patient patient')
    assert "Left a voicemail" in on_patient and "Prefers mornings" in on_patient
    assert "on the order" in on_patient


def test_notes_on_a_result_are_read_by_those_who_see_results(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.resolver_match = None
    request.user = staff("clinician")
    add_note(request, "result", ORDER, "Potassium 6.9, call again", PATIENT)
    add_note(request, "order", ORDER, "Wants a later visit", PATIENT)
    on_patient = 'notes_on "patient" patient patient'
    assert "Potassium 6.9" in shown(staff("lab coordinator"), on_patient)
    page = shown(staff("front desk"), on_patient)
    assert "Potassium" not in page and "Wants a later visit" in page
