"""Files that the checks accept, and the many that they refuse."""

from __future__ import annotations

import os
import random
import resource
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from PIL import Image
from pypdf import PdfReader

from labs.reports import file_checks, intake, storage
from labs.reports.pdf_and_image_checks import FileProblem, examine
from tests.labs import odd_files
from tests.labs.documents import (
    HTML,
    archive,
    decompression_bombs,
    deflated_stream,
    hostile_files,
    jpeg,
    object_stream,
    pdf,
    png,
)

HOSTILE = hostile_files()
COLOR_PROFILE = deflated_stream(b"\x00\x00\x0c\x48Lino").replace(b"<<", b"<</N 3")
"""A color profile: `N` is the number of its channels."""
BOMBS = decompression_bombs()
ACCEPTED, REFUSED = odd_files.accepted_files(), odd_files.refused_files()


@pytest.fixture(autouse=True)
def report_folder(settings: Any, tmp_path: Path) -> Path:
    settings.REPORT_FOLDER = tmp_path / "reports"
    return tmp_path / "reports"


def stored_files(report_folder: Path) -> list[Path]:
    return [path for path in report_folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("content", "kind", "pages"),
    [
        (pdf(), "application/pdf", 1),
        (pdf(30), "application/pdf", 30),
        (pdf(2, objects=(object_stream(b"<</Type/Font>>"),)), "application/pdf", 2),
        (pdf(2, objects=(object_stream(b"<</Type/Page>>", b"<</X/Page>>"),)), "application/pdf", 2),
        (pdf() + b"\r\n", "application/pdf", 1),
        (
            pdf(objects=(b"<</Type/Outlines/First 3 0 R>>", COLOR_PROFILE)),
            "application/pdf",
            1,
        ),
        (pdf(objects=(b"<</Title(Reports /Jan, JS)>>",)), "application/pdf", 1),
        (png(), "image/png", None),
        (png(7000, 7000), "image/png", None),
        (png(5, 5, pixels=b"\x00" * 36, head=b"\x08\x00\x00\x00\x01"), "image/png", None),
        (jpeg(), "image/jpeg", None),
        (jpeg(1240, 1754), "image/jpeg", None),
        (
            jpeg(before=b"\xff\xe2\x00\x06MPF\x00") + jpeg(shade=1),
            "image/jpeg",
            None,
        ),
    ],
)
def test_valid_file_is_accepted_with_kind_and_pages(
    content: bytes, kind: str, pages: int | None
) -> None:
    found = file_checks.check_file(content)
    assert (found.kind, found.pages) == (kind, pages)


@pytest.mark.parametrize("description", HOSTILE)
def test_hostile_file_is_refused_and_not_stored(description: str, report_folder: Path) -> None:
    name, content = HOSTILE[description]
    declared = {"pdf": "application/pdf", "jpg": "image/jpeg", "png": "image/png"}
    file = SimpleUploadedFile(name, content, declared.get(name.rpartition(".")[2], ""))
    with pytest.raises(intake.UploadRejected) as refused:
        intake._store_files([file])
    (problem,) = refused.value.problems
    assert f"“{name}” " in problem
    assert problem != file_checks.PROBLEMS["unsafe"] % {"name": name}, "each has a specific reason"
    assert stored_files(report_folder) == []


@pytest.mark.parametrize("description", ACCEPTED)
def test_odd_file_is_stored_without_surrounding_bytes(
    description: str, report_folder: Path
) -> None:
    name, content, whole = ACCEPTED[description]
    (stored,) = intake._store_files([SimpleUploadedFile(name, content, "application/octet-stream")])
    with storage.open_file(stored.stored_as) as file:
        sent = file.read()
    assert sent == whole or not whole
    assert file_checks.check_file(sent).content == sent, "the stored content is valid by itself"
    if stored.kind == "application/pdf":
        assert len(PdfReader(BytesIO(sent)).pages) == stored.pages
    else:
        Image.open(BytesIO(sent)).load()


