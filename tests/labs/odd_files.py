"""Files as phones, printers and mail programs make them: name, content and stored content.

Pillow and pypdf make those where the output of a real library matters. The others are built by hand
to contain a fault.
"""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from pypdf import PdfWriter
from pypdf.actions import JavaScript

from tests.labs.documents import HTML, archive, jpeg, pdf, png

CASE = Path(__file__).parents[1] / "cases" / "B15.txt"
VIDEO = b"\x00\x00\x00\x18ftypmp42" + b"\x00" * 1200
PJL = b"\x1b%-12345X@PJL\r\n@PJL SET RESOLUTION=600\r\n@PJL ENTER LANGUAGE=PDF\r\n"
END_OF_JOB = b"\x1b%-12345X@PJL EOJ\r\n\x1b%-12345X"


def motion_photo() -> bytes:
    """Return case B15: a JPEG, a mark of a phone, and a made-up video."""
    return base64.b64decode(CASE.read_text().partition("\n")[2])


def picture(mode: str, file_format: str, **options: Any) -> bytes:
    output = BytesIO()
    Image.new(mode, (48, 32)).save(output, file_format, **options)
    return output.getvalue()


def frames(file_format: str) -> bytes:
    output = BytesIO()
    first, second = (Image.new("L", (16, 16), shade) for shade in (0, 200))
    first.save(output, file_format, save_all=True, append_images=[second])
    return output.getvalue()


def rotated_photo() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # Orientation: rotate it by 90 degrees.
    return picture("RGB", "JPEG", exif=exif)


def written_pdf(pages: int = 1, **options: Any) -> bytes:
    """Return a PDF as a library writes it."""
    writer = PdfWriter()
    for _ in range(pages):
        writer.add_blank_page(200, 200)
    if "script" in options:
        writer.add_open_action(JavaScript("app.alert(1)"))
    if "attachment" in options:
        writer.add_attachment("made-up.txt", b"made up")
    if "password" in options:
        writer.encrypt("made up", algorithm="RC4-128")
    output = BytesIO()
    writer.write(output)
    return output.getvalue()


def accepted_files() -> dict[str, tuple[str, bytes, bytes]]:
    """Return description -> (name, content as sent, content as stored)."""
    whole_pdf, whole_jpeg, whole_png = pdf(2), jpeg(64, 48), png()
    case = motion_photo()
    photo = case[: case.index(b"\xff\xd9") + 2]
    cmyk, progressive = picture("CMYK", "JPEG"), picture("RGB", "JPEG", progressive=True)
    sixteen_bit, colors = picture("I;16", "PNG"), picture("P", "PNG")
    transparent, library = picture("RGBA", "PNG"), written_pdf(3)
    return {
        "motion photo of a phone (B15)": ("a.jpg", case, photo),
        "photo with a video behind": ("a.jpg", whole_jpeg + VIDEO, whole_jpeg),
        "photo with a phone's own notes behind": (
            "a.jpg",
            whole_jpeg + b"\x00\x00\xa0\x0aImage_UTC_Data1700000000000SEFHj\x00\x00\x00SEFT",
            whole_jpeg,
        ),
        "photo with further pictures behind": ("a.jpg", whole_jpeg + jpeg(8, 8), whole_jpeg),
        "photo padded with zeros": ("a.jpg", whole_jpeg + bytes(70_000), whole_jpeg),
        "photo padded with ones": ("a.jpeg", whole_jpeg + b"\xff" * 3000, whole_jpeg),
        "photo with a line end behind": ("a.jpg", whole_jpeg + b"\r\n", whole_jpeg),
        "photo in four inks": ("a.jpg", cmyk, cmyk),
        "progressive photo": ("a.jpg", progressive, progressive),
        "photo to be turned": ("a.jpg", rotated_photo(), rotated_photo()),
        "photo in grays": ("a.jpg", picture("L", "JPEG"), picture("L", "JPEG")),
        "photo of several pictures": ("a.jpg", frames("MPO"), b""),
        "screenshot with alpha": ("a.png", transparent, transparent),
        "picture of 16 bits": ("a.png", sixteen_bit, sixteen_bit),
        "picture with a palette": ("a.png", colors, colors),
        "picture of two colors": ("a.png", picture("1", "PNG"), picture("1", "PNG")),
        "picture padded with zeros": ("a.png", whole_png + bytes(5000), whole_png),
        "picture with something behind": ("a.png", whole_png + b"x", whole_png),
        "PDF of a library": ("a.pdf", library, library),
        "PDF with a byte-order mark": ("a.pdf", b"\xef\xbb\xbf" + whole_pdf, whole_pdf),
        "PDF behind an empty line": ("a.pdf", b"\r\n" + whole_pdf, whole_pdf),
        "PDF behind a printer's header": ("a.pdf", PJL + whole_pdf, whole_pdf),
        "PDF as a whole print job": ("a.pdf", PJL + whole_pdf.rstrip() + END_OF_JOB, b""),
        "PDF padded with zeros": ("a.pdf", whole_pdf + bytes(9000), whole_pdf),
        "PDF with much space behind": ("a.pdf", whole_pdf + b" " * 5000, whole_pdf),
        "PDF with a mail program's line behind": (
            "a.pdf",
            whole_pdf + b"\r\n--made-up-boundary--\r\n",
            whole_pdf,
        ),
        "PDF that was saved twice": ("a.pdf", incremented(), incremented()),
    }


