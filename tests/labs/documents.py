"""Made-up report files: valid ones to build on, and all kinds of invalid ones."""

from __future__ import annotations

import struct
import zlib


def pdf(
    pages: int = 1,
    *,
    extra: bytes = b"",
    trailer: bytes = b"",
    objects: tuple[bytes, ...] = (),
    padding: int = 0,
) -> bytes:
    """Return a PDF with a line of text per page.

    `extra` goes into its catalog, `trailer` into its trailer, `objects` are added to it, and
    `padding` makes it longer by that many bytes.
    """
    kids = b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(pages))
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R%s>>" % extra,
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, pages),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for n in range(pages):
        line = b"BT /F1 24 Tf 40 700 Td (Glucose 5.4 mmol/L, page %d) Tj ET" % (n + 1)
        bodies += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (5 + 2 * n),
            b"<</Length %d>>stream\n%s\nendstream" % (len(line), line),
        ]
    bodies += objects
    if padding:
        bodies.append(b"<</Length %d>>stream\n%s\nendstream" % (padding, b" " * padding))
    out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    offsets = []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1)
    out += b"".join(b"%010d 00000 n \n" % at for at in offsets)
    out += b"trailer<</Size %d/Root 1 0 R%s>>\n" % (len(bodies) + 1, trailer)
    return out + b"startxref\n%d\n%%%%EOF\n" % start


def object_stream(*objects: bytes, more: bytes = b"", packed: bool = True) -> bytes:
    """Return an object stream as a body for `pdf(objects=…)`. Its objects are numbered from 90."""
    at, head, text = 0, b"", b""
    for number, body in enumerate(objects, 90):
        head += b"%d %d " % (number, at)
        text += body + b" "
        at += len(body) + 1
    content = head + text
    if packed:
        content = zlib.compress(content)
        more += b"/Filter/FlateDecode"
    return b"<</Type/ObjStm/N %d/First %d/Length %d%s>>stream\n%s\nendstream" % (
        len(objects),
        len(head),
        len(content),
        more,
        content,
    )


def deflated_stream(content: bytes) -> bytes:
    packed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed)


def chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(
    width: int = 40,
    height: int = 30,
    *,
    shade: int = 200,
    pixels: bytes | None = None,
    before: bytes = b"",
    head: bytes = b"\x08\x00\x00\x00\x00",
) -> bytes:
    """Return a gray picture."""
    if pixels is None:
        pixels = (b"\x00" + bytes([shade]) * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">II", width, height) + head)
        + before
        + chunk(b"IDAT", zlib.compress(pixels))
        + chunk(b"IEND")
    )


