"""The tables of evidence: every row exists once, and every name in them exists.

`docs/faults.md`: each fault, threat and promise of the study, and its proof. `docs/asvs.csv`: each
requirement of OWASP ASVS 5.0.0, levels 1 and 2, and our answer. `docs/specification.md`: each
chapter, parameter and rule of the interface, and its tests.
"""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from functools import cache

from tests.evidence import DOCUMENTS, ROOT, exists, missing_names

FAULTS = {
    "W": 30, "O": 16, "S": 21, "R": 30, "K": 20, "I": 20, "X": 12, "U": 10, "H": 17, "G": 12,
    "P": 30, "F": 93,
}  # fmt: skip
"""Number of rows of each kind; P are the promises, F come from the field."""
COLUMNS = ("sandbox", "client", "mirror", "page")
CHAPTERS = {
    "Conventions and versioning", "Authentication", "User", "Users", "Address shapes", "Insurance",
    "User information", "Payors", "Introspection", "Lab catalogue and accounts", "Orders: list",
    "Orders: record", "Orders: create and import", "Appointments", "Lab report parsing", "States",
    "Events", "Errors and limits",
}  # fmt: skip
CASES = ROOT / "tests" / "cases"
LEVELS = {
    # Numbers of the requirements of each section, by level. The missing ones are of level 3.
    "1.1": ("", "1 2"),
    "1.2": ("1 2 3 4 5", "6 7 8 9"),
    "1.3": ("1 2", "3 4 5 6 7 8 9 10 11"),
    "1.4": ("", "1 2 3"),
    "1.5": ("1", "2"),
    "2.1": ("1", "2 3"),
    "2.2": ("1 2", "3"),
    "2.3": ("1", "2 3 4"),
    "2.4": ("", "1"),
    "3.2": ("1 2", ""),
    "3.3": ("1", "2 3 4"),
    "3.4": ("1 2", "3 4 5 6"),
    "3.5": ("1 2 3", "4 5"),
    "3.7": ("", "1 2"),
    "4.1": ("1", "2 3"),
    "4.2": ("", "1"),
    "4.3": ("", "1 2"),
    "4.4": ("1", "2 3 4"),
    "5.1": ("", "1"),
    "5.2": ("1 2", "3"),
    "5.3": ("1 2", ""),
    "5.4": ("", "1 2 3"),
    "6.1": ("1", "2 3"),
    "6.2": ("1 2 3 4 5 6 7 8", "9 10 11 12"),
    "6.3": ("1 2", "3 4"),
    "6.4": ("1 2", "3 4"),
    "6.5": ("", "1 2 3 4 5"),
    "6.6": ("", "1 2 3"),
    "6.8": ("", "1 2 3 4"),
    "7.1": ("", "1 2 3"),
    "7.2": ("1 2 3 4", ""),
    "7.3": ("", "1 2"),
    "7.4": ("1 2", "3 4 5"),
    "7.5": ("", "1 2"),
    "7.6": ("", "1 2"),
    "8.1": ("1", "2"),
    "8.2": ("1 2", "3"),
    "8.3": ("1", ""),
    "8.4": ("", "1"),
    "9.1": ("1 2 3", ""),
    "9.2": ("1", "2 3 4"),
    "10.1": ("", "1 2"),
    "10.2": ("", "1 2"),
    "10.3": ("", "1 2 3 4"),
    "10.4": ("1 2 3 4 5", "6 7 8 9 10 11"),
    "10.5": ("", "1 2 3 4 5"),
    "10.6": ("", "1 2"),
    "10.7": ("", "1 2 3"),
    "11.1": ("", "1 2"),
    "11.2": ("", "1 2 3"),
    "11.3": ("1 2", "3"),
    "11.4": ("1", "2 3 4"),
    "11.5": ("", "1"),
    "11.6": ("", "1"),
    "12.1": ("1", "2 3"),
    "12.2": ("1 2", ""),
    "12.3": ("", "1 2 3 4"),
    "13.1": ("", "1"),
    "13.2": ("", "1 2 3 4 5"),
    "13.3": ("", "1 2"),
    "13.4": ("1", "2 3 4 5"),
    "14.1": ("", "1 2"),
    "14.2": ("1", "2 3 4"),
    "14.3": ("1", "2 3"),
    "15.1": ("1", "2 3"),
    "15.2": ("1", "2 3"),
    "15.3": ("1", "2 3 4 5 6 7"),
    "16.1": ("", "1"),
    "16.2": ("", "1 2 3 4 5"),
    "16.3": ("", "1 2 3 4"),
    "16.4": ("", "1 2 3"),
    "16.5": ("", "1 2 3"),
    "17.1": ("", "1"),
    "17.2": ("", "1 2 3 4"),
    "17.3": ("", "1 2"),
}
KINDS = {"test", "config", "document", "deployer"}
ANSWERS = {"yes", "partly", "no", "n/a"}


