"""Registering people, changing who they are, insuring them, ending their connections."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from backoffice.models import AuditEntry, CommandRecord, User
from backoffice.service.users import NewUser
from patients.commands import AddInsurance, CreateUser, follow_resolved_payors
from patients.models import Connection, Demographics, DifferentPeople, Insurance, Patient
from tests.api.rows import staff
from tests.outbox.desk import Desk

State = CommandRecord.State
REGISTER = "/patients/register/"
FAULTS: dict[str, dict[str, Any]] = {
    "drop_after": {},
    "drop_before": {},
    "status_after": {"statuses": [500]},
    "status": {"statuses": [429]},
}

PERSON = {
    "first_name": "Testa",
    "last_name": "Sampleton",
    "dob": "1980-02-29",
    "gender": "female",
    "phone_number": "(555) 010-0199",
    "email": "testa@example.invalid",
    "first_line": "1 Madeup Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85001",
    "proxy_same_address": "on",
    "guarantor_same_address": "on",
    "relationship": "Self",
}
CARD = {"payor": "MUPLAN1 Made-up Mutual", "member_id": "MEMBER-1", "group_id": "G-1"}
NEW_PAYOR = {
    "payor_new": "on",
    "payor_name": "Village Fund",
    "payor_first_line": "1 Fund Road",
    "payor_city": "Phoenix",
    "payor_state": "AZ",
    "payor_zip": "85001",
}
GUARANTOR = {
    "relationship": "Spouse",
    "guarantor_first_name": "Holder",
    "guarantor_last_name": "Sampleton",
    "guarantor_phone_number": "+15550100198",
}


def at_desk(role: str = "front desk") -> Client:
    """Somebody of this role, the same one each time."""
    client = Client()
    known = User.objects.filter(username=role.replace(" ", "-")).first()
    client.force_login(known or staff(role))
    return client


def reference() -> str:
    return f"p-{uuid.uuid4()}"


def register(desk: Desk, client: Client | None = None, **more: Any) -> HttpResponse:
    client = client or at_desk()
    once = {"phone_number": phone(), "email": f"{unlike()}@example.invalid"}
    given = {**PERSON, "client_user_id": reference(), **once, **more}
    return desk.fill(client, REGISTER, **given)


def somebody(desk: Desk, **more: Any) -> Patient:
    """A patient registered just now, as nobody else in the sandbox."""
    mine = reference()
    answer = register(desk, client_user_id=mine, **{"last_name": unlike(), **more})
    assert answer.status_code == 302, told(answer)
    desk.deliver()
    return Patient.objects.get(client_user_id=mine)


def unlike() -> str:
    """A name that resembles no other of these tests."""
    return "S" + uuid.uuid4().hex[:12]


def phone() -> str:
    return f"+1555{uuid.uuid4().int % 10**7:07}"


def told(answer: Any) -> str:
    return str(answer.content.decode())


def users(desk: Desk, mine: str) -> int:
    return desk.count("SELECT count(*) FROM sandbox_user WHERE client_user_id = %s", mine)


def insurances(desk: Desk, patient: Patient) -> int:
    return desk.count("SELECT count(*) FROM sandbox_insurance WHERE user_id = %s", patient.pk)


def payors(desk: Desk, name: str) -> int:
    return desk.count("SELECT count(*) FROM sandbox_payor WHERE name = %s", name)


def street(desk: Desk, patient: Patient) -> str:
    rows = desk.sandbox.query(
        "SELECT first_line FROM sandbox_userinfo WHERE user_id = %s", [patient.pk]
    )
    return str(rows[0][0])


def states(*kinds: str) -> list[tuple[str, str]]:
    rows = CommandRecord.objects.order_by("requested_at", "pk").values_list("kind", "state")
    return [(kind, state) for kind, state in rows if not kinds or kind in kinds]


def test_a_person_with_insurance_is_registered_in_one_go(desk: Desk) -> None:
    client, mine = at_desk(), reference()
    name, number = unlike(), phone()
    spoken = f"({number[2:5]}) {number[5:8]}-{number[8:]}"
    given = {"client_user_id": mine, "last_name": name, "phone_number": spoken, **CARD}
    answer = register(desk, client, **given)
    assert answer.status_code == 302, told(answer)
    waiting = client.get(answer.headers["Location"])
    assert f"Registering <bdi>Testa {name}</bdi>" in told(waiting)
    desk.deliver()
    patient = Patient.objects.get(client_user_id=mine)
    page = reverse("patients:detail", args=[patient.pk])
    assert client.get(answer.headers["Location"]).headers["Location"] == page
    person = Demographics.objects.get(pk=patient.pk)
    assert (person.first_name, person.gender) == ("Testa", "female")
    assert person.phone_number == number
    insurance = Insurance.objects.get(user_id=patient.pk)
    assert (insurance.member_id, insurance.company_name) == ("MEMBER-1", "Made-up Mutual")
    assert insurance.is_primary and insurance.insured_last_name == name
    assert states() == [
        ("patient.create", "done"),
        ("patient.info", "done"),
        ("insurance.create", "done"),
    ]
    entries = AuditEntry.objects.filter(action="change", actor__isnull=False)
    assert [entry.object_type for entry in entries.order_by("pk")] == [row[0] for row in states()]
    shown = told(client.get(page))
    assert "Add primary insurance: Made-up Mutual" in shown and "Confirmed" in shown
    assert users(desk, mine) == 1 and insurances(desk, patient) == 1


def test_a_new_user_is_never_two(desk: Desk) -> None:
    for kind, more in FAULTS.items():
        mine = reference()
        assert register(desk, client_user_id=mine, last_name=unlike()).status_code == 302
        desk.fault(kind, "/v2/user$", methods=["POST"], **more)
        desk.deliver()
        asked = CommandRecord.objects.get(subject_id=mine)
        lost = kind != "status"
        assert asked.state == (State.UNCERTAIN if lost else State.WAITING), kind
        desk.later()
        asked.refresh_from_db()
        assert asked.state == State.DONE, kind
        assert users(desk, mine) == 1, kind
        assert Demographics.objects.get(user__client_user_id=mine).first_name == "Testa", kind


def test_a_reference_that_another_patient_has_is_refused_on_its_field(desk: Desk) -> None:
    taken = Patient.objects.earliest("created_on").client_user_id
    answer = register(desk, client_user_id=taken)
    assert answer.status_code == 422 and "Another patient has this reference" in told(answer)
    mine, client = reference(), at_desk()
    with desk.sandbox.service() as service:
        other = service.users.create(NewUser(client_user_id=mine)).data
    register(desk, client, client_user_id=mine)
    desk.deliver()
    asked = CommandRecord.objects.get(subject_id=mine)
    assert asked.state == State.REFUSED and asked.refusal_fields[0]["field"] == "client_user_id"
    assert states() == [("patient.create", "refused")]
    assert not Demographics.objects.filter(pk=other.user_id).exists()
    again = told(client.get(f"{REGISTER}?again={asked.pk}"))
    assert 'value="Testa"' in again and "Another patient has this reference" in again


def test_a_step_that_is_refused_keeps_what_was_done_and_what_was_typed(desk: Desk) -> None:
    client, mine = at_desk(), reference()
    desk.fault("status", "/info$", methods=["PATCH"], statuses=[422])
    register(desk, client, client_user_id=mine, last_name=unlike(), **CARD)
    desk.deliver()
    patient = Patient.objects.get(client_user_id=mine)
    assert states() == [("patient.create", "done"), ("patient.info", "refused")]
    refused = CommandRecord.objects.get(kind="patient.info")
    page = told(client.get(reverse("patients:detail", args=[patient.pk])))
    assert f"{refused.form_url}?again={refused.pk}" in page
    address = f"{refused.form_url}?again={refused.pk}"
    form = told(client.get(address))
    assert 'value="1 Madeup Street"' in form and 'value="MEMBER-1"' in form
    assert 'value="MUPLAN1 Made-up Mutual" checked' in form
    assert "id_client_user_id" not in form
    answer = desk.fill(client, address, **{**PERSON, "last_name": "Sampleton", **CARD})
    assert answer.status_code == 302, told(answer)
    desk.deliver()
    assert insurances(desk, patient) == 1 and users(desk, mine) == 1
    assert Demographics.objects.get(pk=patient.pk).last_name == "Sampleton"


def test_details_are_written_once_and_truly(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:edit", args=[patient.pk])
    seen = client.get(address).context["form"]["seen"].value()
    for number, (kind, more) in enumerate(FAULTS.items()):
        there = f"{number} Fault Street"
        answer = desk.fill(client, address, **{**PERSON, "first_line": there, "seen": seen})
        assert answer.status_code == 302, told(answer)
        desk.fault(kind, "/info$", methods=["PATCH"], **more)
        desk.deliver()
        desk.later()
        assert desk.newest().state == State.DONE, kind
        assert street(desk, patient) == there, kind
        assert Demographics.objects.get(pk=patient.pk).first_line == there, kind
        seen = client.get(address).context["form"]["seen"].value()


def test_details_that_changed_meanwhile_are_not_written_over(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:edit", args=[patient.pk])
    seen = client.get(address).context["form"]["seen"].value()
    typed = {**PERSON, "first_line": "7 My Street", "seen": seen}
    assert desk.fill(client, address, **typed).status_code == 302
    with desk.sandbox.service() as service:
        info = CreateUser.read(CommandRecord.objects.get(kind="patient.create").payload).info
        info.address.first_line = "8 Their Street"
        service.users.update_info(patient.pk, info)
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "meanwhile" in asked.refusal
    assert street(desk, patient) == "8 Their Street"
    form = told(client.get(f"{address}?again={asked.pk}"))
    assert 'value="7 My Street"' in form and "8 Their Street" in form
    fresh = client.get(f"{address}?again={asked.pk}").context["form"]["seen"].value()
    assert fresh != seen
    assert desk.fill(client, address, **{**typed, "seen": fresh}).status_code == 302
    desk.deliver()
    assert street(desk, patient) == "7 My Street"


@pytest.mark.parametrize("more", [CARD, {**CARD, **GUARANTOR}])
def test_an_insurance_is_never_two(desk: Desk, more: dict[str, str]) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:insure", args=[patient.pk])
    for number, (kind, faults) in enumerate(FAULTS.items(), start=1):
        shown = client.get(address).context["form"]
        card = {
            **PERSON, **more, "member_id": f"M-{number}", "rank": "primary",
            "before_primary": shown["before_primary"].value(),
            "before_secondary": shown["before_secondary"].value(),
        }  # fmt: skip
        answer = desk.fill(client, address, **card)
        assert answer.status_code == 302, told(answer)
        desk.fault(kind, "/insurance$", methods=["POST"], **faults)
        desk.deliver()
        desk.later()
        asked = desk.newest()
        if kind == "drop_before":
            assert asked.state == State.UNDECIDED, kind
            assert insurances(desk, patient) == number - 1
            decide = reverse("commands:decide", args=[asked.pk])
            client.post(decide, {"decision": "again", "attempt": asked.attempts})
            desk.deliver()
            asked.refresh_from_db()
        assert asked.state == State.DONE, (kind, asked.refusal)
        assert insurances(desk, patient) == number, kind
        current = Insurance.objects.get(user_id=patient.pk, superseded_at=None)
        assert current.member_id == f"M-{number}"
    assert Insurance.objects.filter(user_id=patient.pk).count() == 4
    page = told(client.get(reverse("patients:insurance", args=[patient.pk])))
    assert 'Earlier</h2><span class="count">3</span>' in page


def test_a_payor_of_our_own_is_never_two_and_its_insurance_follows(desk: Desk) -> None:
    client = at_desk()
    for kind, more in FAULTS.items():
        patient, name = somebody(desk), f"Fund {unlike()}"
        address = reverse("patients:insure", args=[patient.pk])
        given = {**PERSON, **NEW_PAYOR, "payor_name": name, "member_id": "M-1"}
        assert desk.fill(client, address, **given).status_code == 302
        desk.fault(kind, "/v3/payor$", methods=["POST"], **more)
        desk.deliver()
        desk.later()
        asked = CommandRecord.objects.get(kind="payor.create", patient_id=patient.pk)
        if kind == "drop_before":
            assert asked.state == State.UNDECIDED and not asked.found, kind
            decide = reverse("commands:decide", args=[asked.pk])
            client.post(decide, {"decision": "again", "attempt": asked.attempts})
            follow_resolved_payors()
            follow_resolved_payors()
            desk.deliver()
        asked.refresh_from_db()
        assert asked.state == State.DONE, kind
        assert payors(desk, name) == 1 and insurances(desk, patient) == 1, kind
        assert Insurance.objects.get(user_id=patient.pk).company_name == name


def test_a_federal_code_becomes_that_of_the_state_plan(desk: Desk) -> None:
    """The look-up does not take the code literally."""
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:insure", args=[patient.pk])
    card = {**PERSON, "payor": "MEDFED Federal", "member_id": "F-1"}
    assert desk.fill(client, address, **card).status_code == 302
    desk.fault("drop_after", "/insurance$", methods=["POST"])
    desk.deliver()
    desk.later()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "look-up")
    assert Insurance.objects.get(user_id=patient.pk).payor_code == "MEDAZ"


def test_what_resembles_the_insurance_is_for_a_person_to_judge(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:insure", args=[patient.pk])
    assert desk.fill(client, address, **{**PERSON, **CARD}).status_code == 302
    desk.fault("drop_before", "/insurance$", methods=["POST"])
    desk.deliver()
    command = desk.newest()
    with desk.sandbox.service() as service:
        body = AddInsurance.read(command.payload).body()
        body.payor_code = "MUPLAN2"
        service.insurance.create(patient.pk, body)
    desk.later()
    command.refresh_from_db()
    assert command.state == State.UNDECIDED
    assert "Sample Shield, member id MEMBER-1" in command.found[0]["words"]
    page = told(client.get(reverse("commands:detail", args=[command.pk])))
    assert "Sample Shield, member id MEMBER-1" in page
    assert insurances(desk, patient) == 1


def test_the_same_insurance_is_not_added_again(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk, **CARD)
    answer = desk.fill(client, reverse("patients:insure", args=[patient.pk]), **{**PERSON, **CARD})
    assert answer.status_code == 422 and "on record already" in told(answer)
    assert insurances(desk, patient) == 1


def test_an_unknown_payor_is_refused_where_it_was_chosen(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:insure", args=[patient.pk])
    card = {**PERSON, **CARD, "payor": "NOSUCH Nobody"}
    assert desk.fill(client, address, **card).status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED
    form = client.get(f"{address}?again={asked.pk}").context["form"]
    assert form.errors["payor"] == ["Payor not found"]
    assert form["member_id"].value() == "MEMBER-1"


def connected(auth: str, desk: Desk) -> Connection:
    rows = desk.sandbox.query(
        "SELECT c.user_id, c.provider_id FROM sandbox_connection c"
        " JOIN sandbox_provider p ON p.slug = c.provider_id WHERE p.auth_type = %s",
        [auth],
    )
    for user_id, slug in rows:
        found = Connection.objects.filter(user_id=user_id, slug=slug, missing_since=None).first()
        if found is not None:
            return found
    raise AssertionError(f"nobody has a source of {auth}")


def stands(desk: Desk, source: Connection) -> int:
    return desk.count(
        "SELECT count(*) FROM sandbox_connection WHERE user_id = %s AND provider_id = %s",
        source.user_id,
        source.slug,
    )


def test_a_source_is_disconnected_whatever_becomes_of_the_answer(desk: Desk) -> None:
    client = at_desk()
    for kind, more in FAULTS.items():
        source = connected("oauth", desk)
        address = reverse("patients:disconnect", args=[source.user_id, source.slug])
        assert "keeps connected goes on" in told(client.get(address))
        assert desk.fill(client, address).status_code == 302
        desk.fault(kind, f"/{source.slug}$", methods=["DELETE"], **more)
        desk.deliver()
        desk.later()
        assert desk.newest().state == State.DONE, kind
        assert stands(desk, source) == 0, kind
        source.refresh_from_db()
        assert source.missing_since is not None, kind


def test_a_source_that_the_service_cannot_end_is_told_plainly(desk: Desk) -> None:
    client, source = at_desk(), connected("sdk", desk)
    address = reverse("patients:disconnect", args=[source.user_id, source.slug])
    assert desk.fill(client, address).status_code == 302
    desk.deliver()
    assert desk.newest().state == State.DONE and stands(desk, source) == 1
    page = told(client.get(reverse("patients:devices", args=[source.user_id])))
    assert "and the source is still connected" in page


def test_a_source_that_is_gone_already_needs_no_sending(desk: Desk) -> None:
    client, source = at_desk(), connected("oauth", desk)
    address = reverse("patients:disconnect", args=[source.user_id, source.slug])
    assert desk.fill(client, address).status_code == 302
    with desk.sandbox.service() as service:
        service.users.deregister(source.user_id or "", source.slug)
    desk.deliver()
    asked = desk.newest()
    # What was wanted is so, whoever did it.
    assert (asked.state, asked.confirmed_by) == (State.DONE, "look-up")
    assert asked.attempts == 0 and stands(desk, source) == 0


def test_possible_duplicates_stop_once_and_are_remembered_both_ways(desk: Desk) -> None:
    client, name = at_desk(), unlike()
    first = somebody(desk, last_name=name)
    swapped = {"first_name": name, "last_name": "Testa", "phone_number": phone(),
               "email": f"{unlike()}@example.invalid"}  # fmt: skip
    answer = register(desk, client, **swapped)
    page = told(answer)
    assert answer.status_code == 422 and "Look at the possible duplicates first" in page
    assert "First and last name swapped, same birth date" in page
    assert f'value="{name}"' in page
    assert CommandRecord.objects.filter(kind="patient.create").count() == 1
    mine = reference()
    answer = register(desk, client, client_user_id=mine, **swapped, not_same=str(first.pk))
    assert answer.status_code == 302, told(answer)
    desk.deliver()
    second = Patient.objects.get(client_user_id=mine)
    assert DifferentPeople.than(first.pk) == {second.pk}
    assert DifferentPeople.than(second.pk) == {first.pk}
    typed = {**PERSON, **swapped, "patient": str(second.pk)}
    panel = told(client.post(reverse("patients:duplicates"), typed))
    assert str(first.pk) not in panel
    other = told(client.post(reverse("patients:duplicates"), {**PERSON, **swapped}))
    assert str(first.pk) in other


def test_two_of_the_staff_do_not_register_one_person_at_once(desk: Desk) -> None:
    name = unlike()
    assert register(desk, last_name=name).status_code == 302
    answer = register(desk, at_desk("clinician"), last_name=name)
    assert answer.status_code == 422
    assert "asked for something about this already" in told(answer)
    desk.deliver()
    assert Demographics.objects.filter(last_name=name).count() == 1


def test_one_reference_never_makes_two_people_one(desk: Desk) -> None:
    mine, client = reference(), at_desk()
    register(desk, client, client_user_id=mine, last_name=unlike())
    desk.fault("drop_before", "/v2/user$")
    desk.deliver()
    first = CommandRecord.objects.get(subject_id=mine)
    assert first.state == State.UNCERTAIN
    # Somebody else is registered under it at the same time: told at once, while this is open.
    answer = register(desk, client, client_user_id=mine, last_name=unlike())
    assert answer.status_code == 422 and "Another patient has this reference" in told(answer)
    # And where it got through all the same, the user it made is not taken for the first one's.
    with desk.sandbox.service() as service:
        other = service.users.create(NewUser(client_user_id=mine)).data
    CommandRecord.objects.create(
        kind="patient.create",
        subject_type="new patient",
        subject_id=mine,
        payload={},
        form_id=uuid.uuid4(),
        idempotency_key=uuid.uuid4(),
        requested_by=first.requested_by,
        state=State.DONE,
        remote_id=str(other.user_id),
    )
    desk.later()
    first.refresh_from_db()
    assert first.state == State.REFUSED and first.remote_id == ""