def incremented() -> bytes:
    writer = PdfWriter(BytesIO(pdf(2)), incremental=True)
    writer.add_metadata({"/Title": "made up"})
    output = BytesIO()
    writer.write(output)
    return output.getvalue()


def refused_files() -> dict[str, tuple[str, bytes, str]]:
    """Return description -> (name, content, words of the reason)."""
    heic = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(400)
    return {
        "HEIC named jpg": ("a.jpg", heic, "HEIC picture"),
        "AVIF named jpg": ("a.jpg", b"\x00\x00\x00\x18ftypavif" + bytes(40), "AVIF"),
        "video named jpg": ("a.jpg", VIDEO, "a video"),
        "Word named pdf": ("a.pdf", b"PK\x03\x04" + bytes(60), "Office document"),
        "old Word named pdf": ("a.pdf", b"\xd0\xcf\x11\xe0" + bytes(60), "old Office document"),
        "RTF named pdf": ("a.pdf", b"{\\rtf1 made up}", "RTF"),
        "TIFF named jpg": ("a.jpg", picture("L", "TIFF"), "TIFF"),
        "GIF named png": ("a.png", picture("L", "GIF"), "GIF"),
        "BMP named png": ("a.png", picture("L", "BMP"), "BMP"),
        "WebP named jpg": ("a.jpg", b"RIFF\x24\x00\x00\x00WEBPVP8 " + bytes(30), "WebP"),
        "DICOM named jpg": ("a.jpg", bytes(128) + b"DICM" + bytes(30), "DICOM"),
        "PostScript named pdf": ("a.pdf", b"%!PS-Adobe-3.0\n", "PostScript"),
        "web page named pdf": ("a.pdf", HTML, "a web page"),
        "gzip named pdf": ("a.pdf", b"\x1f\x8b\x08" + bytes(30), "compressed archive"),
        "plain text named pdf": ("a.pdf", b"Glucose 5.4", "is not a PDF, JPEG or PNG"),
        "text before the PDF": ("a.pdf", b"made up\n" + pdf(), "is not a PDF, JPEG or PNG"),
        "empty": ("a.pdf", b"", "is empty"),
        "PDF cut off": ("a.pdf", pdf(3)[:700], "Its end is missing"),
        "photo cut off": ("a.jpg", picture("RGB", "JPEG")[:-60], "Its end is missing"),
        "picture cut off": ("a.png", png()[:-20], "Its end is missing"),
        "PDF with a password": ("a.pdf", written_pdf(password=True), "password-protected"),
        "PDF with a script": ("a.pdf", written_pdf(script=True), "contains scripts"),
        "PDF with a file inside": ("a.pdf", written_pdf(attachment=True), "contains scripts"),
        "PDF of no pages": ("a.pdf", written_pdf(0), "has no pages"),
        "PDF of 31 pages": ("a.pdf", written_pdf(31), "more than 30 pages"),
        "moving picture": ("a.png", frames("PNG"), "is an animation"),
        "picture of 60,000 by 60,000": (
            "a.png",
            png(60_000, 60_000, pixels=bytes(1000)),
            "more than 50 million pixels",
        ),
        "photo with a PDF behind": ("a.jpg", jpeg() + pdf(), "second document"),
        "photo with an archive behind": ("a.jpg", jpeg() + archive(), "second document"),
        "PDF with a web page behind": ("a.pdf", pdf() + HTML, "second document"),
        "PDF whose table is gone": (
            "a.pdf",
            pdf().replace(b"/Type/Catalog", b"/Type/Nothing").replace(b"/Root 1 0 R", b""),
            "it is damaged",
        ),
    }
