"""What the made-up labs offer: markers, lab tests, lab accounts, physicians, payors, codes."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Q

from sandbox.catalogue_data import (
    ANALYTES,
    DIAGNOSES,
    LAB_MARKERS,
    LAB_TESTS,
    PANELS,
    PAYORS,
    PROVIDERS,
    Analyte,
)
from sandbox.keyed_random import keyed_uuid
from sandbox.models import (
    DiagnosisCode,
    ExpectedResult,
    Lab,
    LabAccount,
    LabTest,
    LabTestMarker,
    Loinc,
    Marker,
    Payor,
    Physician,
    Provider,
    Team,
)
from sandbox.places import AREAS, ONE_STATE_LAB
from sandbox.records import refresh_lab_test
from sandbox.wearables.resources import event_names

STATES = sorted({area[2] for area in AREAS})
TEAM_IDS = tuple(f"7ea00000-0000-4000-8000-{n:012d}" for n in (1, 2, 3))

LABS: list[dict[str, Any]] = [
    {
        "id": 11,
        "slug": "lab-north",
        "name": "North Made-up Laboratory",
        "city": "Boston",
        "zipcode": "02108",
        "collection_methods": ["walk_in_test", "at_home_phlebotomy"],
        "sample_types": ["serum", "urine"],
        "supports_psc_booking": True,
        "supports_redraw": True,
    },
    {
        "id": 12,
        "slug": "lab-south",
        "name": "South Made-up Laboratory",
        "city": "Atlanta",
        "zipcode": "30303",
        "collection_methods": ["walk_in_test", "at_home_phlebotomy", "on_site_collection"],
        "sample_types": ["serum", "urine"],
    },
    {
        "id": 13,
        "slug": "lab-east",
        "name": "East Kit Laboratory",
        "city": "Miami",
        "zipcode": "33101",
        "collection_methods": ["testkit"],
        "sample_types": ["dried_blood_spot", "arm_collector", "saliva"],
    },
    {
        "id": 14,
        "slug": "lab-west",
        "name": "West Kit Laboratory",
        "city": "Seattle",
        "zipcode": "98101",
        "collection_methods": ["testkit", "on_site_collection"],
        "sample_types": ["stool", "urine", "saliva"],
    },
    {
        "id": 15,
        "slug": ONE_STATE_LAB,
        "name": "Coast Made-up Laboratory",
        "city": "New York",
        "zipcode": "10001",
        "collection_methods": ["walk_in_test"],
        "sample_types": ["serum"],
        "supports_psc_booking": True,
    },
]

ALL_BILLING = ("client_bill", "commercial_insurance", "patient_bill_passthrough", "patient_bill")


class Account(NamedTuple):
    """A lab account. `offers`: names of the only lab tests that it offers; empty for all."""

    slug: str
    lab: str
    status: str
    flow: str
    billing: tuple[str, ...]
    teams: tuple[int, ...]
    offers: tuple[str, ...] = ()
    extras: dict[str, Any] = {}


ACCOUNTS: tuple[Account, ...] = (
    Account(
        "north-main",
        "lab-north",
        "active",
        "order_delegated",
        ALL_BILLING,
        (0,),
        extras={
            "default_clinical_notes": "Made-up clinic: phone results before noon.",
            "business_units": ["unit-n", "unit-o"],
        },
    ),
    Account(
        "north-pending",
        "lab-north",
        "pending",
        "not_delegated",
        ALL_BILLING[:1],
        (0,),
        offers=("Liver Screen", "Yearly Check"),
    ),
    Account(
        "south-shared",
        "lab-south",
        "active",
        "result_delegated",
        ALL_BILLING[:3],
        (0, 1, 2),
        extras={"business_units": ["unit-a", "unit-b"]},
    ),
    Account(
        "south-second",
        "lab-south",
        "suspended",
        "not_delegated",
        ALL_BILLING[:1],
        (0, 1),
        offers=("Clinic Draw Basic",),
    ),
    Account("east-main", "lab-east", "active", "not_delegated", ALL_BILLING[:1], (0, 1)),
    Account(
        "east-pending",
        "lab-east",
        "pending",
        "not_delegated",
        ALL_BILLING[:1],
        (0,),
        offers=("Heart Kit",),
    ),
    Account("west-main", "lab-west", "active", "fully_delegated", ALL_BILLING[:2], (0, 2)),
    # The second active one of our team at its lab: every order there names its account.
    Account(
        "west-second",
        "lab-west",
        "active",
        "not_delegated",
        ALL_BILLING[:2],
        (0,),
        offers=("Gut Kit", "Clinic Draw Urine"),
    ),
    Account("west-next", "lab-west", "ready_to_launch", "not_delegated", ALL_BILLING[:1], (0,)),
)

PHYSICIANS = [
    ("1900000011", 0, "Ada", "Madeup"),
    ("1900000029", 0, "Bruno", "Sample"),
    ("1900000037", 0, "Clara", "Testperson"),
    ("1900000045", 1, "Dario", "Fixture"),
]


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-").replace("--", "-")


def make_catalogue(epoch: datetime) -> None:
    """Fill everything that does not depend on how many people there are."""
    Team.objects.bulk_create(
        Team(
            id=team_id,
            org_id=settings.ORG_ID,
            name=f"Made-up Clinic {place + 1}",
            minor_ordering_enabled=place == 0,
            partial_webhooks_enabled=place == 0,
        )
        for place, team_id in enumerate(TEAM_IDS)
    )
    _make_payors()
    Physician.objects.bulk_create(
        Physician(
            npi=npi,
            team_id=TEAM_IDS[team],
            first_name=first,
            last_name=last,
            email=f"{first.lower()}.{last.lower()}@example.invalid",
            licensed_states=STATES,
        )
        for npi, team, first, last in PHYSICIANS
    )
    Lab.objects.bulk_create(
        Lab(
            **lab,
            first_line_address=f"{lab['id']} Laboratory Road",
            logo_url=f"https://files.service.invalid/labs/{lab['slug']}.png",
        )
        for lab in LABS
    )
    _make_markers()
    _make_lab_tests(epoch)
    _make_accounts()
    for test in LabTest.objects.select_related("lab").order_by("slug"):
        refresh_lab_test(test)


def _make_payors() -> None:
    Provider.objects.bulk_create(
        Provider(
            slug=slug,
            name=name,
            description=f"{name}, a made-up source of {kind} data",
            logo=f"https://files.service.invalid/providers/{slug}.png",
            auth_type=auth,
            source_type=kind,
            supported_resources=list(dict.fromkeys([*resources, *event_names(slug)])),
        )
        for slug, name, auth, kind, resources in PROVIDERS
    )
    Payor.objects.bulk_create(
        Payor(
            payor_code=code,
            name=name,
            aliases=aliases,
            first_line=f"{100 + place} Payor Plaza",
            second_line="",
            city=AREAS[place % len(AREAS)][1],
            state=AREAS[place % len(AREAS)][2],
            zip=AREAS[place % len(AREAS)][0],
            team_id=TEAM_IDS[team] if team is not None else None,
            provider_payor_ids={
                "clearing-one": f"C1{place:04d}",
                "clearing-two": f"{9000 + place}",
            },
        )
        for place, (code, name, aliases, team) in enumerate(PAYORS)
    )
    DiagnosisCode.objects.bulk_create(
        DiagnosisCode(
            code=code,
            description=description,
            is_secondary=secondary,
            excludes=excludes,
            overlaps=overlaps,
        )
        for code, description, secondary, excludes, overlaps in DIAGNOSES
    )


def _make_markers() -> None:
    loincs: dict[str, Loinc] = {}
    for place, (key, analyte) in enumerate(ANALYTES.items()):
        number = 90100 + 13 * place
        loincs[key] = Loinc(
            id=500 + place,
            name=analyte.name,
            slug=_slug(analyte.name),
            code=f"{number}-{number % 10}",
            unit=analyte.unit,
        )
    Loinc.objects.bulk_create(loincs.values())
    labs = {lab.slug: lab for lab in Lab.objects.all()}
    markers: list[Marker] = []
    expected: list[ExpectedResult] = []
    reflexes: dict[int, int] = {}
    numbers: dict[tuple[str, str], int] = {}
    for lab_slug, keys in LAB_MARKERS.items():
        lab = labs[lab_slug]
        for place, key in enumerate(keys):
            number = lab.id * 100 + place + 1
            numbers[lab_slug, key] = number
            panel = PANELS.get(key)
            first: Analyte = ANALYTES[panel.members[0] if panel else key]
            name = panel.name if panel else first.name
            reflex_of = first.reflex_of if panel is None else None
            if reflex_of is not None:
                reflexes[number] = numbers[lab_slug, reflex_of]
            markers.append(
                Marker(
                    id=number,
                    lab=lab,
                    name=name,
                    slug=_slug(name),
                    description=f"{name}, measured by {lab.name}",
                    provider_id=f"{lab.slug[4].upper()}{1000 + 17 * place}",
                    type="panel" if panel else "biomarker",
                    unit=None if panel else first.unit,
                    price_minor=None if place % 6 == 5 else 900 + 350 * place % 5200,
                    aoe=_questions(number, key),
                    a_la_carte_enabled=reflex_of is None and place % 3 != 2,
                    common_tat_days=None if place % 9 == 8 else 2 + place % 4,
                    worst_case_tat_days=None if place % 9 == 8 else 5 + place % 5,
                    is_reflex=reflex_of is not None,
                )
            )
            for member in panel.members if panel else (key,):
                analyte = ANALYTES[member]
                expected.append(
                    ExpectedResult(
                        id=len(expected) + 7001,
                        marker_id=number,
                        name=analyte.name,
                        slug=_slug(analyte.name),
                        provider_id=f"{lab.slug[4].upper()}{5000 + loincs[member].id}",
                        loinc=loincs[member] if analyte.has_loinc else None,
                        required=reflex_of is None,
                        kind=analyte.kind,
                        unit=analyte.unit,
                        low=analyte.low,
                        high=analyte.high,
                        choices=list(analyte.choices),
                    )
                )
    Marker.objects.bulk_create(markers)
    for number, base in reflexes.items():
        Marker.objects.filter(id=number).update(reflex_of_id=base)
    ExpectedResult.objects.bulk_create(expected)


def _questions(number: int, key: str) -> dict[str, Any] | None:
    def question(place: int, code: str, value: str, kind: str, **more: Any) -> dict[str, Any]:
        answers = more.pop("answers", [])
        return {
            "id": 4_000_000_000_000 + number * 10 + place,
            "required": more.pop("required", True),
            "code": code,
            "value": value,
            "type": kind,
            "sequence": place + 1,
            "answers": [
                {"id": number * 100 + place * 10 + n, "code": each[0], "value": each[1]}
                for n, each in enumerate(answers)
            ],
            "constraint": more.pop("constraint", None),
            "default": more.pop("default", None),
        }

    yes_no = (("Y", "Yes"), ("N", "No"))
    match key:
        case "glucose" | "lipids":
            asked = [question(0, "FASTING", "Fasting?", "choice", answers=yes_no, default="N")]
        case "testosterone":
            asked = [
                question(0, "LASTDOSE", "Date of last dose", "text", constraint="YYYYMMDD"),
                question(1, "WEIGHT", "Weight in pounds", "numeric", required=False),
            ]
        case "psa":
            asked = [question(0, "BIOPSY", "Biopsy within six weeks?", "choice", answers=yes_no)]
        case "cortisol":
            asked = [question(0, "WAKING", "Hour of waking", "numeric", constraint="0-23")]
        case "culture" | "urinalysis":
            asked = [
                question(
                    0,
                    "SOURCE",
                    "Specimen source",
                    "multi_choice",
                    answers=(("MID", "Midstream"), ("CATH", "Catheter"), ("OTH", "Other")),
                )
            ]
        case _:
            return None
    return {"questions": asked}


def _make_lab_tests(epoch: datetime) -> None:
    numbers = {(m.lab.slug, m.slug): m.id for m in Marker.objects.select_related("lab")}
    labs = {lab.slug: lab for lab in Lab.objects.all()}
    for place, offer in enumerate(LAB_TESTS):
        created = (epoch - timedelta(days=900 - 20 * place)).replace(hour=9, minute=30, second=0)
        test = LabTest.objects.create(
            id=keyed_uuid("lab test", offer.name),
            team_id=None if offer.team is None else TEAM_IDS[offer.team],
            lab=labs[offer.lab],
            slug=_slug(offer.name),
            name=offer.name,
            description=f"{offer.name}: a made-up test",
            sample_type=offer.sample,
            method=offer.method,
            price_minor=offer.price_minor,
            status=offer.status,
            fasting=offer.fasting,
            auto_generated=offer.auto,
            has_collection_instructions=offer.method == "testkit",
            common_tat_days=offer.tat and offer.tat[0],
            worst_case_tat_days=offer.tat and offer.tat[1],
            created_at=created,
            updated_at=created + timedelta(days=place),
        )
        LabTestMarker.objects.bulk_create(
            LabTestMarker(
                lab_test=test,
                marker_id=numbers[
                    offer.lab,
                    _slug(PANELS[key].name if key in PANELS else ANALYTES[key].name),
                ],
                position=position,
            )
            for position, key in enumerate(offer.markers)
        )


def _make_accounts() -> None:
    labs = {lab.slug: lab for lab in Lab.objects.all()}
    for each in ACCOUNTS:
        account = LabAccount.objects.create(
            id=keyed_uuid("lab account", each.slug),
            lab=labs[each.lab],
            org_id=settings.ORG_ID,
            status=each.status,
            delegated_flow=each.flow,
            provider_account_id=str(
                40_000 + 7 * len(each.slug) + 11 * len(each.teams) + len(each.flow)
            ),
            account_name=f"Made-up account {each.slug}",
            allowed_billing={
                kind: STATES if kind == "client_bill" else STATES[place::2]
                for place, kind in enumerate(each.billing)
            },
            team_id_allowlist=[TEAM_IDS[team] for team in each.teams],
            **each.extras,
        )
        if each.offers:
            tests = LabTest.objects.filter(lab=account.lab, name__in=each.offers)
            account.lab_tests.set(tests)
            markers = Marker.objects.filter(lab=account.lab).order_by("id")
            half = markers.values("id")[: markers.count() // 2]
            account.markers.set(markers.filter(Q(lab_tests__in=tests) | Q(id__in=half)).distinct())
