"""The part of the catalogue that simulated orders need, loaded once per run or batch."""

from dataclasses import dataclass

from sandbox.models import LabAccount, LabTest, Physician, PscSite, World
from sandbox.places import AREAS, CAPABILITY_SERVICE, ONE_STATE_LAB


@dataclass(frozen=True, slots=True)
class TestInfo:
    id: str
    team_id: str | None
    method: str
    lab_id: int
    lab_slug: str
    supports_redraw: bool
    auto_generated: bool
    common_tat_days: int | None
    worst_case_tat_days: int | None


@dataclass(frozen=True, slots=True)
class AccountInfo:
    id: str
    lab_id: int
    needs_physician: bool
    default_clinical_notes: str | None
    allowed_billing: dict[str, list[str]]
    teams: frozenset[str]


@dataclass(frozen=True, slots=True)
class SiteInfo:
    id: int
    code: str
    lab_slug: str
    first_line: str
    second_line: str | None
    city: str
    state: str
    zip_code: str
    lng: float
    lat: float
    zone: str


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The catalogue in memory. `sites` by (lab id, area index) are those that the service books."""

    seed: int
    tests: dict[str, TestInfo]
    orderable: tuple[TestInfo, ...]
    accounts: tuple[AccountInfo, ...]
    sites: dict[tuple[int, int], tuple[SiteInfo, ...]]
    physicians: dict[str, tuple[str, ...]]


def load_context() -> Context:
    """Read the catalogue (a dozen tests, six accounts, some dozens of sites)."""
    tests = {
        str(test.id): TestInfo(
            str(test.id),
            str(test.team_id) if test.team_id else None,
            test.method,
            test.lab_id,
            test.lab.slug,
            test.lab.supports_redraw and test.method == "walk_in_test",
            test.auto_generated,
            test.common_tat_days,
            test.worst_case_tat_days,
        )
        for test in LabTest.objects.select_related("lab").order_by("slug")
    }
    # Simulated orders never use the lab of one state: it is left to orders of the team.
    offered = LabTest.objects.filter(status="active").exclude(lab__slug=ONE_STATE_LAB)
    active = {str(key) for key in offered.values_list("id", flat=True)}
    accounts = tuple(
        AccountInfo(
            str(account.id),
            account.lab_id,
            account.delegated_flow in ("order_delegated", "fully_delegated"),
            account.default_clinical_notes,
            account.allowed_billing,
            frozenset(map(str, account.team_id_allowlist)),
        )
        for account in LabAccount.objects.filter(status="active").order_by("account_name")
    )
    area_of = {area[0]: place for place, area in enumerate(AREAS)}
    sites: dict[tuple[int, int], list[SiteInfo]] = {}
    for site in (
        PscSite.objects.filter(is_active=True, capabilities__contains=[CAPABILITY_SERVICE])
        .select_related("lab")
        .order_by("id")
    ):
        sites.setdefault((site.lab_id, area_of[site.zip_code]), []).append(
            SiteInfo(
                site.id,
                site.site_code,
                site.lab.slug,
                site.first_line,
                site.second_line,
                site.city,
                site.state,
                site.zip_code,
                site.lng,
                site.lat,
                site.iana_timezone,
            )
        )
    physicians: dict[str, list[str]] = {}
    for each in Physician.objects.order_by("npi"):
        physicians.setdefault(str(each.team_id), []).append(
            f'{{"first_name":"{each.first_name}","last_name":"{each.last_name}","npi":"{each.npi}"}}'
        )
    return Context(
        World.objects.get(id=1).seed,
        tests,
        tuple(test for key, test in tests.items() if key in active),
        accounts,
        {key: tuple(found) for key, found in sites.items()},
        {team: tuple(found) for team, found in physicians.items()},
    )
