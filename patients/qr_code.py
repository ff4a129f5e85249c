"""QR codes as the path of an SVG image. A template has the rest of the image."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from qrcode.main import QRCode

QUIET_ZONE: Final = 4
"""Light modules around a code. Cameras need them to find the code."""


@dataclass(frozen=True, slots=True, repr=False)
class QrImage:
    """A QR code as an SVG path.

    `size` is the side of the square in modules, with the quiet zone. `path` fills the dark modules.
    A module is one unit.
    """

    size: int
    path: str


def qr_image(text: str) -> QrImage:
    """Return the QR code of `text`, with medium error correction."""
    code = QRCode(border=QUIET_ZONE)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    parts = []
    for y, row in enumerate(rows):
        x = 0
        for is_dark, run in groupby(row):
            length = len(list(run))
            if is_dark:
                parts.append(f"M{x} {y}h{length}v1h-{length}z")
            x += length
    return QrImage(len(rows), "".join(parts))
