"""Insurance records, payors and diagnosis codes. Interface: users, chapters 4-6."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from msgspec import field

from backoffice.service.exchange import Calls, as_json
from backoffice.service.payload import (
    Payload,
    Reader,
    Record,
    RecordPage,
    RequestBody,
    either,
    parse_day,
)
from backoffice.service.users import Address, Guarantor, NewAddress, NewGuarantor


class InsuredPerson(Payload):
    """The covered person; compare ``gender`` without case (differences.md 25)."""

    first_name: str = ""
    last_name: str = ""
    gender: str = ""
    address: Address | None = None
    dob_sent: str | None = field(default=None, name="dob")
    email: str = ""
    phone_number: str = ""

    @property
    def dob(self) -> date | None:
        return parse_day(self.dob_sent)


class Company(Payload):
    name: str = ""
    address: Address | None = None


class InsurancePayload(Payload):
    """An insurance record of a patient.

    ``relationship`` of the patient to the policy holder: Self, Spouse, Other.
    """

    payor_code: str
    member_id: str
    relationship: str = ""
    insured: InsuredPerson | None = None
    group_id: str | None = None
    guarantor: Guarantor | None = None
    is_primary: bool = True
    company: Company | None = None


class PayorPayload(Payload):
    """An insurance payor.

    ``source`` is platform, or team for a payor that this team created. ``code`` is the older name
    of ``payor_code``.
    """

    name: str
    payor_code_sent: str | None = field(default=None, name="payor_code")
    code_sent: str | None = field(default=None, name="code")
    aliases: list[str] = field(default_factory=list)
    org_address: Address | None = None
    source: str = ""

    @property
    def payor_code(self) -> str:
        return either(self.payor_code_sent, self.code_sent) or ""


class DiagnosisPayload(Payload):
    diagnosis_code: str
    description: str = ""
    is_secondary: bool = False


class CodeConflict(Payload):
    """Two diagnosis codes that exclude each other."""

    code: str = ""
    conflicts_with: str = ""
    type: str = ""


class CodeOverlap(Payload):
    """Two diagnosis codes that overlap in meaning."""

    code: str = ""
    overlaps_with: str = ""
    type: str = ""


class CodeCheck(Payload):
    """The outcome of a check of diagnosis codes; ``errors`` has the text of the service."""

    valid: bool
    errors: list[str] = field(default_factory=list)
    violations: list[CodeConflict] = field(default_factory=list)
    warnings: list[CodeOverlap] = field(default_factory=list)


class NewInsured(RequestBody):
    """The covered person with all fields. ``gender``: female, male, other, unknown."""

    first_name: str
    last_name: str
    gender: str
    address: NewAddress
    dob: date
    email: str
    phone_number: str


class NewInsurance(RequestBody):
    """An insurance record to create.

    ``relationship`` of the patient to the policy holder: Self, Spouse, Other. A ``guarantor`` is
    required unless it is Self.
    """

    payor_code: str
    member_id: str
    relationship: str
    insured: NewInsured
    group_id: str | None = None
    guarantor: NewGuarantor | None = None
    is_primary: bool | None = None


class NewPayor(RequestBody):
    """A payor to create for this team.

    ``provider`` is the slug of the connectivity provider that issued ``provider_payor_id``.
    """

    name: str
    address: NewAddress
    provider: str | None = None
    provider_payor_id: str | None = None


_INSURANCE = Reader(InsurancePayload)
_PAYOR = Reader(PayorPayload)
_DIAGNOSIS = Reader(DiagnosisPayload)
_CODES = Reader(CodeCheck)


class InsuranceCalls(Calls):
    """Calls of users.md 4-6."""

    def create(self, user_id: UUID | str, insurance: NewInsurance) -> Record[InsurancePayload]:
        """Add an insurance record.

        No call changes a record; the newest primary record is the valid one. The service returns
        Medicare and Medicaid codes as the code of a state's plan.
        """
        path = "/v2/user/{user_id}/insurance"
        return self._call.send("POST", path, _INSURANCE, as_json(insurance), user_id=user_id)

    def create_payor(self, payor: NewPayor) -> Record[PayorPayload]:
        return self._call.send("POST", "/v3/payor", _PAYOR, as_json(payor))

    def validate_icd_codes(self, codes: Sequence[str]) -> Record[CodeCheck]:
        """Check whether diagnosis codes exist and can be combined."""
        path = "/v3/insurance/validate_icd_codes"
        return self._call.look_up(path, _CODES, body=as_json({"codes": codes}))

    def latest(self, user_id: UUID | str, is_primary: bool = True) -> Record[InsurancePayload]:
        """Return the newest primary (or secondary) record.

        Raises Missing when there is none.
        """
        path = "/v2/user/{user_id}/insurance/latest"
        return self._call.record(
            path, _INSURANCE, query={"is_primary": is_primary}, user_id=user_id
        )

    def search_payors(
        self,
        insurance_name: str | None = None,
        provider: str | None = None,
        provider_payor_id: str | None = None,
    ) -> RecordPage[PayorPayload]:
        query = {
            "insurance_name": insurance_name,
            "provider": provider,
            "provider_payor_id": provider_payor_id,
        }
        return self._call.page("/v3/insurance/search/payor", _PAYOR, query=query)

    def search_diagnoses(self, query: str) -> RecordPage[DiagnosisPayload]:
        return self._call.page(
            "/v3/insurance/search/diagnosis", _DIAGNOSIS, query={"diagnosis_query": query}
        )
