"""Tables behind the catalogue: analytes, panels, lab tests, payors, codes, providers."""

from typing import NamedTuple


class Analyte(NamedTuple):
    """A thing a lab reports. `choices[0]` is the normal text or coded value."""

    name: str
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    kind: str = "numeric"
    choices: tuple[str, ...] = ()
    reflex_of: str | None = None
    has_loinc: bool = True


class Panel(NamedTuple):
    name: str
    members: tuple[str, ...]


class TestRow(NamedTuple):
    """A lab test. `team` null: offered to all; `tat`: common and worst case days."""

    name: str
    lab: str
    method: str
    sample: str
    markers: tuple[str, ...]
    price_minor: int
    tat: tuple[int, int] | None = (4, 8)
    status: str = "active"
    fasting: bool = False
    auto: bool = False
    team: int | None = None


ANALYTES: dict[str, Analyte] = {
    "glucose": Analyte("Glucose", "mg/dL", 70, 99),
    "hba1c": Analyte("Hemoglobin A1c", "%", 4, 5.6),
    "cholesterol": Analyte("Cholesterol, Total", "mg/dL", 100, 199),
    "hdl": Analyte("HDL Cholesterol", "mg/dL", 40, 90),
    "ldl": Analyte("LDL Cholesterol", "mg/dL", 40, 99),
    "triglycerides": Analyte("Triglycerides", "mg/dL", 30, 149),
    "sodium": Analyte("Sodium", "mmol/L", 135, 146),
    "potassium": Analyte("Potassium", "mmol/L", 3.5, 5.3),
    "creatinine": Analyte("Creatinine", "mg/dL", 0.6, 1.3),
    "calcium": Analyte("Calcium", "mg/dL", 8.6, 10.4),
    "wbc": Analyte("White Blood Cells", "10*3/uL", 3.8, 10.8),
    "hemoglobin": Analyte("Hemoglobin", "g/dL", 11.7, 15.5),
    "platelets": Analyte("Platelets", "10*3/uL", 140, 400),
    "tsh": Analyte("Thyroid Stimulating Hormone", "mIU/L", 0.4, 4.5),
    "ft4": Analyte("Free T4", "ng/dL", 0.8, 1.8, reflex_of="tsh"),
    "ferritin": Analyte("Ferritin", "ng/mL", 16, 232),
    "iron": Analyte("Iron, Total", "ug/dL", 45, 160),
    "b12": Analyte("Vitamin B12", "pg/mL", 200, 1100),
    "vitamind": Analyte("Vitamin D, 25-Hydroxy", "ng/mL", 30, 100),
    "crp": Analyte("C-Reactive Protein", "mg/L", 0, 3, kind="range"),
    "psa": Analyte("Prostate Specific Antigen", "ng/mL", 0, 4, kind="range"),
    "testosterone": Analyte("Testosterone, Total", "ng/dL", 250, 1100),
    "cortisol": Analyte("Cortisol", "ug/dL", 4, 22),
    "estradiol": Analyte("Estradiol", "pg/mL", 20, 400),
    "uricacid": Analyte("Uric Acid", "mg/dL", 2.5, 7),
    "apob": Analyte("Apolipoprotein B", "mg/dL", 40, 90),
    "hcvab": Analyte(
        "Hepatitis C Antibody", kind="coded_value", choices=("NOT_DETECTED", "DETECTED")
    ),
    "hcvrna": Analyte(
        "Hepatitis C RNA", "IU/mL", 0, 15, kind="range", reflex_of="hcvab", has_loinc=False
    ),
    "urinalysis": Analyte(
        "Urinalysis Appearance", kind="comment", choices=("Clear, yellow", "Cloudy, amber")
    ),
    "culture": Analyte(
        "Urine Culture",
        kind="comment",
        choices=("No growth", "Mixed growth, repeat advised"),
        reflex_of="urinalysis",
    ),
    "calprotectin": Analyte("Calprotectin", "ug/g", 0, 50, kind="range"),
    "occult": Analyte("Occult Blood", kind="coded_value", choices=("NEGATIVE", "POSITIVE")),
    "omega3": Analyte("Omega-3 Index", "%", 5.5, 12, has_loinc=False),
}

PANELS: dict[str, Panel] = {
    "lipids": Panel("Lipid Panel", ("cholesterol", "hdl", "ldl", "triglycerides")),
    "metabolic": Panel(
        "Basic Metabolic Panel", ("glucose", "sodium", "potassium", "creatinine", "calcium")
    ),
    "bloodcount": Panel("Blood Count", ("wbc", "hemoglobin", "platelets")),
    "ironpanel": Panel("Iron Panel", ("iron", "ferritin")),
    "hormones": Panel("Hormone Panel", ("testosterone", "estradiol", "cortisol")),
}

