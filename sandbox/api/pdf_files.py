"""Tiny valid PDF files, written by hand: one page per list of lines."""

from __future__ import annotations

from collections.abc import Sequence

_TITLE = "sandbox sample"


def _escaped(text: str) -> str:
    plain = text.encode("latin-1", "replace").decode("latin-1")
    return plain.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _content(lines: Sequence[str]) -> bytes:
    shown = "".join(f"({_escaped(line)}) Tj T*\n" for line in lines)
    return f"BT /F1 11 Tf 14 TL 72 760 Td\n{shown}ET\n".encode("latin-1")


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF 1.4 file of US letter pages, each headed "sandbox sample".

    Objects: 1 catalogue, 2 page tree, 3 font, 4 information, then page and content in turn.
    """
    kids = " ".join(f"{5 + 2 * place} 0 R" for place in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({_TITLE}) >>".encode(),
    ]
    for place, lines in enumerate(pages):
        content = _content([_TITLE, "", *lines])
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            b" /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (6 + 2 * place)
        )
        objects.append(b"<< /Length %d >>\nstream\n%bendstream" % (len(content), content))
    file = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    starts = []
    for number, body in enumerate(objects, start=1):
        starts.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for start in starts:
        file += b"%010d 00000 n \n" % start
    file += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\n" % (len(objects) + 1)
    file += b"startxref\n%d\n%%%%EOF\n" % table
    return bytes(file)
