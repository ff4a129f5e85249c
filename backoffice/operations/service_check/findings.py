"""The result of one check, as the command and the page show it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from django.utils.translation import gettext

from backoffice.operations.service_check.answers import ServiceAnswers


class FindingOutcome(StrEnum):
    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"

    @property
    def label(self) -> str:
        labels = {
            "ok": gettext("OK"),
            "problem": gettext("Problem"),
            "unknown": gettext("Could not be checked"),
        }
        return labels[self.value]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One line: the result, and the remedy for a problem.

    `is_pending`: the result is not known yet.
    """

    title: str
    outcome: FindingOutcome
    words: str
    remedy: str = ""
    is_pending: bool = False


class Check(ABC):
    """One question about the connection to the service."""

    title: ClassVar[str]
    """Marked for translation; the page translates it."""

    @abstractmethod
    def run(self, answers: ServiceAnswers) -> CheckFinding:
        """Return the finding. No answer of the service makes this raise an error."""

    def ok(self, words: str) -> CheckFinding:
        return CheckFinding(self.title, FindingOutcome.OK, words)

    def problem(self, words: str, remedy: str) -> CheckFinding:
        return CheckFinding(self.title, FindingOutcome.PROBLEM, words, remedy)

    def unknown(self, words: str, remedy: str = "", *, is_pending: bool = False) -> CheckFinding:
        return CheckFinding(self.title, FindingOutcome.UNKNOWN, words, remedy, is_pending)
