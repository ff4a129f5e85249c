"""Cases of what is asked about lab accounts and lab tests."""

from __future__ import annotations

import uuid
from uuid import UUID

from backoffice.core.service_client import service
from backoffice.service.labs import LabTestChange, NewLabTest
from labs.allowlists import SetAllowlist
from labs.allowlists.teams import allowed_team_ids
from labs.lab_tests import ArchiveLabTest, CreateLabTest, RenameLabTest, RestoreLabTest
from labs.models import Lab, LabAccount, LabTest
from labs.sync import store_lab_accounts, store_lab_tests
from tests.outbox.scene import Case, Scene

THIRD = UUID("7ea00000-0000-4000-8000-000000000003")


def _allow(scene: Scene) -> SetAllowlist:
    account = LabAccount.objects.filter(status="active", org_id__isnull=False).earliest("pk")
    page = service().management.lab_accounts(lab_account_id=account.pk)
    store_lab_accounts([one for one in page.records if one.data.id == account.pk])
    account.refresh_from_db()
    expected = allowed_team_ids(account)
    return SetAllowlist(
        account_id=account.pk,
        account_name="Made up",
        expected=sorted(expected),
        target=sorted(expected ^ {THIRD}),
    )


def _allowed(scene: Scene, command: SetAllowlist, _: UUID) -> int:
    found = scene.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE id = %s",
        [command.account_id],
    )
    return int({row[0] for row in found} == set(command.target))


def _name() -> str:
    return f"Made-up Panel {uuid.uuid4().hex[:8]}"


def _test() -> LabTest:
    """A test of our own."""
    known = LabTest.objects.get(name="Clinic Draw Basic")
    markers = [marker["id"] for marker in known.said()["markers"]]
    made = service().labs.create_test(
        NewLabTest(name=_name(), method=known.method, description="", marker_ids=markers)
    )
    store_lab_tests([made])
    return LabTest.objects.get(pk=made.data.id)


def _create(scene: Scene) -> CreateLabTest:
    known = LabTest.objects.get(name="Clinic Draw Basic")
    assert known.lab_id is not None
    lab = Lab.objects.get(pk=known.lab_id)
    return CreateLabTest(
        lab_id=lab.pk,
        lab_slug=lab.slug,
        name=_name(),
        method=known.method,
        description="Made up",
        marker_ids=[marker["id"] for marker in known.said()["markers"]],
        codes=None,
        fasting=False,
        lab_account_id=None,
    )


def _created(scene: Scene, command: CreateLabTest, _: UUID) -> int:
    return scene.count("SELECT count(*) FROM sandbox_labtest WHERE name = %s", command.name)


def _rename(scene: Scene) -> RenameLabTest:
    test = _test()
    return RenameLabTest(lab_test_id=test.pk, name=test.name, new_name=_name())


def _renamed(scene: Scene, command: RenameLabTest, _: UUID) -> int:
    return scene.count("SELECT count(*) FROM sandbox_labtest WHERE name = %s", command.new_name)


def _archive(scene: Scene) -> ArchiveLabTest:
    test = _test()
    return ArchiveLabTest(lab_test_id=test.pk, name=test.name)


def _restore(scene: Scene) -> RestoreLabTest:
    test = _test()
    store_lab_tests([service().labs.update_test(test.pk, LabTestChange(active=False))])
    return RestoreLabTest(lab_test_id=test.pk, name=test.name)


def _stands(scene: Scene, status: str, key: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_labtest WHERE id = %s AND status = %s", key, status
    )


def _archived(scene: Scene, command: ArchiveLabTest, _: UUID) -> int:
    return _stands(scene, "inactive", command.lab_test_id)


def _restored(scene: Scene, command: RestoreLabTest, _: UUID) -> int:
    return _stands(scene, "active", command.lab_test_id)


CASES = (
    Case(SetAllowlist, _allow, _allowed, "/v1/org/.*/lab_account/"),
    Case(CreateLabTest, _create, _created, "/v3/lab_tests$"),
    Case(RenameLabTest, _rename, _renamed, "/v3/lab_tests/"),
    Case(ArchiveLabTest, _archive, _archived, "/v3/lab_tests/"),
    Case(RestoreLabTest, _restore, _restored, "/v3/lab_tests/"),
)
