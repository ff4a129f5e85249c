"""Check an uploaded report, a PDF or a picture, in a process of its own.

The process runs `pdf_and_image_checks.py` with limited memory and time, and without our code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECK_SECONDS: Final = 20.0
_CHECK_SCRIPT: Final = Path(__file__).with_name("pdf_and_image_checks.py")

PROBLEMS: Final[dict[str, str]] = {
    "empty": "is empty.",
    "other_kind": "is {found}, not a PDF, JPEG or PNG, whatever its name says. {way_out}",
    "kind": "is not a PDF, JPEG or PNG. What counts is what is in the file, not its name.",
    "two_kinds": "holds a second document of another kind. Print or scan the report again, and "
    "choose that.",
    "broken": "cannot be read: it is damaged. Save, print or scan the report again.",
    "truncated": "is not complete: its end is missing. Copy or scan it again.",
    "encrypted": "is protected by a password or encrypted. Save a copy without protection.",
    "active": "carries scripts, forms that send, or other files. Print it to a plain PDF first.",
    "hidden": "is built so that its content cannot be checked. Print it to a plain PDF first.",
    "bomb": "unpacks to far more than it should. Print or scan the report again.",
    "no_pages": "has no page.",
    "pages": "has more than 30 pages. Split it, or choose the pages with results.",
    "pixels": "has more than 50 million pixels. Scan it at a lower resolution.",
    "animated": "is an animation. Save it as a plain picture.",
    "unsafe": "could not be read safely. Print or scan the report again.",
}
"""Ends of the sentence "‹name› …"."""
WAYS_OUT: Final[dict[str, str]] = {
    "a HEIC picture": "On an iPhone choose Settings, Camera, Formats, Most Compatible, and take it "
    "again; or save the picture as JPEG.",
    "a ZIP archive or an Office document": "Unpack it, or save the document as PDF.",
    "an old Office document": "Save the document as PDF.",
    "a text document (RTF)": "Save the document as PDF.",
    "a web page": "Print the page to a PDF.",
    "a video": "Take a photo instead.",
}
DEFAULT_WAY_OUT: Final = "Save it as PDF, JPEG or PNG."


class FileRejected(Exception):
    """A rejected file. The text is for staff and does not have the name of the file."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that passed the checks: media type, pages of a PDF, and content.

    The content excludes what a phone, a printer or a mail program added before or after it.
    """

    kind: str
    pages: int | None
    content: bytes


def check_file(
    content: bytes, *, script: Path = _CHECK_SCRIPT, seconds: float = CHECK_SECONDS
) -> CheckedFile:
    """Check a file. Raises FileRejected.

    A child process with limited memory and time reads it, and is killed after `seconds`.
    """
    command = [sys.executable, "-I", str(script)]
    try:
        process = subprocess.run(  # noqa: S603 - our own script
            command, input=content, capture_output=True, timeout=seconds, env={}
        )
        answer = json.loads(process.stdout) if process.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        answer = {}
    if "kind" in answer:
        document = content[answer["start"] : answer["end"]]
        return CheckedFile(answer["kind"], answer["pages"], document)
    other_kind = answer.get("found", "")
    problem = PROBLEMS.get(answer.get("problem", ""), PROBLEMS["unsafe"])
    raise FileRejected(
        problem.format(found=other_kind, way_out=WAYS_OUT.get(other_kind, DEFAULT_WAY_OUT))
    )
