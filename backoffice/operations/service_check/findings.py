"""The result of one check, as the command and the page show it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from backoffice.operations.service_check.answers import ServiceAnswers


class Outcome(StrEnum):
    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"

    @property
    def label(self) -> str:
        return {"ok": "OK", "problem": "Problem", "unknown": "Could not be checked"}[self.value]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: the result, and the remedy for a problem.

    `is_pending`: the result is not known yet.
    """

    title: str
    outcome: Outcome
    words: str
    remedy: str = ""
    is_pending: bool = False


class Check(ABC):
    """One question about the connection to the service."""

    title: ClassVar[str]

    @abstractmethod
    def run(self, answers: ServiceAnswers) -> Finding:
        """Return the finding. No answer of the service makes this raise an error."""

    def ok(self, words: str) -> Finding:
        return Finding(self.title, Outcome.OK, words)

    def problem(self, words: str, remedy: str) -> Finding:
        return Finding(self.title, Outcome.PROBLEM, words, remedy)

    def unknown(self, words: str, remedy: str = "", *, is_pending: bool = False) -> Finding:
        return Finding(self.title, Outcome.UNKNOWN, words, remedy, is_pending)