def jpeg(width: int = 16, height: int = 16, *, shade: int = 0, before: bytes = b"") -> bytes:
    """Return a gray picture with one component and one value per block, the same in all of them."""
    quantities = b"\xff\xdb\x00\x43\x00" + b"\x10" * 64
    frame = b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\x00"
    # One code each: the DC class encodes "no difference", the AC class "end of block".
    tables = b"".join(
        b"\xff\xc4\x00\x14" + kind + b"\x01" + b"\x00" * 15 + b"\x00" for kind in (b"\x00", b"\x10")
    )
    blocks = -(-width // 8) * -(-height // 8)
    bits = "00" * blocks
    bits += "1" * (-len(bits) % 8)
    scan = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    note = b"\xff\xfe" + struct.pack(">H", 3) + bytes([shade])  # makes pictures differ
    return (
        b"\xff\xd8"
        + before
        + note
        + quantities
        + frame
        + tables
        + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
        + scan.replace(b"\xff", b"\xff\x00")
        + b"\xff\xd9"
    )


def archive(comment: bytes = b"") -> bytes:
    """Return an empty ZIP."""
    return b"PK\x05\x06" + b"\x00" * 16 + struct.pack("<H", len(comment)) + comment


SCRIPT = b"<</S/JavaScript/JS(app.alert\\(1\\))>>"
HTML = b"<!doctype html><script>alert(1)</script>"


def _pdf_in_zip_comment() -> bytes:
    """Return a ZIP with the rest of the PDF as its comment."""
    whole = pdf(objects=(b"<</Length 9>>stream\nPLACE-ZIP\nendstream",))
    head, tail = whole.split(b"PLACE-ZIP")
    return head + archive(tail)


def _disguised_object_stream(between: bytes) -> bytes:
    """Return an object stream without a known type, with `between` before its end."""
    return object_stream(SCRIPT, more=between).replace(b"/Type/ObjStm", b"/Type 88 0 R")


def hostile_files() -> dict[str, tuple[str, bytes]]:
    """Return files that must be refused: description -> (file name, content)."""
    small = {
        "empty": ("a.pdf", b""),
        "html named pdf": ("a.pdf", HTML),
        "html after the pdf mark": ("a.pdf", b"%PDF-1.4\n" + HTML + pdf()[9:]),
        "html before the pdf mark": ("a.pdf", HTML + pdf()),
        "text": ("a.pdf", b"Glucose 5.4"),
        "only the mark of a pdf": ("a.pdf", b"%PDF-1.7\n"),
        "only the mark of a jpeg": ("a.jpg", b"\xff\xd8\xff"),
        "only the mark of a png": ("a.png", b"\x89PNG\r\n\x1a\n"),
        "svg": ("a.png", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        "gif": ("a.png", b"GIF89a" + b"\x00" * 40),
        "bmp": ("a.png", b"BM" + b"\x00" * 60),
        "webp": ("a.jpg", b"RIFF\x24\x00\x00\x00WEBPVP8 " + b"\x00" * 30),
        "tiff": ("a.jpg", b"II*\x00" + b"\x00" * 40),
        "zip": ("a.pdf", archive()),
        "program": ("a.pdf", b"MZ" + b"\x00" * 100),
        "shell": ("a.pdf", b"#!/bin/sh\necho\n"),
        "postscript": ("a.pdf", b"%!PS-Adobe-3.0\n"),
        "nul bytes": ("a.pdf", b"\x00" * 1000),
        "pdf without end": ("a.pdf", pdf()[:-40]),
        "pdf cut in half": ("a.pdf", pdf(3)[: len(pdf(3)) // 2]),
        "pdf of no version": ("a.pdf", pdf().replace(b"%PDF-1.4", b"%PDF-9.x")),
        "pdf with a zip behind": ("a.pdf", pdf() + archive()),
        "pdf with html behind": ("a.pdf", pdf() + HTML),
        "pdf inside a zip's comment": ("a.pdf", _pdf_in_zip_comment()),
        "pdf encrypted": ("a.pdf", pdf(trailer=b"/Encrypt 3 0 R")),
        "pdf encrypted, name hidden": ("a.pdf", pdf(trailer=b"/#45ncrypt 3 0 R")),
        "pdf with script": ("a.pdf", pdf(extra=b"/OpenAction" + SCRIPT)),
        "pdf with script, name hidden": (
            "a.pdf",
            pdf(extra=b"/OpenAction<</S/J#61vaScript/J#53(1)>>"),
        ),
        "pdf with script in an object stream": ("a.pdf", pdf(objects=(object_stream(SCRIPT),))),
        "pdf with script in a plain object stream": (
            "a.pdf",
            pdf(objects=(object_stream(SCRIPT, packed=False),)),
        ),
        "pdf with a disguised object stream": (
            "a.pdf",
            pdf(objects=(object_stream(SCRIPT).replace(b"/Type/ObjStm", b"/Type 88 0 R"),)),
        ),
        "pdf with an object stream behind a string that begins an object": (
            "a.pdf",
            pdf(objects=(_disguised_object_stream(b"/X(99 0 obj)"),)),
        ),
        "pdf with an object stream behind a comment that begins an object": (
            "a.pdf",
            pdf(objects=(_disguised_object_stream(b"%99 0 obj\n"),)),
        ),
        "pdf with an object stream behind a stream inside a string": (
            "a.pdf",
            pdf(objects=(_disguised_object_stream(b"/X(stream\nendstream)"),)),
        ),
        "pdf with a doubly packed object stream": (
            "a.pdf",
            pdf(
                objects=(
                    object_stream(
                        SCRIPT, packed=False, more=b"/Filter[/ASCIIHexDecode/FlateDecode]"
                    ),
                )
            ),
        ),
        "pdf with an object stream through a predictor": (
            "a.pdf",
            pdf(objects=(object_stream(SCRIPT, more=b"/DecodeParms<</Predictor 12>>"),)),
        ),
        "pdf with an object hidden in a stream": (
            "a.pdf",
            pdf(objects=(b"<</Length 90>>stream\n77 0 obj " + SCRIPT + b" endobj\nendstream",)),
        ),
        "pdf with an object behind a false stream": (
            "a.pdf",
            pdf(objects=(b"(stream\n) 77 0 obj " + SCRIPT + b" endobj (endstream)",)),
        ),
        "pdf with script in a comment": ("a.pdf", pdf(objects=(b"null %/JavaScript\n",))),
        "pdf that launches": ("a.pdf", pdf(extra=b"/OpenAction<</S/Launch/F(cmd.exe)>>")),
        "pdf with a file in it": ("a.pdf", pdf(extra=b"/Names<</EmbeddedFiles 3 0 R>>")),
        "pdf with a form that sends": ("a.pdf", pdf(extra=b"/AA<</S/SubmitForm/F(x)>>")),
        "pdf with an XFA form": ("a.pdf", pdf(extra=b"/AcroForm<</XFA 3 0 R>>")),
        "pdf with media": ("a.pdf", pdf(extra=b"/RichMedia 3 0 R")),
        "pdf of no pages": ("a.pdf", pdf(0)),
        "pdf of 31 pages": ("a.pdf", pdf(31)),
        "jpeg without end": ("a.jpg", jpeg()[:-2]),
        "jpeg cut in its head": ("a.jpg", jpeg()[:60]),
        "jpeg of no width": ("a.jpg", jpeg(width=0)),
        "jpeg of no picture": ("a.jpg", b"\xff\xd8\xff\xfe\x00\x03x\xff\xd9"),
        "jpeg with a zip behind": ("a.jpg", jpeg() + archive()),
        "jpeg with html behind": ("a.jpg", jpeg() + HTML * 40),
        "jpeg with html in its comment": (
            "a.jpg",
            jpeg(before=b"\xff\xfe" + struct.pack(">H", len(HTML) + 2) + HTML),
        ),
        "jpeg that is a pdf further on": ("a.jpg", jpeg() + pdf() * 3),
        "jpeg of 65535 by 65535": ("a.jpg", jpeg(8, 8).replace(b"\x00\x08\x00\x08", b"\xff" * 4)),
        "png without end": ("a.png", png()[:-12]),
        "png cut in its pixels": ("a.png", png()[:60]),
        "png with a wrong sum": ("a.png", png()[:-6] + b"\x00" + png()[-5:]),
        "png with few pixels": ("a.png", png(pixels=b"\x00\x01")),
        "png with a filter that does not exist": ("a.png", png(pixels=b"\x09" + b"\x00" * 1229)),
        "png of 50000 by 50000": ("a.png", png(50_000, 50_000, pixels=b"\x00" * 1000)),
        "png of no height": ("a.png", png(4, 0, pixels=b"")),
        "png of a depth that does not exist": ("a.png", png(head=b"\x07\x00\x00\x00\x00")),
        "png that moves": ("a.png", png(before=chunk(b"acTL", b"\x00\x00\x27\x10" + b"\x00" * 4))),
        "png with a critical part nobody knows": ("a.png", png(before=chunk(b"EVIL"))),
        "png with a zip behind": ("a.png", png() + archive()),
        "png with html in its text": ("a.png", png(before=chunk(b"tEXt", b"a\x00" + HTML))),
        "a sound pdf named html": ("a.html", pdf()),
        "a sound pdf named jpg": ("a.jpg", pdf()),
        "a sound png named pdf": ("a.pdf", png()),
        "a sound pdf with two endings": ("a.pdf.exe", pdf()),
        "a sound pdf of no name": ("a", pdf()),
    }
    return small


def decompression_bombs() -> dict[str, tuple[str, bytes]]:
    """Return small files that would take very long or very much memory to read."""
    zeros = zlib.compressobj(9)
    packed = b"".join(zeros.compress(b"\x00" * 16_000_000) for _ in range(40)) + zeros.flush()
    bomb = b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed)
    head = b"<</Type/ObjStm/N 1/First 4/Length %d/Filter/FlateDecode>>stream\n" % len(packed)
    return {
        "pdf that unpacks to 640 MB": ("a.pdf", pdf(objects=(bomb,))),
        "pdf of object streams that unpack to 640 MB": (
            "a.pdf",
            pdf(objects=(head + packed + b"\nendstream",)),
        ),
        "pdf of 300,000 streams": (
            "a.pdf",
            pdf(objects=(b"stream\nendstream " * 300_000,)),
        ),
        "pdf of a million brackets": ("a.pdf", pdf(objects=(b"<<" * 1_000_000,))),
        "jpeg of nothing but fill": ("a.jpg", b"\xff\xd8" + b"\xff" * 9_000_000),
        "jpeg of a scan that never ends": ("a.jpg", jpeg()[:-2] + b"\xff\x00" * 4_500_000),
    }
