from patients.models.device import FAILING_STATUSES, Connection, Provider
from patients.models.draft import RegistrationDraft
from patients.models.duplicate import DifferentPeople
from patients.models.insurance import Insurance, Payor
from patients.models.link import ConnectLink
from patients.models.name import (
    PatientNameWord,
    any_of,
    most_selective,
    name_contains_word,
    word_index_condition,
)
from patients.models.patient import Demographics, Patient, mirrored_patient
from patients.models.patient_queryset import FINISHED_BUCKETS, PatientQuerySet

__all__ = [
    "FAILING_STATUSES",
    "FINISHED_BUCKETS",
    "ConnectLink",
    "Connection",
    "Demographics",
    "DifferentPeople",
    "Insurance",
    "Patient",
    "PatientNameWord",
    "PatientQuerySet",
    "Payor",
    "Provider",
    "RegistrationDraft",
    "any_of",
    "mirrored_patient",
    "most_selective",
    "name_contains_word",
    "word_index_condition",
]