def fault_rows() -> dict[str, tuple[str, str]]:
    """Return the description and the proof of each fault."""
    rows: list[tuple[str, str, str]] = []
    for line in (ROOT / "docs" / "faults.md").read_text().splitlines():
        found = re.fullmatch(r"\| ([A-Z]\d+) \| (.+?) \| (.+) \|", line)
        if found:
            rows.append((found[1], found[2], found[3]))
    assert [key for key, count in Counter(key for key, *_ in rows).items() if count > 1] == []
    return {key: (fault, proof) for key, fault, proof in rows}


def asvs_rows() -> list[dict[str, str]]:
    with (ROOT / "docs" / "asvs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


class Definitions:
    """The top-level definitions of a test file, and its imports from other test files."""

    def __init__(self, path: str) -> None:
        self.nodes: dict[str, ast.stmt] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.nodes[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                self._imports(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [one.id for target in targets for one in ast.walk(target)
                         if isinstance(one, ast.Name)]  # fmt: skip
                self.nodes |= dict.fromkeys(names, node)

    def _imports(self, node: ast.ImportFrom) -> None:
        folder = (node.module or "").replace(".", "/")
        for alias in node.names:
            name = alias.asname or alias.name
            if (ROOT / f"{folder}/{alias.name}.py").is_file():
                self.imported[name] = (f"{folder}/{alias.name}.py", "")
            elif folder.startswith("tests") and (ROOT / f"{folder}.py").is_file():
                self.imported[name] = (f"{folder}.py", alias.name)


definitions_of = cache(Definitions)


def texts_used_by(path: str, name: str) -> set[str]:
    """Return all string constants that a function uses.

    This includes constants, functions and fixtures that it uses in its own file and in the test
    files that it imports from.
    """
    texts: set[str] = set()
    seen: set[tuple[str, str]] = set()
    queue = [(path, name)]
    while queue:
        item = queue.pop()
        file = definitions_of(item[0])
        if item in seen:
            continue
        seen.add(item)
        if item[1] not in file.nodes:
            continue
        for node in ast.walk(file.nodes[item[1]]):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, (ast.Name, ast.arg)):
                used = node.id if isinstance(node, ast.Name) else node.arg
                other, target = file.imported.get(used, (item[0], used))
                queue.append((other, target))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module, target = file.imported.get(node.value.id, ("", ""))
                if module.startswith("tests") and not target:
                    queue.append((module, node.attr))
    return texts


def test_every_fault_and_promise_has_one_row() -> None:
    wanted = {f"{kind}{n}" for kind, most in FAULTS.items() for n in range(1, most + 1)}
    assert sum(count for kind, count in FAULTS.items() if kind not in ("P", "F")) == 188
    assert fault_rows().keys() == wanted


def test_every_fault_has_proof_or_explanation() -> None:
    unproven = [
        key
        for key, (_, proof) in fault_rows().items()
        if not re.search(r"`[^`]+`", proof)
        and not re.search(r"\*Differs\*|\*\*Not met\*\*|No test:", proof)
    ]
    assert unproven == []


def test_every_case_has_a_row_with_a_test_that_reads_it() -> None:
    rows = [row for key, row in fault_rows().items() if key.startswith("F")]
    unread = []
    for case in sorted(path.name for path in CASES.iterdir()):
        proofs = " ".join(proof for fault, proof in rows if f"`tests/cases/{case}`" in fault)
        found = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", proofs)
        tests = [test for test in found if exists("::".join(test))]
        if not any(case in texts_used_by(*test) for test in tests):
            unread.append(case)
    assert unread == []


def test_only_tests_that_read_a_case_count_as_its_proof() -> None:
    cases = "tests/outbox/test_import_cases.py"
    damaged = texts_used_by(cases, "test_case_b02_spreadsheet_damage_is_never_sent")
    assert "B02.csv" in damaged and "B03.csv" not in damaged
    photo = ("tests/labs/test_reports_upload.py", "test_motion_photo_is_stored_without_video")
    assert "B15.txt" in texts_used_by(*photo), "by a function of another file"


def test_every_requirement_has_one_row_with_its_level() -> None:
    wanted = {
        f"V{section}.{number}": str(level)
        for section, both in LEVELS.items()
        for level, numbers in enumerate(both, 1)
        for number in numbers.split()
    }
    assert len(wanted) == 253
    rows = asvs_rows()
    assert len(rows) == len({row["id"] for row in rows})
    assert {row["id"]: row["level"] for row in rows} == wanted


def test_every_requirement_is_answered() -> None:
    wrong = []
    for row in asvs_rows():
        applies = row["applies"] == "yes"
        is_valid = (
            row["applies"] in ("yes", "no")
            and row["answer"] in ANSWERS
            and (row["answer"] == "n/a") is not applies
            and (row["kind"] in KINDS) is applies
            and row["requirement"]
            and row["evidence"]
            and (row["kind"] != "test" or "::" in row["evidence"])
        )
        if not is_valid:
            wrong.append(row["id"])
    assert wrong == []


def test_no_answer_is_pending() -> None:
    for name in ("faults.md", "asvs.csv"):
        assert "(pending" not in (ROOT / "docs" / name).read_text(), name


def test_named_tests_and_files_exist() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    assert missing_names(text) == []
    assert {
        row["id"]: names for row in asvs_rows() if (names := missing_names(row["evidence"]))
    } == {}


def test_missing_names_are_found() -> None:
    here = "tests/test_evidence.py"
    for name in (f"{here}::test_nothing", "tests/nowhere.py::test_x", "./run chaos x", "docs/x.md"):
        assert missing_names(f"see `{name}`") == [name]
    assert missing_names(f"`{here}::test_missing_names_are_found`, `./run chaos inbox`") == []


def specification_rows() -> dict[str, list[list[str]]]:
    """Return the cells of each row, by chapter."""
    chapters: dict[str, list[list[str]]] = {}
    for line in (ROOT / "docs" / "specification.md").read_text().splitlines():
        if line.startswith("## "):
            rows = chapters.setdefault(line[3:], [])
        elif line.startswith("| ") and not line.startswith("| rule |"):
            rows.append(line.strip("| ").split(" | "))
    return chapters


def test_specification_has_every_chapter_and_named_tests_exist() -> None:
    chapters = specification_rows()
    assert set(chapters) == CHAPTERS and all(chapters.values())
    assert missing_names((ROOT / "docs" / "specification.md").read_text()) == []


def test_each_column_of_the_specification_has_a_test_or_a_reason() -> None:
    wrong = []
    for chapter, rows in specification_rows().items():
        for rule, *columns in rows:
            filled = [re.search(r"`tests/\S+::test_\w+`|^– \w", cell) for cell in columns]
            if len(columns) != len(COLUMNS) or not all(filled):
                wrong.append((chapter, rule))
    assert wrong == []


def test_check_names_a_test_that_does_not_exist() -> None:
    assert "docs/specification.md" in DOCUMENTS
    existing = "`tests/test_evidence.py::test_check_names_a_test_that_does_not_exist`"
    assert missing_names(
        f"| rule | {existing}<br>`tests/test_evidence.py::test_of_tomorrow` |"
    ) == ["tests/test_evidence.py::test_of_tomorrow"]
