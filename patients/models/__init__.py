from patients.models.device import Connection, Provider
from patients.models.draft import RegistrationDraft
from patients.models.duplicate import DifferentPeople
from patients.models.insurance import Insurance, Payor
from patients.models.link import ConnectLink
from patients.models.name import PatientNameWord, first_sought, has_word, in_index
from patients.models.patient import (
    FEW_WORDS,
    Called,
    Demographics,
    Patient,
    PatientQuerySet,
    ids_beginning_with,
    mirrored_patient,
)

__all__ = [
    "FEW_WORDS",
    "Called",
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
    "first_sought",
    "has_word",
    "ids_beginning_with",
    "in_index",
    "mirrored_patient",
]
