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

from django.utils.translation import gettext, gettext_noop

CHECK_SECONDS: Final = 20.0
_CHECK_SCRIPT: Final = Path(__file__).with_name("pdf_and_image_checks.py")

PROBLEMS: Final[dict[str, str]] = {
    "empty": gettext_noop("“%(name)s” is empty."),
    "other_kind": gettext_noop(
        "“%(name)s” is %(found)s, whatever its name says. Only PDF, JPEG and PNG files can be "
        "uploaded. %(way_out)s"
    ),
    "kind": gettext_noop(
        "“%(name)s” is not a PDF, JPEG or PNG file. The content of the file counts, not its name."
    ),
    "two_kinds": gettext_noop(
        "“%(name)s” contains a second document of another type. Print or scan the report again and "
        "choose the new file."
    ),
    "broken": gettext_noop(
        "“%(name)s” cannot be read because it is damaged. Save, print or scan the report again."
    ),
    "truncated": gettext_noop(
        "“%(name)s” is not complete. Its end is missing. Copy or scan it again."
    ),
    "encrypted": gettext_noop(
        "“%(name)s” is password-protected or encrypted. Save a copy without protection."
    ),
    "active": gettext_noop(
        "“%(name)s” contains scripts, forms that send data, or other files. Print it to a plain "
        "PDF first."
    ),
    "hidden": gettext_noop(
        "“%(name)s” is built so that its content cannot be checked. Print it to a plain PDF first."
    ),
    "bomb": gettext_noop(
        "“%(name)s” expands to an unusually large size. Print or scan the report again."
    ),
    "no_pages": gettext_noop("“%(name)s” has no pages."),
    "pages": gettext_noop(
        "“%(name)s” has more than 30 pages. Split it, or upload only the pages with results."
    ),
    "pixels": gettext_noop(
        "“%(name)s” has more than 50 million pixels. Scan it at a lower resolution."
    ),
    "animated": gettext_noop("“%(name)s” is an animation. Save it as a still picture."),
    "unsafe": gettext_noop("“%(name)s” could not be read safely. Print or scan the report again."),
}
"""The sentence for each code of `pdf_and_image_checks.py`."""
DEFAULT_WAY_OUT: Final = gettext_noop("Save it as PDF, JPEG or PNG.")
SAVE_DOCUMENT: Final = gettext_noop("Save the document as PDF.")
WAYS_OUT: Final[dict[str, str]] = {
    gettext_noop("a HEIC picture"): gettext_noop(
        "On an iPhone, choose Settings, Camera, Formats, Most Compatible, and take the photo "
        "again. Or save the picture as JPEG."
    ),
    gettext_noop("an AVIF picture"): DEFAULT_WAY_OUT,
    gettext_noop("a video"): gettext_noop("Take a photo instead."),
    gettext_noop("a ZIP archive or an Office document"): gettext_noop(
        "Unpack it, or save the document as PDF."
    ),
    gettext_noop("an old Office document"): SAVE_DOCUMENT,
    gettext_noop("a text document (RTF)"): SAVE_DOCUMENT,
    gettext_noop("a TIFF picture"): DEFAULT_WAY_OUT,
    gettext_noop("a GIF picture"): DEFAULT_WAY_OUT,
    gettext_noop("a bitmap picture (BMP)"): DEFAULT_WAY_OUT,
    gettext_noop("a WebP picture"): DEFAULT_WAY_OUT,
    gettext_noop("a DICOM picture"): DEFAULT_WAY_OUT,
    gettext_noop("a PostScript file"): DEFAULT_WAY_OUT,
    gettext_noop("a compressed archive"): DEFAULT_WAY_OUT,
    gettext_noop("a program"): DEFAULT_WAY_OUT,
    gettext_noop("a web page"): gettext_noop("Print the page to a PDF."),
}
"""What to do about a file of another kind, by the name that the script gives the kind."""


class FileRejected(Exception):
    """A rejected file. The message is for staff, and has a place for the name of the file."""

    def __init__(self, message: str, **values: str) -> None:
        super().__init__(message)
        self.message = message
        self.values = values

    def describe(self, name: str) -> str:
        """Return the message about the file with this name."""
        return gettext(self.message) % {"name": name, **self.values}


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
    found = answer.get("found", "")
    raise FileRejected(
        PROBLEMS.get(answer.get("problem", ""), PROBLEMS["unsafe"]),
        found=gettext(found) if found else "",
        way_out=gettext(WAYS_OUT.get(found, DEFAULT_WAY_OUT)),
    )