@pytest.mark.parametrize("description", REFUSED)
def test_odd_file_is_refused_with_specific_cause(description: str, report_folder: Path) -> None:
    name, content, words = REFUSED[description]
    with pytest.raises(intake.UploadRejected) as refused:
        intake._store_files([SimpleUploadedFile(name, content)])
    (problem,) = refused.value.problems
    assert words in problem
    assert stored_files(report_folder) == []


def test_corpus_of_files_is_large_enough() -> None:
    assert len(HOSTILE) + len(BOMBS) >= 60
    assert len(ACCEPTED) + len(REFUSED) >= 50


@pytest.mark.parametrize("description", BOMBS)
def test_bomb_only_harms_the_check_process(description: str, report_folder: Path) -> None:
    name, content = BOMBS[description]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(intake.UploadRejected):
        intake._store_files([SimpleUploadedFile(name, content)])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50 * 1024, "in kilobytes: the parent process must not unpack anything"
    assert stored_files(report_folder) == []


def test_check_is_killed_after_timeout(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text("import time\ntime.sleep(60)\n")
    with pytest.raises(file_checks.FileRejected, match="could not be read safely"):
        file_checks.check_file(pdf(), script=script, seconds=0.5)


def test_check_is_killed_above_memory_limit(tmp_path: Path) -> None:
    source = Path(storage.__file__).with_name("pdf_and_image_checks.py").read_text()
    script = tmp_path / "greedy.py"
    script.write_text(
        source.replace(
            "answer = examine(sys.stdin.buffer.read())", "answer = {'kind': b'x' * 2**30}"
        )
    )
    assert "2**30" in script.read_text()
    with pytest.raises(file_checks.FileRejected, match="could not be read safely"):
        file_checks.check_file(pdf(), script=script)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_file_gets_an_answer_or_a_reason(seed: int) -> None:
    """Bytes are changed, cut or repeated: the check gives a kind or a reason and never fails."""
    chance = random.Random(seed)
    content = bytearray(
        chance.choice([pdf(3, objects=(object_stream(b"<</A 1>>"),)), png(), jpeg(64, 64)])
    )
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[at] = chance.randrange(256)
            case 1:
                del content[at : at + chance.randint(1, 40)]
            case 2:
                content[at:at] = content[at : at + chance.randint(1, 40)]
            case _:
                content[at:at] = chance.choice([archive(), HTML, b"/JS", b"stream\n", b"\xff\xd9"])
        if not content:
            break
    try:
        outcome = str(examine(bytes(content))["kind"])
    except FileProblem as problem:
        outcome = str(problem)
    assert outcome in file_checks.PROBLEMS or outcome in storage.ENDINGS


def test_files_are_readable_only_by_this_account(report_folder: Path) -> None:
    stored = storage.store(b"one two")
    (path,) = stored_files(report_folder)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert path.name == stored.stored_as
    with storage.open_file(stored.stored_as) as content:
        assert content.read() == b"one two"
    assert b"one" not in path.read_bytes(), "encrypted"


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a" * 47, "/etc/passwd", "A" * 48])
def test_only_generated_names_are_opened(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        storage.open_file(name)


def test_failed_write_leaves_no_file(report_folder: Path) -> None:
    # The rename, the last step, fails after everything is written.
    existing = report_folder / "ab" / "taken"
    existing.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        storage._write(existing, b"content")
    assert stored_files(report_folder) == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("a\x00b\r\nc.pdf", "abc.pdf"),
        ("report\u202efdp.exe", "reportfdp.exe"),
        ("x" * 4000, "x" * 200),
        ("", "unnamed"),
        ("\u200b", "unnamed"),
    ],
)
def test_file_name_is_only_text(given: str, shown: str) -> None:
    assert intake.display_file_name(given) == shown


@pytest.mark.django_db
def test_orphaned_files_are_deleted_after_a_day(report_folder: Path) -> None:
    old, young = storage.store(b"old"), storage.store(b"young")
    for path in stored_files(report_folder):
        if path.name == old.stored_as:
            os.utime(path, (time.time() - 2 * 86_400,) * 2)
    assert intake.delete_orphaned_files(timezone.now()) == 1
    assert [path.name for path in stored_files(report_folder)] == [young.stored_as]