LAB_MARKERS: dict[str, tuple[str, ...]] = {
    "lab-north": (
        "lipids", "metabolic", "bloodcount", "ironpanel", "hormones", "glucose", "hba1c", "tsh",
        "ft4", "ferritin", "b12", "vitamind", "crp", "psa", "testosterone", "cortisol", "hcvab",
        "hcvrna", "urinalysis", "culture", "apob", "uricacid",
    ),
    "lab-south": (
        "lipids", "metabolic", "bloodcount", "hormones", "glucose", "hba1c", "tsh", "ft4",
        "ferritin", "vitamind", "crp", "psa", "hcvab", "hcvrna", "urinalysis", "culture",
        "estradiol", "uricacid",
    ),
    "lab-east": (
        "lipids", "hba1c", "tsh", "ferritin", "vitamind", "crp", "testosterone", "cortisol",
        "omega3", "apob", "hormones",
    ),
    "lab-west": (
        "calprotectin", "occult", "urinalysis", "culture", "cortisol", "testosterone", "glucose",
        "hba1c", "bloodcount",
    ),
    "lab-coast": ("lipids", "glucose", "tsh"),
}  # fmt: skip

LAB_TESTS: tuple[TestRow, ...] = (
    TestRow(
        "Yearly Check", "lab-north", "walk_in_test", "serum",
        ("lipids", "metabolic", "bloodcount", "tsh"), 8900, fasting=True,
    ),
    TestRow("Liver Screen", "lab-north", "walk_in_test", "serum", ("hcvab", "ferritin"), 5200),
    TestRow("Urine Screen", "lab-south", "walk_in_test", "urine", ("urinalysis",), 2100, (2, 5)),
    TestRow(
        "Home Visit Wellness", "lab-north", "at_home_phlebotomy", "serum",
        ("metabolic", "hba1c", "vitamind", "b12"), 15900,
    ),
    TestRow(
        "Home Visit Hormones", "lab-south", "at_home_phlebotomy", "serum",
        ("hormones", "tsh", "crp"), 14900, None,
    ),
    TestRow(
        "Heart Kit", "lab-east", "testkit", "dried_blood_spot",
        ("lipids", "crp", "apob", "omega3"), 9900, (5, 9),
    ),
    TestRow("Vitamin Kit", "lab-east", "testkit", "arm_collector", ("vitamind", "ferritin"), 6900),
    TestRow("Gut Kit", "lab-west", "testkit", "stool", ("calprotectin", "occult"), 11900, None),
    TestRow("Stress Kit", "lab-west", "testkit", "saliva", ("cortisol", "testosterone"), 7900),
    TestRow(
        "Clinic Draw Basic", "lab-south", "on_site_collection", "serum",
        ("metabolic", "bloodcount"), 4500, (3, 6),
    ),
    TestRow(
        "Clinic Draw Urine", "lab-west", "on_site_collection", "urine", ("urinalysis",), 1900,
        (2, 4), team=0,
    ),
    TestRow(
        "Add-on 7 f3a9", "lab-north", "walk_in_test", "serum", ("lipids", "psa"), 6100, auto=True
    ),
    TestRow(
        "Add-on 8 b2c1", "lab-south", "at_home_phlebotomy", "serum", ("glucose", "uricacid"), 5900,
        auto=True,
    ),
    TestRow(
        "Men's Panel Draft", "lab-north", "walk_in_test", "serum", ("psa", "testosterone"), 6900,
        None, "pending_approval", team=0,
    ),
    TestRow(
        "Old Heart Kit", "lab-east", "testkit", "dried_blood_spot", ("lipids",), 7900, (6, 11),
        "inactive",
    ),
    TestRow(
        "Other Team Panel", "lab-south", "walk_in_test", "serum", ("glucose", "hba1c"), 3900,
        team=1,
    ),
    TestRow("Coast Check", "lab-coast", "walk_in_test", "serum", ("lipids", "glucose"), 4900),
)  # fmt: skip

