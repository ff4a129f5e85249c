"""Cases of commands about lab accounts and lab tests."""

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
from tests.outbox.records import CommandCase, SandboxRecords

THIRD_TEAM = UUID("7ea00000-0000-4000-8000-000000000003")


def _create_allowlist_change(records: SandboxRecords) -> SetAllowlist:
    account = LabAccount.objects.filter(status="active", org_id__isnull=False).earliest("pk")
    page = service().management.lab_accounts(lab_account_id=account.pk)
    store_lab_accounts([one for one in page.records if one.data.id == account.pk])
    account.refresh_from_db()
    expected = allowed_team_ids(account)
    return SetAllowlist(
        account_id=account.pk,
        account_name="Made up",
        expected=sorted(expected),
        target=sorted(expected ^ {THIRD_TEAM}),
    )


def _count_allowlist_changes(records: SandboxRecords, command: SetAllowlist, _: UUID) -> int:
    allowed = records.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE id = %s",
        [command.account_id],
    )
    return int({row[0] for row in allowed} == set(command.target))


def _unused_name() -> str:
    return f"Made-up Panel {uuid.uuid4().hex[:8]}"


def _mirrored_lab_test() -> LabTest:
    """Create and mirror a lab test of our team."""
    example = LabTest.objects.get(name="Clinic Draw Basic")
    markers = [marker["id"] for marker in example.record_at()["markers"]]
    record = service().labs.create_test(
        NewLabTest(name=_unused_name(), method=example.method, description="", marker_ids=markers)
    )
    store_lab_tests([record])
    return LabTest.objects.get(pk=record.data.id)


def _create_new_test(records: SandboxRecords) -> CreateLabTest:
    example = LabTest.objects.get(name="Clinic Draw Basic")
    assert example.lab_id is not None
    lab = Lab.objects.get(pk=example.lab_id)
    return CreateLabTest(
        lab_id=lab.pk,
        lab_slug=lab.slug,
        name=_unused_name(),
        method=example.method,
        description="Made up",
        marker_ids=[marker["id"] for marker in example.record_at()["markers"]],
        codes=None,
        fasting=False,
        lab_account_id=None,
    )


def _count_new_tests(records: SandboxRecords, command: CreateLabTest, _: UUID) -> int:
    return records.count("SELECT count(*) FROM sandbox_labtest WHERE name = %s", command.name)


def _create_rename(records: SandboxRecords) -> RenameLabTest:
    test = _mirrored_lab_test()
    return RenameLabTest(lab_test_id=test.pk, name=test.name, new_name=_unused_name())


def _count_renames(records: SandboxRecords, command: RenameLabTest, _: UUID) -> int:
    return records.count("SELECT count(*) FROM sandbox_labtest WHERE name = %s", command.new_name)


def _create_archival(records: SandboxRecords) -> ArchiveLabTest:
    test = _mirrored_lab_test()
    return ArchiveLabTest(lab_test_id=test.pk, name=test.name)


def _create_restoration(records: SandboxRecords) -> RestoreLabTest:
    test = _mirrored_lab_test()
    store_lab_tests([service().labs.update_test(test.pk, LabTestChange(active=False))])
    return RestoreLabTest(lab_test_id=test.pk, name=test.name)


def _count_with_status(records: SandboxRecords, status: str, key: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_labtest WHERE id = %s AND status = %s", key, status
    )


def _count_archived(records: SandboxRecords, command: ArchiveLabTest, _: UUID) -> int:
    return _count_with_status(records, "inactive", command.lab_test_id)


def _count_restored(records: SandboxRecords, command: RestoreLabTest, _: UUID) -> int:
    return _count_with_status(records, "active", command.lab_test_id)


CASES = (
    CommandCase(
        SetAllowlist, _create_allowlist_change, _count_allowlist_changes, "/v1/org/.*/lab_account/"
    ),
    CommandCase(CreateLabTest, _create_new_test, _count_new_tests, "/v3/lab_tests$"),
    CommandCase(RenameLabTest, _create_rename, _count_renames, "/v3/lab_tests/"),
    CommandCase(ArchiveLabTest, _create_archival, _count_archived, "/v3/lab_tests/"),
    CommandCase(RestoreLabTest, _create_restoration, _count_restored, "/v3/lab_tests/"),
)
