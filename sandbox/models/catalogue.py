"""Labs, markers, lab tests, lab accounts, physicians, sites and service areas (catalogue.md)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Physician(models.Model):
    """A physician of a team."""

    npi = models.CharField(max_length=10, primary_key=True)
    team = models.ForeignKey("Team", models.CASCADE)
    first_name = models.CharField(max_length=50)
    last_name = models.CharField(max_length=50)
    email = models.CharField(max_length=200)
    licensed_states = ArrayField(models.CharField(max_length=2))


class Lab(models.Model):
    """A laboratory. `turnaround_days` feeds the expected dates where statistics exist."""

    id = models.IntegerField(primary_key=True)
    slug = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    first_line_address = models.CharField(max_length=200)
    city = models.CharField(max_length=100)
    zipcode = models.CharField(max_length=10)
    collection_methods = ArrayField(models.CharField(max_length=24))
    sample_types = ArrayField(models.CharField(max_length=24))
    logo_url = models.CharField(max_length=200, null=True)
    supports_psc_booking = models.BooleanField(default=False)
    supports_redraw = models.BooleanField(default=False)


class Loinc(models.Model):
    """A LOINC-like entry (made-up numbers in the real shape)."""

    id = models.IntegerField(primary_key=True)
    name = models.CharField(max_length=200)
    slug = models.CharField(max_length=200)
    code = models.CharField(max_length=12, unique=True)
    unit = models.CharField(max_length=24, null=True)


class Marker(models.Model):
    """A marker of a lab. `price_minor` in US cents; null means the contract decides.

    `aoe` is `{questions: [...]}` or null (catalogue.md 5). `is_reflex` ones are not listed.
    """

    id = models.IntegerField(primary_key=True)
    lab = models.ForeignKey(Lab, models.PROTECT)
    name = models.CharField(max_length=200)
    slug = models.CharField(max_length=200)
    description = models.CharField(max_length=500, null=True)
    provider_id = models.CharField(max_length=24)
    type = models.CharField(max_length=12)
    unit = models.CharField(max_length=24, null=True)
    price_minor = models.IntegerField(null=True)
    aoe = models.JSONField(null=True)
    a_la_carte_enabled = models.BooleanField(default=False)
    common_tat_days = models.IntegerField(null=True)
    worst_case_tat_days = models.IntegerField(null=True)
    is_orderable = models.BooleanField(default=True)
    is_active = models.BooleanField(default=True)
    is_reflex = models.BooleanField(default=False)
    reflex_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="reflexes")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "provider_id"], name="marker_code")]


class ExpectedResult(models.Model):
    """A row a marker's result will hold, with what the results generator needs.

    `kind` is a result type; `low`/`high` the reference bounds; `choices` texts or coded values,
    the first being the normal one.
    """

    id = models.IntegerField(primary_key=True)
    marker = models.ForeignKey(Marker, models.CASCADE, related_name="expected_results")
    name = models.CharField(max_length=200)
    slug = models.CharField(max_length=200)
    provider_id = models.CharField(max_length=24, null=True)
    loinc = models.ForeignKey(Loinc, models.PROTECT, null=True)
    required = models.BooleanField(default=True)
    kind = models.CharField(max_length=12, default="numeric")
    unit = models.CharField(max_length=24, null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    choices = ArrayField(models.CharField(max_length=200), default=list)

    class Meta:
        ordering = ["id"]


class LabTest(models.Model):
    """An orderable test. `team` null: offered to every team. `document` is its LabTest JSON text,
    kept equal to the rows by `sandbox.records.refresh_lab_test`."""

    id = models.UUIDField(primary_key=True)
    team = models.ForeignKey("Team", models.CASCADE, null=True)
    lab = models.ForeignKey(Lab, models.PROTECT)
    lab_account = models.ForeignKey("LabAccount", models.PROTECT, null=True)
    slug = models.CharField(max_length=100)
    name = models.CharField(max_length=200)
    description = models.CharField(max_length=500, default="")
    sample_type = models.CharField(max_length=24)
    method = models.CharField(max_length=24)
    price_minor = models.IntegerField()
    status = models.CharField(max_length=24)
    fasting = models.BooleanField(default=False)
    auto_generated = models.BooleanField(default=False)
    has_collection_instructions = models.BooleanField(default=False)
    common_tat_days = models.IntegerField(null=True)
    worst_case_tat_days = models.IntegerField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    markers = models.ManyToManyField(Marker, through="LabTestMarker", related_name="lab_tests")
    document = models.TextField(default="")


class LabTestMarker(models.Model):
    """A marker's place in a lab test."""

    lab_test = models.ForeignKey(LabTest, models.CASCADE)
    marker = models.ForeignKey(Marker, models.PROTECT)
    position = models.SmallIntegerField()

    class Meta:
        ordering = ["lab_test_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["lab_test", "marker"], name="lab_test_marker_once")
        ]


class LabAccount(models.Model):
    """A team's or the platform's account at a lab (catalogue.md 7).

    `allowed_billing` maps a billing type to two-letter states. `markers` empty means all markers
    of the lab; `lab_tests` empty means all tests of the lab.
    """

    id = models.UUIDField(primary_key=True)
    lab = models.ForeignKey(Lab, models.PROTECT)
    org_id = models.UUIDField(null=True)
    status = models.CharField(max_length=24)
    delegated_flow = models.CharField(max_length=24)
    provider_account_id = models.CharField(max_length=40)
    account_name = models.CharField(max_length=100, null=True)
    default_clinical_notes = models.CharField(max_length=1000, null=True)
    business_units = ArrayField(models.CharField(max_length=60), null=True)
    allowed_billing = models.JSONField(default=dict)
    team_id_allowlist = ArrayField(models.UUIDField(), default=list)
    markers = models.ManyToManyField(Marker, related_name="lab_accounts")
    lab_tests = models.ManyToManyField(LabTest, related_name="offering_accounts")


class PscSite(models.Model):
    """A patient service center. `hours` maps a weekday to text, or null."""

    lab = models.ForeignKey(Lab, models.PROTECT, related_name="sites")
    site_code = models.CharField(max_length=16)
    name = models.CharField(max_length=100)
    first_line = models.CharField(max_length=200)
    second_line = models.CharField(max_length=200, null=True)
    city = models.CharField(max_length=100)
    state = models.CharField(max_length=2)
    zip_code = models.CharField(max_length=10)
    phone_number = models.CharField(max_length=32, null=True)
    fax_number = models.CharField(max_length=32, null=True)
    hours = models.JSONField(null=True)
    website = models.CharField(max_length=200, null=True)
    lng = models.FloatField()
    lat = models.FloatField()
    iana_timezone = models.CharField(max_length=64)
    capabilities = ArrayField(models.CharField(max_length=60))
    supported_bill_types = ArrayField(models.CharField(max_length=40))
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "site_code"], name="psc_site_code")]


class ServiceArea(models.Model):
    """A zip code the world knows: where it lies and who draws blood at home there.

    `phlebotomy` maps a phlebotomy provider slug to its service types; empty: not served.
    """

    zip_code = models.CharField(max_length=5, primary_key=True)
    city = models.CharField(max_length=100)
    state = models.CharField(max_length=2)
    lng = models.FloatField()
    lat = models.FloatField()
    iana_timezone = models.CharField(max_length=64)
    phlebotomy = models.JSONField(default=dict)