PROVIDERS: tuple[tuple[str, str, str, str, list[str]], ...] = (
    (
        "band-one", "Band One", "oauth", "watch",
        ["activity", "sleep", "body", "workouts", "heartrate", "steps", "profile"],
    ),
    (
        "ring-two", "Ring Two", "oauth", "ring",
        ["activity", "sleep", "sleep_cycle", "heartrate", "hrv", "profile"],
    ),
    (
        "scale-three", "Scale Three", "oauth", "scale",
        ["body", "weight", "fat", "blood_pressure"],
    ),
    (
        "phone-four", "Phone Health Four", "sdk", "phone",
        ["activity", "steps", "workouts", "glucose", "meal", "distance"],
    ),
    ("sensor-five", "Sensor Five", "password", "automatic", ["glucose", "profile"]),
)  # fmt: skip

PAYORS: tuple[tuple[str, str, list[str], int | None], ...] = (
    ("MEDFED", "Federal Senior Coverage (made up)", ["Senior Federal"], None),
    ("MAIDFED", "Federal Low Income Coverage (made up)", ["Low Income Federal"], None),
    ("MUPLAN1", "Made-up Mutual", ["MUM", "Made-up Mutual of Sampleton"], None),
    ("MUPLAN2", "Sample Shield", ["Shield Sample"], None),
    ("MUPLAN3", "Placeholder Health Plan", [], None),
    ("MUPLAN4", "Fixture Family Care", ["FFC"], None),
    ("MUPLAN5", "Example Employers Trust", ["EET"], None),
    ("MUPLAN6", "Demo Dental and Health", [], None),
    ("MUPLAN7", "Pretend Preferred", ["Pretend PPO"], None),
    ("MUPLAN8", "Imaginary Insurance", [], None),
    ("TEAM1PL", "Sampleton Local Plan", ["Local Plan"], 0),
    ("TEAM2PL", "Other Team Plan", [], 1),
)

# code, description, secondary, mutually exclusive with, overlaps with
DIAGNOSES: tuple[tuple[str, str, bool, list[str], list[str]], ...] = (
    ("Z00.00", "General adult examination without abnormal findings", False, ["Z00.01"], []),
    ("Z00.01", "General adult examination with abnormal findings", False, ["Z00.00"], []),
    ("Z13.220", "Screening for lipoid disorders", False, [], ["E78.5"]),
    ("Z13.1", "Screening for diabetes mellitus", False, [], ["E11.9", "R73.03"]),
    ("Z13.29", "Screening for other endocrine disorders", False, [], []),
    ("Z11.59", "Screening for other viral diseases", False, [], []),
    ("Z79.899", "Other long term drug therapy", True, [], []),
    ("Z83.3", "Family history of diabetes mellitus", True, [], []),
    ("Z86.39", "Personal history of other endocrine disease", True, [], []),
    ("E11.9", "Type 2 diabetes mellitus without complications", False, ["E10.9"], ["Z13.1"]),
    ("E10.9", "Type 1 diabetes mellitus without complications", False, ["E11.9"], []),
    ("E78.5", "Hyperlipidemia, unspecified", False, ["E78.00"], ["Z13.220"]),
    ("E78.00", "Pure hypercholesterolemia, unspecified", False, ["E78.5"], []),
    ("E03.9", "Hypothyroidism, unspecified", False, ["E05.90"], []),
    ("E05.90", "Thyrotoxicosis, unspecified", False, ["E03.9"], []),
    ("E55.9", "Vitamin D deficiency, unspecified", False, [], []),
    ("E61.1", "Iron deficiency", False, [], ["D50.9"]),
    ("E53.8", "Deficiency of other specified B group vitamins", False, [], []),
    ("D50.9", "Iron deficiency anemia, unspecified", False, [], ["E61.1", "D64.9"]),
    ("D64.9", "Anemia, unspecified", False, [], ["D50.9"]),
    ("R73.03", "Prediabetes", False, ["E11.9"], ["Z13.1"]),
    ("R73.9", "Hyperglycemia, unspecified", False, [], ["R73.03"]),
    ("R53.83", "Other fatigue", False, [], []),
    ("R63.5", "Abnormal weight gain", False, ["R63.4"], []),
    ("R63.4", "Abnormal weight loss", False, ["R63.5"], []),
    ("R79.89", "Other specified abnormal findings of blood chemistry", False, [], []),
    ("R82.90", "Unspecified abnormal findings in urine", False, [], []),
    ("I10", "Essential hypertension", False, [], []),
    ("N39.0", "Urinary tract infection, site not specified", False, [], ["R82.90"]),
    ("K58.9", "Irritable bowel syndrome without diarrhea", False, [], []),
    ("M10.9", "Gout, unspecified", False, [], []),
    ("E29.1", "Testicular hypofunction", False, [], []),
    ("N95.1", "Menopausal and female climacteric states", False, [], []),
    ("F43.9", "Reaction to severe stress, unspecified", False, [], []),
)
