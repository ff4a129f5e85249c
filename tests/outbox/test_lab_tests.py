"""Lab tests, from the form to the sandbox's database."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from backoffice.service import labs as service_labs
from labs.models import Lab, LabTest, Marker
from tests.outbox.harness import OutboxHarness

State = CommandRecord.State


@pytest.fixture
def lab(harness: OutboxHarness) -> Lab:
    return Lab.objects.get(slug="lab-south")


def count_tests_named(harness: OutboxHarness, name: str) -> int:
    """Count the lab tests of this name at the sandbox."""
    return harness.count("SELECT count(*) FROM sandbox_labtest WHERE name = %s", name)


def submit_lab_test(
    harness: OutboxHarness, client: Client, lab: Lab, name: str, **changes: Any
) -> Any:
    values = {
        "name": name,
        "description": "made up for a test",
        "method": lab.collection_methods[0],
        "markers": [m.pk for m in Marker.objects.filter(lab=lab, is_orderable=True)[:2]],
        **changes,
    }
    return harness.submit_form(client, reverse("labs:test-new", args=[lab.pk]), **values)


def test_new_lab_test_waits_for_approval(harness: OutboxHarness, lab: Lab) -> None:
    client = harness.client("lab admin")
    assert (
        submit_lab_test(harness, client, lab, "Made-up panel one", fasting="on").status_code == 302
    )
    harness.deliver()
    command = harness.newest_command()
    assert (command.state, command.confirmed_by) == (State.DONE, "answer")
    lab_test = LabTest.objects.get(name="Made-up panel one")
    assert (
        command.remote_id == str(lab_test.pk)
        and lab_test.fasting
        and lab_test.status == "pending_approval"
    )
    assert command.done_url == reverse("labs:test", args=[lab_test.pk])
    harness.run_lookups()
    assert lab_test.test_markers.count() == 2
    page = client.get(command.done_url).content.decode()
    assert "must approve this test" in page


def test_used_name_is_refused(harness: OutboxHarness, lab: Lab) -> None:
    used_name = LabTest.objects.exclude(name="").earliest("name").name
    response = submit_lab_test(harness, harness.client("lab admin"), lab, used_name.upper())
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    page = response.content.decode()
    assert "with this name already" in page and "made up for a test" in page


def test_marker_search_enqueues_no_command(harness: OutboxHarness, lab: Lab) -> None:
    client = harness.client("lab admin")
    first, second = Marker.objects.filter(lab=lab, is_orderable=True).order_by("-name")[:2]
    response = submit_lab_test(
        harness, client, lab, "Half typed", markers=[first.pk], search="yes", find=second.name[:5]
    )
    assert response.status_code == 200 and CommandRecord.objects.count() == 0
    page = response.content.decode()
    assert "Half typed" in page and second.name in page
    assert f'value="{first.pk}" checked' in page
    address = reverse("labs:test-new-markers", args=[lab.pk])
    fragment = client.get(address, {"find": str(second.provider_id), "markers": [str(first.pk)]})
    assert [marker.pk for marker in fragment.context["markers"]] == [second.pk]


def test_refused_marker_is_shown_at_its_field(harness: OutboxHarness, lab: Lab) -> None:
    """The mirror still holds a marker that the lab has dropped."""
    client = harness.client("lab admin")
    marker = Marker.objects.filter(lab=lab, is_orderable=True).earliest("name")
    Marker.objects.filter(pk=marker.pk).update(provider_id="X-GONE")
    submit_lab_test(harness, client, lab, "Never made", markers=[marker.pk])
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "X-GONE" in command.refusal
    page = client.get(f"{command.form_url}?again={command.pk}").content.decode()
    assert "X-GONE not found" in page and "Never made" in page
    assert f'value="{marker.pk}" checked' in page
    assert count_tests_named(harness, "Never made") == 0


def test_lab_test_is_created_at_most_once_under_faults(harness: OutboxHarness, lab: Lab) -> None:
    client = harness.client("lab admin")
    faults: list[tuple[str, dict[str, Any], int, str, str]] = [
        ("drop_after", {}, 1, State.DONE, "look-up"),
        ("status_after", {"statuses": [500]}, 1, State.DONE, "look-up"),
        ("drop_before", {}, 0, State.UNDECIDED, ""),
        ("status", {"statuses": [500]}, 0, State.UNDECIDED, ""),
        ("status", {"statuses": [429]}, 1, State.DONE, "answer"),
    ]
    for fault, fault_options, expected_count, state, confirmed in faults:
        name = f"Made-up panel {fault} {fault_options}"
        assert submit_lab_test(harness, client, lab, name).status_code == 302
        harness.add_fault(fault, "/v3/lab_tests$", methods=["POST"], **fault_options)
        harness.deliver()
        harness.pass_time()
        harness.pass_time()
        command = harness.newest_command()
        outcome = (command.state, command.confirmed_by, count_tests_named(harness, name))
        assert outcome == (state, confirmed, expected_count), fault
        assert LabTest.objects.filter(name=name).count() == expected_count


def test_lost_lab_test_is_sent_again_by_a_person(harness: OutboxHarness, lab: Lab) -> None:
    client = harness.client("lab admin")
    submit_lab_test(harness, client, lab, "Made at the second try")
    harness.add_fault("drop_before", "/v3/lab_tests$", methods=["POST"])
    harness.deliver()
    harness.pass_time()
    command = harness.newest_command()
    assert command.state == State.UNDECIDED
    address = reverse("commands:decide", args=[command.pk])
    client.post(address, {"decision": "again", "attempt": command.attempts, "reason": "by phone"})
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.DONE and count_tests_named(harness, "Made at the second try") == 1


@pytest.fixture
def own_test(harness: OutboxHarness, lab: Lab, request: pytest.FixtureRequest) -> LabTest:
    """Return a lab test of our team, a new one for each test function."""
    name = f"Ours for {request.node.name}"[:190]
    assert submit_lab_test(harness, harness.client("administrator"), lab, name).status_code == 302
    harness.deliver()
    return LabTest.objects.get(name=name)


def test_lab_test_is_renamed_archived_and_restored(
    harness: OutboxHarness, own_test: LabTest
) -> None:
    client = harness.client("lab admin")
    page = client.get(reverse("labs:test", args=[own_test.pk])).content.decode()
    assert "Archive…" in page and "Restore…" not in page
    new_name = f"{own_test.name[:180]} anew"
    address = reverse("labs:test-rename", args=[own_test.pk])
    assert harness.submit_form(client, address, name=new_name).status_code == 302
    harness.deliver()
    assert (
        harness.submit_form(client, reverse("labs:test-archive", args=[own_test.pk])).status_code
        == 302
    )
    harness.deliver()
    own_test.refresh_from_db()
    assert (own_test.name, own_test.status) == (new_name, "inactive")
    assert (
        harness.submit_form(client, reverse("labs:test-archive", args=[own_test.pk])).status_code
        == 422
    )
    assert (
        harness.submit_form(client, reverse("labs:test-restore", args=[own_test.pk])).status_code
        == 302
    )
    harness.deliver()
    own_test.refresh_from_db()
    assert own_test.status == "active"
    states = set(CommandRecord.objects.values_list("state", flat=True))
    assert states == {State.DONE}


def test_rename_is_refused_when_name_changed_meanwhile(
    harness: OutboxHarness, own_test: LabTest
) -> None:
    address = reverse("labs:test-rename", args=[own_test.pk])
    harness.submit_form(harness.client("lab admin"), address, name=f"{own_test.name[:180]} mine")
    with harness.sandbox.service() as service:
        service.labs.update_test(
            own_test.pk, service_labs.LabTestChange(name=f"{own_test.name[:180]} t")
        )
    harness.deliver()
    command = harness.newest_command()
    assert (
        command.state == State.REFUSED and "Someone else renamed this lab test" in command.refusal
    )


def test_lab_test_changes_are_saved_under_every_fault(
    harness: OutboxHarness, own_test: LabTest
) -> None:
    client = harness.client("lab admin")
    faults: list[tuple[str, dict[str, Any], str]] = [
        ("drop_after", {}, "look-up"),
        ("status_after", {"statuses": [500]}, "look-up"),
        ("drop_before", {}, "answer"),
        ("status", {"statuses": [429]}, "answer"),
    ]
    for fault, fault_options, confirmed in faults:
        new_name = f"{own_test.name[:150]} {fault}"
        for page, typed in (("rename", {"name": new_name}), ("archive", {}), ("restore", {})):
            response = harness.submit_form(
                client, reverse(f"labs:test-{page}", args=[own_test.pk]), **typed
            )
            assert response.status_code == 302
            harness.add_fault(
                fault, f"/v3/lab_tests/{own_test.pk}$", methods=["PATCH"], **fault_options
            )
            harness.deliver()
            harness.pass_time()
            command = harness.newest_command()
            assert (command.state, command.confirmed_by) == (State.DONE, confirmed), (fault, page)
            statement = "SELECT name, status FROM sandbox_labtest WHERE id = %s"
            own_test.refresh_from_db()
            assert harness.sandbox.query(statement, [own_test.pk]) == [
                (own_test.name, own_test.status)
            ]
        assert (own_test.name, own_test.status) == (new_name, "active")


def test_lab_test_pages_require_permission(harness: OutboxHarness, lab: Lab) -> None:
    client = harness.client("clinician")
    test = LabTest.objects.earliest("name")
    assert client.get(reverse("labs:test-new", args=[lab.pk])).status_code == 403
    for page in ("rename", "archive", "restore"):
        assert client.post(reverse(f"labs:test-{page}", args=[test.pk])).status_code == 403
    assert "Archive…" not in client.get(reverse("labs:test", args=[test.pk])).content.decode()
