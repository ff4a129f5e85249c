"""Files that are taken, and the many that are not."""

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

from labs.reports import intake, storage
from labs.reports.file_checks import FileProblem, examine
from tests.labs import odd_files
from tests.labs.documents import HTML, archive, bombs, flate, hostile, jpeg, listed, pdf, png

HOSTILE = hostile()
COLOURS = flate(b"\x00\x00\x0c\x48Lino").replace(b"<<", b"<</N 3")
"""A colour profile: `N` is its channels."""
BOMBS = bombs()
TAKEN, REFUSED = odd_files.taken(), odd_files.refused()


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.REPORT_FOLDER = tmp_path / "reports"
    return tmp_path / "reports"


def kept_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("content", "kind", "pages"),
    [
        (pdf(), "application/pdf", 1),
        (pdf(30), "application/pdf", 30),
        (pdf(2, objects=(listed(b"<</Type/Font>>"),)), "application/pdf", 2),
        (pdf(2, objects=(listed(b"<</Type/Page>>", b"<</X/Page>>"),)), "application/pdf", 2),
        (pdf() + b"\r\n", "application/pdf", 1),
        (
            pdf(objects=(b"<</Type/Outlines/First 3 0 R>>", COLOURS)),
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
def test_a_sound_file_is_taken_for_what_it_holds(
    content: bytes, kind: str, pages: int | None
) -> None:
    found = storage.check_file(content)
    assert (found.kind, found.pages) == (kind, pages)


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_and_not_kept(what: str, folder: Path) -> None:
    name, content = HOSTILE[what]
    declared = {"pdf": "application/pdf", "jpg": "image/jpeg", "png": "image/png"}
    file = SimpleUploadedFile(name, content, declared.get(name.rpartition(".")[2], ""))
    with pytest.raises(intake.UploadRejected) as refused:
        intake._store_files([file])
    (problem,) = refused.value.problems
    assert problem.startswith(f"“{name}” ")
    assert problem != f"“{name}” {storage.PROBLEMS['unsafe']}", "each has a reason of its own"
    assert kept_files(folder) == []


@pytest.mark.parametrize("what", TAKEN)
def test_odd_file_is_taken_without_what_surrounds_it(what: str, folder: Path) -> None:
    name, content, whole = TAKEN[what]
    (kept,) = intake._store_files([SimpleUploadedFile(name, content, "application/octet-stream")])
    with storage.open_file(kept.stored_as) as file:
        sent = file.read()
    assert sent == whole or not whole
    assert storage.check_file(sent).content == sent, "sound by itself, with nothing around it"
    if kept.kind == "application/pdf":
        assert len(PdfReader(BytesIO(sent)).pages) == kept.pages
    else:
        Image.open(BytesIO(sent)).load()


@pytest.mark.parametrize("what", REFUSED)
def test_odd_file_is_refused_with_the_true_cause(what: str, folder: Path) -> None:
    name, content, words = REFUSED[what]
    with pytest.raises(intake.UploadRejected) as refused:
        intake._store_files([SimpleUploadedFile(name, content)])
    (problem,) = refused.value.problems
    assert words in problem
    assert kept_files(folder) == []


def test_the_corpus_is_large_enough() -> None:
    assert len(HOSTILE) + len(BOMBS) >= 60
    assert len(TAKEN) + len(REFUSED) >= 50


@pytest.mark.parametrize("what", BOMBS)
def test_bomb_only_harms_the_check_process(what: str, folder: Path) -> None:
    name, content = BOMBS[what]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    with pytest.raises(intake.UploadRejected):
        intake._store_files([SimpleUploadedFile(name, content)])
    assert time.monotonic() - started < 11
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50 * 1024, "kilobytes: the parent must not unpack anything"
    assert kept_files(folder) == []


def test_check_is_killed_after_timeout(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text("import time\ntime.sleep(60)\n")
    with pytest.raises(storage.FileRejected, match="could not be read safely"):
        storage.check_file(pdf(), script=script, seconds=0.5)


def test_check_is_killed_above_memory_limit(tmp_path: Path) -> None:
    source = Path(storage.__file__).with_name("file_checks.py").read_text()
    script = tmp_path / "greedy.py"
    script.write_text(
        source.replace(
            "answer = examine(sys.stdin.buffer.read())", "answer = {'kind': b'x' * 2**30}"
        )
    )
    assert "2**30" in script.read_text()
    with pytest.raises(storage.FileRejected, match="could not be read safely"):
        storage.check_file(pdf(), script=script)


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_file_never_breaks_the_check(seed: int) -> None:
    """Bytes changed, cut or repeated: an answer or a reason, nothing else."""
    chance = random.Random(seed)
    content = bytearray(
        chance.choice([pdf(3, objects=(listed(b"<</A 1>>"),)), png(), jpeg(64, 64)])
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
        said = str(examine(bytes(content))["kind"])
    except FileProblem as problem:
        said = str(problem)
    assert said in storage.PROBLEMS or said in storage.ENDINGS


def test_files_are_readable_only_by_this_account(folder: Path) -> None:
    kept = storage.store(b"one two")
    (path,) = kept_files(folder)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert path.name == kept.stored_as
    with storage.open_file(kept.stored_as) as content:
        assert content.read() == b"one two"
    assert b"one" not in path.read_bytes(), "sealed"


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a" * 47, "/etc/passwd", "A" * 48])
def test_only_generated_names_are_opened(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        storage.open_file(name)


def test_a_writing_that_fails_leaves_nothing(folder: Path) -> None:
    # The last step: all of it is written by then.
    taken = folder / "ab" / "taken"
    taken.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        storage._write(taken, b"content")
    assert kept_files(folder) == []


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
def test_orphaned_files_are_deleted_after_a_day(folder: Path) -> None:
    old, young = storage.store(b"old"), storage.store(b"young")
    for path in kept_files(folder):
        if path.name == old.stored_as:
            os.utime(path, (time.time() - 2 * 86_400,) * 2)
    assert intake.delete_orphaned_files(timezone.now()) == 1
    assert [path.name for path in kept_files(folder)] == [young.stored_as]
