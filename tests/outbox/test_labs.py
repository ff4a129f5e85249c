"""Allowlists of lab accounts, and lab tests: from the form to the sandbox's database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.core import service_client
from backoffice.models import AuditEntry, CommandRecord
from backoffice.service import labs as service_labs
from labs.allowlists.effects import team_effects
from labs.allowlists.teams import allowed_team_ids
from labs.models import Lab, LabAccount, LabTest, Marker
from labs.sync import store_lab_accounts
from orders.models import Order
from patients.models import Patient
from tests.outbox.desk import Desk

State = CommandRecord.State
OTHER = UUID("7ea00000-0000-4000-8000-000000000002")
THIRD = UUID("7ea00000-0000-4000-8000-000000000003")


def there(desk: Desk, account: LabAccount) -> set[UUID]:
    """The list as the sandbox has it."""
    found = desk.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE id = %s", [account.pk]
    )
    return {row[0] for row in found}


def put(desk: Desk, account: LabAccount, teams: set[UUID]) -> None:
    """Somebody else changes the list."""
    with desk.sandbox.service() as service:
        service.management.set_allowlist(account.pk, sorted(teams))


def spoil(desk: Desk, fault: str, path: str, method: str, more: dict[str, Any]) -> None:
    """The next call of a write goes wrong."""
    desk.fault(fault, path, methods=[method], **more)


def of_status(status: str) -> LabAccount:
    return LabAccount.objects.filter(status=status).order_by("account_name").first()  # type: ignore[return-value]


@pytest.fixture
def ours(desk: Desk) -> UUID:
    return Patient.objects.values_list("team_id", flat=True)[0]


@pytest.fixture
def account(desk: Desk) -> Any:
    """An active account; its list is put back afterwards, for the sandbox is shared."""
    shown = of_status("active")
    before = there(desk, shown)
    yield shown
    put(desk, shown, before)


def save(client: Client, account: LabAccount, teams: set[UUID], **more: Any) -> Any:
    """Open the page, choose teams, see what follows, save: as a browser with JavaScript does."""
    page = client.get(reverse("labs:account", args=[account.pk]))
    form = page.context["form"]
    chosen = sorted(str(team) for team in teams)
    values = {
        "form_id": str(form["form_id"].value()),
        "expected": form["expected"].value(),
        "looked_at": " ".join(chosen),
        "teams": chosen,
        "reason": "a clinic joined",
        **more,
    }
    return client.post(reverse("labs:account-teams", args=[account.pk]), values)


def test_a_team_is_let_in_and_the_log_says_why(desk: Desk, account: LabAccount) -> None:
    client = desk.client("lab admin")
    before = allowed_team_ids(account)
    wanted = before ^ {THIRD}
    answer = save(client, account, wanted)
    assert answer.status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    assert there(desk, account) == wanted == allowed_team_ids(account)
    entry = AuditEntry.objects.get(object_type="lab_account.allowlist", action="change")
    assert entry.reason == "a clinic joined" and str(account.pk) in entry.object_ids
    assert entry.before == {"teams": sorted(map(str, before))}
    assert entry.after == {"teams": sorted(map(str, wanted))}
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert "Confirmed" in page


def test_what_follows_is_seen_before_it_is_saved(desk: Desk, account: LabAccount) -> None:
    client = desk.client("lab admin")
    wanted = allowed_team_ids(account) ^ {THIRD}
    answer = save(client, account, wanted, looked_at="")
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    page = answer.content.decode()
    assert "What follows" in page and "a clinic joined" in page
    chosen = answer.context["form"]["looked_at"].value()
    assert {UUID(word) for word in chosen.split()} == wanted


def test_a_reason_is_needed_and_nothing_chosen_is_lost(desk: Desk, account: LabAccount) -> None:
    wanted = allowed_team_ids(account) ^ {THIRD}
    answer = save(desk.client("lab admin"), account, wanted, reason="")
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    on = {chip["team"] for chip in answer.context["chips"] if chip["on"]}
    assert on == wanted


def test_another_team_may_be_named_by_its_id(desk: Desk, account: LabAccount) -> None:
    client = desk.client("lab admin")
    refused = save(client, account, allowed_team_ids(account), another="the third clinic")
    assert refused.status_code == 422 and "This is no team id" in refused.content.decode()
    stranger = UUID("7ea00000-0000-4000-8000-0000000000aa")
    looked_at = " ".join(str(team) for team in sorted(allowed_team_ids(account) | {stranger}))
    answer = save(
        client, account, allowed_team_ids(account), another=str(stranger), looked_at=looked_at
    )
    assert answer.status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "Team not found" in str(asked.refusal_fields)
    again = client.get(f"{asked.form_url}?again={asked.pk}")
    page = again.content.decode()
    assert "Team not found" in page and str(stranger) in page and "a clinic joined" in page


def test_a_team_left_without_an_account_is_typed(desk: Desk, ours: UUID) -> None:
    """Only one active account at a lab lists a team: taking it away is said in words and typed."""
    client = desk.client("lab admin")
    for account in LabAccount.objects.filter(status="active"):
        alone = [e for e in team_effects(account, set()) if e.loses_last_account]
        if any(effect.team == ours for effect in alone):
            break
    else:
        pytest.fail("the sandbox has no lab with a single active account of ours")
    wanted = allowed_team_ids(account) - {ours}
    answer = save(client, account, wanted)
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    page = answer.content.decode()
    assert "No active account at this lab is left" in page and "type: our team" in page
    before = there(desk, account)
    try:
        assert save(client, account, wanted, confirm="Our team").status_code == 302
        desk.deliver()
        assert there(desk, account) == wanted
    finally:
        put(desk, account, before)


def test_the_active_accounts_of_a_team_are_counted(desk: Desk, ours: UUID) -> None:
    pending = of_status("pending")
    (effect,) = team_effects(pending, allowed_team_ids(pending) ^ {OTHER})
    assert effect.before == effect.after and not effect.loses_last_account
    second = LabAccount.objects.filter(status="suspended", teams__team_id=ours).first()
    assert second is not None
    LabAccount.objects.filter(pk=second.pk).update(status="active")
    second.refresh_from_db()
    (effect,) = team_effects(second, allowed_team_ids(second) - {ours})
    assert (effect.before, effect.after, effect.loses_last_account) == (2, 1, False)
    (effect,) = team_effects(second, allowed_team_ids(second) | {THIRD})
    assert (effect.before, effect.after) == (1, 2) and "must name one" in effect.words


def test_what_follows_is_read_while_choosing(desk: Desk, account: LabAccount, ours: UUID) -> None:
    """The part of the page that follows the choice: it says what it was computed for, and it does
    not renew the list that the person saw."""
    client = desk.client("lab admin")
    wanted = allowed_team_ids(account) - {ours} | {THIRD}
    address = reverse("labs:account-effects", args=[account.pk])
    part = client.get(address, {"teams": [str(t) for t in wanted], "confirm": "our te"})
    shown = part.content.decode()
    assert {effect.team for effect in part.context["effects"]} == {ours, THIRD}
    looked_at = part.context["form"]["looked_at"].value()
    assert {UUID(word) for word in looked_at.split()} == wanted
    assert 'name="expected"' not in shown and 'value="our te"' in shown
    under_way = Order.objects.filter(lab_slug=account.lab).exclude(
        bucket__in=("result-in", "closed")
    )
    assert f"{under_way.count()} of our orders are under way at this lab" in shown
    assert CommandRecord.objects.count() == 0


def test_a_list_that_changed_since_is_not_written_over(desk: Desk, account: LabAccount) -> None:
    """Between the page and the worker somebody else changed the list: three lists are shown."""
    client = desk.client("lab admin")
    saw = allowed_team_ids(account)
    wanted = saw ^ {THIRD}
    assert save(client, account, wanted).status_code == 302
    theirs = saw ^ {OTHER}
    put(desk, account, theirs)
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and asked.attempts == 0
    assert "Somebody else changed the list meanwhile" in asked.refusal
    assert there(desk, account) == theirs == allowed_team_ids(account)
    again = client.get(f"{asked.form_url}?again={asked.pk}")
    sides = {side.team: (side.saw, side.there, side.wanted) for side in again.context["sides"]}
    assert sides[OTHER] == (OTHER in saw, OTHER in theirs, OTHER in wanted)
    assert sides[THIRD] == (THIRD in saw, THIRD in theirs, THIRD in wanted)
    form = again.context["form"]
    values = {name: form[name].value() for name in ("form_id", "expected", "looked_at", "reason")}
    teams = [str(chip["team"]) for chip in again.context["chips"] if chip["on"]]
    address = reverse("labs:account-teams", args=[account.pk])
    assert client.post(address, {**values, "teams": teams}).status_code == 302
    desk.deliver()
    assert there(desk, account) == wanted


def test_a_page_that_is_out_of_date_is_told_at_once(desk: Desk, account: LabAccount) -> None:
    client = desk.client("lab admin")
    saw = allowed_team_ids(account)
    form = client.get(reverse("labs:account", args=[account.pk])).context["form"]
    put(desk, account, saw ^ {OTHER})
    with desk.sandbox.service() as service:
        store_lab_accounts(service.management.lab_accounts(account.pk).records)
    answer = save(client, account, saw ^ {THIRD}, expected=form["expected"].value())
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    page = answer.content.decode()
    assert "Somebody else changed the list" in page and "There now" in page


def test_two_admins_and_one_account(desk: Desk, account: LabAccount) -> None:
    wanted = allowed_team_ids(account) ^ {THIRD}
    assert save(desk.client("lab admin"), account, wanted).status_code == 302
    answer = save(desk.client("administrator"), account, wanted)
    assert answer.status_code == 422
    assert "asked for something about this already" in answer.content.decode()
    assert CommandRecord.objects.count() == 1


def test_without_the_key_the_page_is_read_only_and_says_so(
    desk: Desk, account: LabAccount, settings: Settings
) -> None:
    client = desk.client("lab admin")
    wanted = allowed_team_ids(account) ^ {THIRD}
    assert save(client, account, wanted).status_code == 302
    settings.MANAGEMENT_KEY = ""
    service_client.service.cache_clear()
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert "MANAGEMENT_KEY" in page and 'name="teams"' not in page
    assert client.post(reverse("labs:account-teams", args=[account.pk])).status_code == 422
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "MANAGEMENT_KEY" in asked.refusal


def test_a_key_that_is_refused_is_said_plainly(
    desk: Desk, account: LabAccount, settings: Settings
) -> None:
    save(desk.client("lab admin"), account, allowed_team_ids(account) ^ {THIRD})
    settings.MANAGEMENT_KEY = "mg_of_nobody"
    service_client.service.cache_clear()
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "refuses our key" in asked.refusal


def test_who_may_not_change_it_only_reads(desk: Desk, account: LabAccount) -> None:
    client = desk.client("clinician")
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert 'name="teams"' not in page
    for name in ("account-teams", "account-effects"):
        assert client.get(reverse(f"labs:{name}", args=[account.pk])).status_code == 403
    assert client.post(reverse("labs:account-teams", args=[account.pk])).status_code == 403


def test_an_answer_without_the_account_is_read_back(desk: Desk) -> None:
    """Accounts that are ready to launch answer null (catalogue.md 7)."""
    silent = of_status("ready_to_launch")
    before = there(desk, silent)
    wanted = before ^ {OTHER}
    try:
        save(desk.client("lab admin"), silent, wanted)
        desk.deliver()
        asked = desk.newest()
        assert (asked.state, asked.attempts, asked.confirmed_by) == (State.DONE, 1, "answer")
        assert there(desk, silent) == wanted == allowed_team_ids(silent)
    finally:
        put(desk, silent, before)


def test_a_list_is_written_whatever_becomes_of_the_answer(desk: Desk, account: LabAccount) -> None:
    client = desk.client("lab admin")
    for fault, more, attempts, confirmed in (
        ("drop_after", {}, 1, "look-up"),
        ("status_after", {"statuses": [500]}, 1, "look-up"),
        ("drop_before", {}, 2, "answer"),
        ("status", {"statuses": [500]}, 2, "answer"),
        ("status", {"statuses": [429]}, 2, "answer"),
    ):
        wanted = allowed_team_ids(account) ^ {THIRD}
        named = {"confirm": str(THIRD)[-6:]}
        assert save(client, account, wanted, **named).status_code == 302, fault
        spoil(desk, fault, "/lab_account/", "PATCH", more)
        desk.deliver()
        desk.later()
        desk.later()
        asked = desk.newest()
        ended = (asked.state, asked.attempts, asked.confirmed_by)
        assert ended == (State.DONE, attempts, confirmed), fault
        assert there(desk, account) == wanted == allowed_team_ids(account)


def test_strangers_list_after_a_lost_answer_waits_for_a_person(
    desk: Desk, account: LabAccount
) -> None:
    saw = allowed_team_ids(account)
    save(desk.client("lab admin"), account, saw ^ {THIRD})
    desk.fault("drop_before", "/lab_account/", methods=["PATCH"])
    desk.deliver()
    assert desk.newest().state == State.UNCERTAIN
    theirs = saw ^ {OTHER}
    put(desk, account, theirs)
    desk.later()
    asked = desk.newest()
    assert asked.state == State.UNDECIDED and "There now" in asked.found[0]["words"]
    assert there(desk, account) == theirs == allowed_team_ids(account)


# Lab tests


@pytest.fixture
def lab(desk: Desk) -> Lab:
    return Lab.objects.get(slug="lab-south")


def named(desk: Desk, name: str) -> int:
    """How many tests of this name the sandbox has."""
    return desk.count("SELECT count(*) FROM sandbox_labtest WHERE name = %s", name)


def make(desk: Desk, client: Client, lab: Lab, name: str, **more: Any) -> Any:
    values = {
        "name": name,
        "description": "made up for a test",
        "method": lab.collection_methods[0],
        "markers": [m.pk for m in Marker.objects.filter(lab=lab, is_orderable=True)[:2]],
        **more,
    }
    return desk.fill(client, reverse("labs:test-new", args=[lab.pk]), **values)


def test_a_lab_test_is_made_and_waits_for_approval(desk: Desk, lab: Lab) -> None:
    client = desk.client("lab admin")
    assert make(desk, client, lab, "Made-up panel one", fasting="on").status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    made = LabTest.objects.get(name="Made-up panel one")
    assert asked.remote_id == str(made.pk) and made.fasting and made.status == "pending_approval"
    assert asked.done_url == reverse("labs:test", args=[made.pk])
    desk.look_up()
    assert made.test_markers.count() == 2
    page = client.get(asked.done_url).content.decode()
    assert "have to approve it" in page


def test_a_name_is_used_once(desk: Desk, lab: Lab) -> None:
    taken = LabTest.objects.exclude(name="").earliest("name").name
    answer = make(desk, desk.client("lab admin"), lab, taken.upper())
    assert answer.status_code == 422 and CommandRecord.objects.count() == 0
    page = answer.content.decode()
    assert "of this name already" in page and "made up for a test" in page


def test_looking_for_markers_asks_for_nothing(desk: Desk, lab: Lab) -> None:
    client = desk.client("lab admin")
    first, second = Marker.objects.filter(lab=lab, is_orderable=True).order_by("-name")[:2]
    answer = make(
        desk, client, lab, "Half typed", markers=[first.pk], search="yes", find=second.name[:5]
    )
    assert answer.status_code == 200 and CommandRecord.objects.count() == 0
    page = answer.content.decode()
    assert "Half typed" in page and second.name in page
    assert f'value="{first.pk}" checked' in page
    address = reverse("labs:test-new-markers", args=[lab.pk])
    part = client.get(address, {"find": str(second.provider_id), "markers": [str(first.pk)]})
    assert [marker.pk for marker in part.context["markers"]] == [second.pk]


def test_what_the_service_refuses_stands_at_the_field(desk: Desk, lab: Lab) -> None:
    """The mirror still holds a marker that the lab has dropped."""
    client = desk.client("lab admin")
    marker = Marker.objects.filter(lab=lab, is_orderable=True).earliest("name")
    Marker.objects.filter(pk=marker.pk).update(provider_id="X-GONE")
    make(desk, client, lab, "Never made", markers=[marker.pk])
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "X-GONE" in asked.refusal
    page = client.get(f"{asked.form_url}?again={asked.pk}").content.decode()
    assert "X-GONE not found" in page and "Never made" in page
    assert f'value="{marker.pk}" checked' in page
    assert named(desk, "Never made") == 0


def test_a_lab_test_is_never_made_twice(desk: Desk, lab: Lab) -> None:
    client = desk.client("lab admin")
    for fault, more, made, state, confirmed in (
        ("drop_after", {}, 1, State.DONE, "look-up"),
        ("status_after", {"statuses": [500]}, 1, State.DONE, "look-up"),
        ("drop_before", {}, 0, State.UNDECIDED, ""),
        ("status", {"statuses": [500]}, 0, State.UNDECIDED, ""),
        ("status", {"statuses": [429]}, 1, State.DONE, "answer"),
    ):
        name = f"Made-up panel {fault} {more}"
        assert make(desk, client, lab, name).status_code == 302
        spoil(desk, fault, "/v3/lab_tests$", "POST", more)
        desk.deliver()
        desk.later()
        desk.later()
        asked = desk.newest()
        ended = (asked.state, asked.confirmed_by, named(desk, name))
        assert ended == (state, confirmed, made), fault
        assert LabTest.objects.filter(name=name).count() == made


def test_a_person_sends_it_again_where_there_is_no_trace(desk: Desk, lab: Lab) -> None:
    client = desk.client("lab admin")
    make(desk, client, lab, "Made at the second try")
    desk.fault("drop_before", "/v3/lab_tests$", methods=["POST"])
    desk.deliver()
    desk.later()
    asked = desk.newest()
    assert asked.state == State.UNDECIDED
    address = reverse("commands:decide", args=[asked.pk])
    client.post(address, {"decision": "again", "attempt": asked.attempts, "reason": "by phone"})
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.DONE and named(desk, "Made at the second try") == 1


@pytest.fixture
def own(desk: Desk, lab: Lab, request: pytest.FixtureRequest) -> LabTest:
    """A test of our team, one for each test here."""
    name = f"Ours for {request.node.name}"[:190]
    assert make(desk, desk.client("administrator"), lab, name).status_code == 302
    desk.deliver()
    return LabTest.objects.get(name=name)


def test_a_lab_test_is_renamed_archived_and_brought_back(desk: Desk, own: LabTest) -> None:
    client = desk.client("lab admin")
    page = client.get(reverse("labs:test", args=[own.pk])).content.decode()
    assert "Archive…" in page and "Restore…" not in page
    new_name = f"{own.name[:180]} anew"
    address = reverse("labs:test-rename", args=[own.pk])
    assert desk.fill(client, address, name=new_name).status_code == 302
    desk.deliver()
    assert desk.fill(client, reverse("labs:test-archive", args=[own.pk])).status_code == 302
    desk.deliver()
    own.refresh_from_db()
    assert (own.name, own.status) == (new_name, "inactive")
    assert desk.fill(client, reverse("labs:test-archive", args=[own.pk])).status_code == 422
    assert desk.fill(client, reverse("labs:test-restore", args=[own.pk])).status_code == 302
    desk.deliver()
    own.refresh_from_db()
    assert own.status == "active"
    states = set(CommandRecord.objects.values_list("state", flat=True))
    assert states == {State.DONE}


def test_a_name_that_changed_meanwhile_is_left_alone(desk: Desk, own: LabTest) -> None:
    address = reverse("labs:test-rename", args=[own.pk])
    desk.fill(desk.client("lab admin"), address, name=f"{own.name[:180]} mine")
    with desk.sandbox.service() as service:
        service.labs.update_test(own.pk, service_labs.LabTestChange(name=f"{own.name[:180]} t"))
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "Somebody else named it" in asked.refusal


def test_changes_of_a_lab_test_survive_faults(desk: Desk, own: LabTest) -> None:
    client = desk.client("lab admin")
    for fault, more, confirmed in (
        ("drop_after", {}, "look-up"),
        ("status_after", {"statuses": [500]}, "look-up"),
        ("drop_before", {}, "answer"),
        ("status", {"statuses": [429]}, "answer"),
    ):
        new_name = f"{own.name[:150]} {fault}"
        for page, typed in (("rename", {"name": new_name}), ("archive", {}), ("restore", {})):
            answer = desk.fill(client, reverse(f"labs:test-{page}", args=[own.pk]), **typed)
            assert answer.status_code == 302
            spoil(desk, fault, f"/v3/lab_tests/{own.pk}$", "PATCH", more)
            desk.deliver()
            desk.later()
            asked = desk.newest()
            assert (asked.state, asked.confirmed_by) == (State.DONE, confirmed), (fault, page)
            statement = "SELECT name, status FROM sandbox_labtest WHERE id = %s"
            own.refresh_from_db()
            assert desk.sandbox.query(statement, [own.pk]) == [(own.name, own.status)]
        assert (own.name, own.status) == (new_name, "active")


def test_who_may_not_change_lab_tests(desk: Desk, lab: Lab) -> None:
    client = desk.client("clinician")
    test = LabTest.objects.earliest("name")
    assert client.get(reverse("labs:test-new", args=[lab.pk])).status_code == 403
    for page in ("rename", "archive", "restore"):
        assert client.post(reverse(f"labs:test-{page}", args=[test.pk])).status_code == 403
    assert "Archive…" not in client.get(reverse("labs:test", args=[test.pk])).content.decode()


def test_the_admin_leads_to_the_page_of_an_account(desk: Desk, account: LabAccount) -> None:
    client = desk.client("administrator")
    address = reverse("admin:labs_labaccount_change", args=[account.pk])
    page = client.get(address).content.decode()
    assert reverse("labs:account", args=[account.pk]) in page and 'name="_save"' not in page
    assert client.get(reverse("admin:labs_labaccount_changelist")).status_code == 200
    before = LabAccount.objects.values().get(pk=account.pk)
    assert client.post(address, {"status": "suspended"}).status_code == 405
    assert LabAccount.objects.values().get(pk=account.pk) == before
    other = desk.client("lab admin")
    assert other.get(address).status_code == 403
