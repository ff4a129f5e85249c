"""Registration, details, insurance and connected sources of patients."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from backoffice.service.users import NewUser
from patients.commands import AddInsurance, CreateUser, follow_resolved_payors
from patients.models import Connection, Demographics, DifferentPeople, Insurance, Patient
from tests.outbox.harness import OutboxHarness
from tests.outbox.patient_forms import (
    CARD,
    FAULTS,
    GUARANTOR,
    NEW_PAYOR,
    PERSON,
    REGISTER,
    State,
    client_of_role,
    count_insurances,
    count_payors,
    count_users,
    new_reference,
    page_text,
    register_patient,
    sandbox_street,
    submit_registration,
    unique_name,
    unique_phone,
)


def command_states(*kinds: str) -> list[tuple[str, str]]:
    rows = CommandRecord.objects.order_by("requested_at", "pk").values_list("kind", "state")
    return [(kind, state) for kind, state in rows if not kinds or kind in kinds]


def test_registration_with_insurance_takes_one_form(harness: OutboxHarness) -> None:
    client, reference = client_of_role(), new_reference()
    name, number = unique_name(), unique_phone()
    formatted_phone = f"({number[2:5]}) {number[5:8]}-{number[8:]}"
    form_values = {
        "client_user_id": reference,
        "last_name": name,
        "phone_number": formatted_phone,
        **CARD,
    }
    response = submit_registration(harness, client, **form_values)
    assert response.status_code == 302, page_text(response)
    waiting = client.get(response.headers["Location"])
    assert f"Registering <bdi>Testa {name}</bdi>" in page_text(waiting)
    harness.deliver()
    patient = Patient.objects.get(client_user_id=reference)
    page = reverse("patients:detail", args=[patient.pk])
    assert client.get(response.headers["Location"]).headers["Location"] == page
    person = Demographics.objects.get(pk=patient.pk)
    assert (person.first_name, person.gender) == ("Testa", "female")
    assert person.phone_number == number
    insurance = Insurance.objects.get(user_id=patient.pk)
    assert (insurance.member_id, insurance.company_name) == ("MEMBER-1", "Made-up Mutual")
    assert insurance.is_primary and insurance.insured_last_name == name
    assert command_states() == [
        ("patient.create", "done"),
        ("patient.info", "done"),
        ("insurance.create", "done"),
    ]
    entries = AuditEntry.objects.filter(action="change", actor__isnull=False)
    assert [entry.object_type for entry in entries.order_by("pk")] == [
        row[0] for row in command_states()
    ]
    detail_page = page_text(client.get(page))
    assert "Add primary insurance: Made-up Mutual" in detail_page and "Confirmed" in detail_page
    assert count_users(harness, reference) == 1 and count_insurances(harness, patient) == 1


def test_user_is_created_once_under_faults(harness: OutboxHarness) -> None:
    for kind, more in FAULTS.items():
        reference = new_reference()
        assert (
            submit_registration(
                harness, client_user_id=reference, last_name=unique_name()
            ).status_code
            == 302
        )
        harness.add_fault(kind, "/v2/user$", methods=["POST"], **more)
        harness.deliver()
        command = CommandRecord.objects.get(subject_id=reference)
        is_lost = kind != "status"
        assert command.state == (State.UNCERTAIN if is_lost else State.WAITING), kind
        harness.pass_time()
        command.refresh_from_db()
        assert command.state == State.DONE, kind
        assert count_users(harness, reference) == 1, kind
        assert Demographics.objects.get(user__client_user_id=reference).first_name == "Testa", kind


def test_used_reference_is_refused_at_its_field(
    harness: OutboxHarness,
) -> None:
    taken = Patient.objects.earliest("created_on").client_user_id
    response = submit_registration(harness, client_user_id=taken)
    assert response.status_code == 422 and "Another patient has this reference" in page_text(
        response
    )
    reference, client = new_reference(), client_of_role()
    with harness.sandbox.service() as service:
        other = service.users.create(NewUser(client_user_id=reference)).data
    submit_registration(harness, client, client_user_id=reference)
    harness.deliver()
    command = CommandRecord.objects.get(subject_id=reference)
    assert command.state == State.REFUSED and command.refusal_fields[0]["field"] == "client_user_id"
    assert command_states() == [("patient.create", "refused")]
    assert not Demographics.objects.filter(pk=other.user_id).exists()
    reopened = page_text(client.get(f"{REGISTER}?again={command.pk}"))
    assert 'value="Testa"' in reopened and "Another patient has this reference" in reopened


def test_refused_step_keeps_earlier_steps_and_form_values(
    harness: OutboxHarness,
) -> None:
    client, reference = client_of_role(), new_reference()
    harness.add_fault("status", "/info$", methods=["PATCH"], statuses=[422])
    submit_registration(harness, client, client_user_id=reference, last_name=unique_name(), **CARD)
    harness.deliver()
    patient = Patient.objects.get(client_user_id=reference)
    assert command_states() == [("patient.create", "done"), ("patient.info", "refused")]
    refused = CommandRecord.objects.get(kind="patient.info")
    page = page_text(client.get(reverse("patients:detail", args=[patient.pk])))
    assert f"{refused.form_url}?again={refused.pk}" in page
    address = f"{refused.form_url}?again={refused.pk}"
    form = page_text(client.get(address))
    assert 'value="1 Madeup Street"' in form and 'value="MEMBER-1"' in form
    assert 'value="MUPLAN1 Made-up Mutual" checked' in form
    assert "id_client_user_id" not in form
    response = harness.submit_form(client, address, **{**PERSON, "last_name": "Sampleton", **CARD})
    assert response.status_code == 302, page_text(response)
    harness.deliver()
    assert count_insurances(harness, patient) == 1 and count_users(harness, reference) == 1
    assert Demographics.objects.get(pk=patient.pk).last_name == "Sampleton"


def test_details_are_saved_under_every_fault(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:edit", args=[patient.pk])
    seen_digest = client.get(address).context["form"]["seen"].value()
    for number, (kind, more) in enumerate(FAULTS.items()):
        new_street = f"{number} Fault Street"
        response = harness.submit_form(
            client, address, **{**PERSON, "first_line": new_street, "seen": seen_digest}
        )
        assert response.status_code == 302, page_text(response)
        harness.add_fault(kind, "/info$", methods=["PATCH"], **more)
        harness.deliver()
        harness.pass_time()
        assert harness.newest_command().state == State.DONE, kind
        assert sandbox_street(harness, patient) == new_street, kind
        assert Demographics.objects.get(pk=patient.pk).first_line == new_street, kind
        seen_digest = client.get(address).context["form"]["seen"].value()


def test_details_changed_meanwhile_are_not_overwritten(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:edit", args=[patient.pk])
    seen_digest = client.get(address).context["form"]["seen"].value()
    typed = {**PERSON, "first_line": "7 My Street", "seen": seen_digest}
    assert harness.submit_form(client, address, **typed).status_code == 302
    with harness.sandbox.service() as service:
        info = CreateUser.read(CommandRecord.objects.get(kind="patient.create").payload).info
        info.address.first_line = "8 Their Street"
        service.users.update_info(patient.pk, info)
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "in the meantime" in command.refusal
    assert sandbox_street(harness, patient) == "8 Their Street"
    form = page_text(client.get(f"{address}?again={command.pk}"))
    assert 'value="7 My Street"' in form and "8 Their Street" in form
    current_digest = client.get(f"{address}?again={command.pk}").context["form"]["seen"].value()
    assert current_digest != seen_digest
    assert (
        harness.submit_form(client, address, **{**typed, "seen": current_digest}).status_code == 302
    )
    harness.deliver()
    assert sandbox_street(harness, patient) == "7 My Street"


@pytest.mark.parametrize("more", [CARD, {**CARD, **GUARANTOR}])
def test_insurance_is_created_once_under_faults(
    harness: OutboxHarness, more: dict[str, str]
) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:insure", args=[patient.pk])
    for number, (kind, faults) in enumerate(FAULTS.items(), start=1):
        form = client.get(address).context["form"]
        card = {
            **PERSON, **more, "member_id": f"M-{number}", "rank": "primary",
            "before_primary": form["before_primary"].value(),
            "before_secondary": form["before_secondary"].value(),
        }  # fmt: skip
        response = harness.submit_form(client, address, **card)
        assert response.status_code == 302, page_text(response)
        harness.add_fault(kind, "/insurance$", methods=["POST"], **faults)
        harness.deliver()
        harness.pass_time()
        command = harness.newest_command()
        if kind == "drop_before":
            assert command.state == State.UNDECIDED, kind
            assert count_insurances(harness, patient) == number - 1
            decide = reverse("commands:decide", args=[command.pk])
            client.post(decide, {"decision": "again", "attempt": command.attempts})
            harness.deliver()
            command.refresh_from_db()
        assert command.state == State.DONE, (kind, command.refusal)
        assert count_insurances(harness, patient) == number, kind
        current = Insurance.objects.get(user_id=patient.pk, superseded_at=None)
        assert current.member_id == f"M-{number}"
    assert Insurance.objects.filter(user_id=patient.pk).count() == 4
    page = page_text(client.get(reverse("patients:insurance", args=[patient.pk])))
    assert 'Earlier</h2><span class="count">3</span>' in page


def test_payor_is_created_once_and_insurance_follows(harness: OutboxHarness) -> None:
    client = client_of_role()
    for kind, more in FAULTS.items():
        patient, name = register_patient(harness), f"Fund {unique_name()}"
        address = reverse("patients:insure", args=[patient.pk])
        form_values = {**PERSON, **NEW_PAYOR, "payor_name": name, "member_id": "M-1"}
        assert harness.submit_form(client, address, **form_values).status_code == 302
        harness.add_fault(kind, "/v3/payor$", methods=["POST"], **more)
        harness.deliver()
        harness.pass_time()
        command = CommandRecord.objects.get(kind="payor.create", patient_id=patient.pk)
        if kind == "drop_before":
            assert command.state == State.UNDECIDED and not command.found, kind
            decide = reverse("commands:decide", args=[command.pk])
            client.post(decide, {"decision": "again", "attempt": command.attempts})
            follow_resolved_payors()
            follow_resolved_payors()
            harness.deliver()
        command.refresh_from_db()
        assert command.state == State.DONE, kind
        assert count_payors(harness, name) == 1 and count_insurances(harness, patient) == 1, kind
        assert Insurance.objects.get(user_id=patient.pk).company_name == name


def test_federal_payor_code_becomes_the_state_plan(harness: OutboxHarness) -> None:
    """The lookup does not compare the code literally."""
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:insure", args=[patient.pk])
    card = {**PERSON, "payor": "MEDFED Federal", "member_id": "F-1"}
    assert harness.submit_form(client, address, **card).status_code == 302
    harness.add_fault("drop_after", "/insurance$", methods=["POST"])
    harness.deliver()
    harness.pass_time()
    command = harness.newest_command()
    assert (command.state, command.confirmed_by) == (State.DONE, "look-up")
    assert Insurance.objects.get(user_id=patient.pk).payor_code == "MEDAZ"


def test_similar_insurance_is_undecided(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:insure", args=[patient.pk])
    assert harness.submit_form(client, address, **{**PERSON, **CARD}).status_code == 302
    harness.add_fault("drop_before", "/insurance$", methods=["POST"])
    harness.deliver()
    command = harness.newest_command()
    with harness.sandbox.service() as service:
        body = AddInsurance.read(command.payload).body()
        body.payor_code = "MUPLAN2"
        service.insurance.create(patient.pk, body)
    harness.pass_time()
    command.refresh_from_db()
    assert command.state == State.UNDECIDED
    assert "Sample Shield, member ID MEMBER-1" in command.found[0]["words"]
    page = page_text(client.get(reverse("commands:detail", args=[command.pk])))
    assert "Sample Shield, member ID MEMBER-1" in page
    assert count_insurances(harness, patient) == 1


def test_same_insurance_is_refused(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness, **CARD)
    response = harness.submit_form(
        client, reverse("patients:insure", args=[patient.pk]), **{**PERSON, **CARD}
    )
    assert response.status_code == 422 and "already on file" in page_text(response)
    assert count_insurances(harness, patient) == 1


def test_unknown_payor_is_refused_at_its_field(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:insure", args=[patient.pk])
    card = {**PERSON, **CARD, "payor": "NOSUCH Nobody"}
    assert harness.submit_form(client, address, **card).status_code == 302
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED
    form = client.get(f"{address}?again={command.pk}").context["form"]
    assert form.errors["payor"] == ["Payor not found"]
    assert form["member_id"].value() == "MEMBER-1"


def find_connection(auth_type: str, harness: OutboxHarness) -> Connection:
    rows = harness.sandbox.query(
        "SELECT c.user_id, c.provider_id FROM sandbox_connection c"
        " JOIN sandbox_provider p ON p.slug = c.provider_id WHERE p.auth_type = %s",
        [auth_type],
    )
    for user_id, slug in rows:
        connection = Connection.objects.filter(
            user_id=user_id, slug=slug, missing_since=None
        ).first()
        if connection is not None:
            return connection
    raise AssertionError(f"nobody has a source of type {auth_type}")


def count_connections(harness: OutboxHarness, source: Connection) -> int:
    return harness.count(
        "SELECT count(*) FROM sandbox_connection WHERE user_id = %s AND provider_id = %s",
        source.user_id,
        source.slug,
    )


def test_source_is_disconnected_under_every_fault(harness: OutboxHarness) -> None:
    client = client_of_role()
    for kind, more in FAULTS.items():
        source = find_connection("oauth", harness)
        address = reverse("patients:disconnect", args=[source.user_id, source.slug])
        assert "stays connected until" in page_text(client.get(address))
        assert harness.submit_form(client, address).status_code == 302
        harness.add_fault(kind, f"/{source.slug}$", methods=["DELETE"], **more)
        harness.deliver()
        harness.pass_time()
        assert harness.newest_command().state == State.DONE, kind
        assert count_connections(harness, source) == 0, kind
        source.refresh_from_db()
        assert source.missing_since is not None, kind


def test_source_still_connected_is_reported(harness: OutboxHarness) -> None:
    client, source = client_of_role(), find_connection("sdk", harness)
    address = reverse("patients:disconnect", args=[source.user_id, source.slug])
    assert harness.submit_form(client, address).status_code == 302
    harness.deliver()
    assert harness.newest_command().state == State.DONE and count_connections(harness, source) == 1
    page = page_text(client.get(reverse("wearables:devices", args=[source.user_id])))
    assert "but this source is still connected" in page


def test_source_already_gone_is_done_without_sending(harness: OutboxHarness) -> None:
    client, source = client_of_role(), find_connection("oauth", harness)
    address = reverse("patients:disconnect", args=[source.user_id, source.slug])
    assert harness.submit_form(client, address).status_code == 302
    with harness.sandbox.service() as service:
        service.users.deregister(source.user_id or "", source.slug)
    harness.deliver()
    command = harness.newest_command()
    # The wanted state is reached, no matter who ended the connection.
    assert (command.state, command.confirmed_by) == (State.DONE, "look-up")
    assert command.attempts == 0 and count_connections(harness, source) == 0


def test_duplicate_warning_stops_once_and_is_remembered(harness: OutboxHarness) -> None:
    client, name = client_of_role(), unique_name()
    first = register_patient(harness, last_name=name)
    swapped = {"first_name": name, "last_name": "Testa", "phone_number": unique_phone(),
               "email": f"{unique_name()}@example.invalid"}  # fmt: skip
    response = submit_registration(harness, client, **swapped)
    page = page_text(response)
    assert response.status_code == 422 and "Check the possible duplicates first" in page
    assert "First and last name swapped, same birth date" in page
    assert f'value="{name}"' in page
    assert CommandRecord.objects.filter(kind="patient.create").count() == 1
    reference = new_reference()
    response = submit_registration(
        harness, client, client_user_id=reference, **swapped, not_same=str(first.pk)
    )
    assert response.status_code == 302, page_text(response)
    harness.deliver()
    second = Patient.objects.get(client_user_id=reference)
    assert DifferentPeople.different_from(first.pk) == {second.pk}
    assert DifferentPeople.different_from(second.pk) == {first.pk}
    typed = {**PERSON, **swapped, "patient": str(second.pk)}
    panel = page_text(client.post(reverse("patients:duplicates"), typed))
    assert str(first.pk) not in panel
    other = page_text(client.post(reverse("patients:duplicates"), {**PERSON, **swapped}))
    assert str(first.pk) in other


def test_same_person_is_not_registered_twice_at_once(harness: OutboxHarness) -> None:
    name = unique_name()
    assert submit_registration(harness, last_name=name).status_code == 302
    response = submit_registration(harness, client_of_role("clinician"), last_name=name)
    assert response.status_code == 422
    assert "already sent a request about this" in page_text(response)
    harness.deliver()
    assert Demographics.objects.filter(last_name=name).count() == 1


def test_shared_reference_never_merges_two_patients(harness: OutboxHarness) -> None:
    reference, client = new_reference(), client_of_role()
    submit_registration(harness, client, client_user_id=reference, last_name=unique_name())
    harness.add_fault("drop_before", "/v2/user$")
    harness.deliver()
    first = CommandRecord.objects.get(subject_id=reference)
    assert first.state == State.UNCERTAIN
    # A second registration with the reference is refused at once while the first is open.
    response = submit_registration(
        harness, client, client_user_id=reference, last_name=unique_name()
    )
    assert response.status_code == 422 and "Another patient has this reference" in page_text(
        response
    )
    # If one gets through all the same, its user is not taken for that of the first command.
    with harness.sandbox.service() as service:
        other = service.users.create(NewUser(client_user_id=reference)).data
    CommandRecord.objects.create(
        kind="patient.create",
        subject_type="new patient",
        subject_id=reference,
        payload={},
        form_id=uuid.uuid4(),
        idempotency_key=uuid.uuid4(),
        requested_by=first.requested_by,
        state=State.DONE,
        remote_id=str(other.user_id),
    )
    harness.pass_time()
    first.refresh_from_db()
    assert first.state == State.REFUSED and first.remote_id == ""
