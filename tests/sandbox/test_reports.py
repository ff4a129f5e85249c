"""Lab report parsing: uploads and their refusals, jobs and their ends, what is told of them."""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from backoffice.devtools.embedded.processes import free_port
from tests.sandboxes import Sandbox, SandboxFactory

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}
JOBS = "/lab_report/v1/parser/job"
TEAM = "7ea00000-0000-4000-8000-000000000001"
MIB = 1024 * 1024
File = tuple[str, bytes, str]
Record = dict[str, Any]


def pdf_bytes(pages: int = 1, text: str = "made up") -> bytes:
    """A PDF as simple as it can be."""
    kids = " ".join(f"{3 + n} 0 R" for n in range(pages))
    parts = [f"1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n% {text}\n"]
    parts.append(f"2 0 obj\n<< /Type /Pages /Kids [{kids}] /Count {pages} >>\nendobj\n")
    parts += [f"{3 + n} 0 obj\n<< /Type /Page /Parent 2 0 R >>\nendobj\n" for n in range(pages)]
    return f"%PDF-1.4\n{''.join(parts)}trailer << /Root 1 0 R >>\nstartxref\n9\n%%EOF\n".encode()


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_bytes(shade: int = 0) -> bytes:
    """One gray pixel."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress(bytes([0, shade])))
    return b"\x89PNG\r\n\x1a\n" + head + pixels + _chunk(b"IEND", b"")


def jpeg_bytes() -> bytes:
    """The segments of a JPEG: a frame, a scan, the end."""
    frame = b"\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00"
    return b"\xff\xd8" + frame + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x7f\xff\xd9"


def pdf(pages: int = 1, text: str = "made up") -> File:
    return ("report.pdf", pdf_bytes(pages, text), "application/pdf")


def png(shade: int = 0) -> File:
    return ("page.png", png_bytes(shade), "image/png")


def jpeg() -> File:
    return ("page.jpg", jpeg_bytes(), "image/jpeg")


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    sandbox = sandbox_factory(users=20, orders=60, seed=7, speed=0)
    sandbox.control("webhooks", {"url": f"http://127.0.0.1:{free_port()}/"})
    return sandbox


@pytest.fixture(scope="module")
def http(world: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def user(world: Sandbox) -> str:
    rows = world.query(
        "SELECT u.id::text FROM sandbox_user u JOIN sandbox_userinfo i ON i.user_id = u.id "
        "WHERE team_id = %s ORDER BY seq LIMIT 1",
        (TEAM,),
    )
    return str(rows[0][0])


def post(http: httpx.Client, user: str, *files: File, **fields: str) -> httpx.Response:
    data = {"user_id": user, **fields}
    return http.post(JOBS, data=data, files=[("file", file) for file in files])


def _job(http: httpx.Client, user: str, *files: File, **fields: str) -> Record:
    answer = post(http, user, *files, **fields)
    assert answer.status_code == 200, answer.text[:300]
    found: Record = answer.json()
    return found


def _heard(world: Sandbox, key: str) -> list[tuple[str, Record]]:
    rows = world.query("SELECT event_type, body FROM sandbox_message ORDER BY number")
    found = [(kind, json.loads(body)) for kind, body in rows]
    return [(k, b) for k, b in found if k.startswith("lab_report") and b["data"]["id"] == key]


def test_a_report_is_parsed_step_by_step(world: Sandbox, http: httpx.Client, user: str) -> None:
    job = _job(http, user, pdf())
    assert set(job) == {
        "id", "status", "failure_reason", "data", "needs_human_review", "is_reviewed",
    }  # fmt: skip
    assert job["status"] == "upload_pending"
    assert job["data"] is None
    key = job["id"]
    assert _heard(world, key) == []
    world.control("reports", {"job_ids": [key], "steps": 1})
    assert http.get(f"{JOBS}/{key}").json()["status"] == "started"
    world.control("reports", {"job_ids": [key], "steps": 1})
    done = http.get(f"{JOBS}/{key}").json()
    assert done["status"] == "completed"
    assert done["failure_reason"] is None
    [(first, begun), (second, ended)] = _heard(world, key)
    assert (first, second) == ("lab_report.parsing_job.created", "lab_report.parsing_job.updated")
    assert begun["data"]["status"] == "started"
    assert ended["data"] == done
    assert ended["user_id"] == user
    # Nothing follows.
    world.control("reports", {"job_ids": [key], "steps": 3})
    assert len(_heard(world, key)) == 2


def test_both_forms_of_the_path_answer_alike(world: Sandbox, http: httpx.Client, user: str) -> None:
    key = _job(http, user, pdf())["id"]
    plain = http.get(f"{JOBS}/{key}").json()
    assert http.get(f"{JOBS}/{key}/").json() == plain
    assert http.get(f"{JOBS}/", params={"job_id": key}).json() == plain
    assert http.get(f"{JOBS}/").status_code == 422
    assert http.get(f"{JOBS}/not-a-uuid").status_code == 422
    unknown = http.get(f"{JOBS}/{uuid.uuid4()}")
    assert unknown.status_code == 404
    assert unknown.json() == {"detail": "Job not found"}
    assert httpx.get(f"{world.url}{JOBS}/{key}").status_code == 401


def test_results_have_every_type_and_sensible_flags(
    world: Sandbox, http: httpx.Client, user: str
) -> None:
    keys = [_job(http, user, pdf(text=f"made up {n}"))["id"] for n in range(12)]
    world.control("reports", {"job_ids": keys, "steps": 2})
    rows = []
    for key in keys:
        data = http.get(f"{JOBS}/{key}").json()["data"]
        assert set(data) == {"metadata", "results"}
        assert data["metadata"]["gender"] in ("male", "female", "other")
        assert len(data["results"]) >= 6
        rows += data["results"]
    kinds = {row["type"] for row in rows}
    assert kinds == {
        "numeric", "range", "comment", "boolean", "duration", "percentage", "ratio",
    }  # fmt: skip
    assert {row["loinc_match_status"] for row in rows} == {"auto_match", "needs_review", "no_match"}
    assert {row["interpretation"] for row in rows} >= {"normal", "abnormal", "unknown"}
    for row in rows:
        assert isinstance(row["value"], str)
        assert len(row) == 15
        matches = row["loinc_matches"] or []
        assert len(matches) <= 5
        assert bool(matches) == (row["loinc_match_status"] != "no_match")
        scores = [match["confidence_score"] for match in matches]
        assert scores == sorted(scores, reverse=True)
        if row["type"] == "percentage":
            assert "%" in row["value"]
        if row["type"] == "ratio":
            assert "/" in row["value"]
        if row["is_above_max_range"] or row["is_below_min_range"]:
            assert row["interpretation"] in ("abnormal", "critical")


def test_the_same_file_gives_the_same_results(
    world: Sandbox, http: httpx.Client, user: str
) -> None:
    keys = [_job(http, user, pdf(text="twice"))["id"] for _ in range(2)]
    world.control("reports", {"job_ids": keys, "steps": 2})
    first, second = (http.get(f"{JOBS}/{key}").json()["data"]["results"] for key in keys)
    assert first == second


def test_images_are_taken_in_order(world: Sandbox, http: httpx.Client, user: str) -> None:
    ways = ([jpeg(), png(1), png(2)], [png(2), png(1), jpeg()])
    keys = [_job(http, user, *files)["id"] for files in ways]
    pages = world.query(
        "SELECT pages, count(DISTINCT digest) FROM sandbox_reportjob "
        "WHERE id = ANY(%s::uuid[]) GROUP BY 1",
        (keys,),
    )
    assert pages == [(3, 2)]


def test_human_review_follows_a_request(world: Sandbox, http: httpx.Client, user: str) -> None:
    job = _job(http, user, pdf(), needs_human_review="true")
    assert (job["needs_human_review"], job["is_reviewed"]) == (True, False)
    world.control("reports", {"job_ids": [job["id"]], "steps": 2})
    waiting = http.get(f"{JOBS}/{job['id']}").json()
    assert (waiting["status"], waiting["is_reviewed"]) == ("completed", False)
    world.control("reports", {"job_ids": [job["id"]], "steps": 1})
    done = http.get(f"{JOBS}/{job['id']}").json()
    assert (done["status"], done["is_reviewed"]) == ("completed", True)
    assert all(row["loinc_match_status"] != "needs_review" for row in done["data"]["results"])
    told = [(kind.split(".")[2], body["data"]["status"]) for kind, body in _heard(world, job["id"])]
    assert told == [("created", "started"), ("updated", "completed"), ("updated", "completed")]


def test_review_can_be_disabled(world: Sandbox, http: httpx.Client, user: str) -> None:
    world.control("reports", {"review_enabled": False})
    try:
        refused = post(http, user, pdf(), needs_human_review="true")
        assert refused.status_code == 400
        assert "review" in refused.json()["detail"]
        assert post(http, user, pdf()).status_code == 200
    finally:
        world.control("reports", {"review_enabled": True})


@pytest.mark.parametrize(
    "reason",
    ["invalid_input", "low_quality", "not_english", "too_many_pages", "processing_error", "failed"],
)
def test_a_file_can_ask_for_its_failure(
    world: Sandbox, http: httpx.Client, user: str, reason: str
) -> None:
    by_content = _job(http, user, pdf(text=f"sandbox:{reason}"))["id"]
    by_name = _job(http, user, (f"sandbox-{reason}.png", png_bytes(), "image/png"))["id"]
    world.control("reports", {"next_outcomes": [reason]})
    by_control = _job(http, user, pdf())["id"]
    after = _job(http, user, pdf())["id"]
    world.control("reports", {"job_ids": [by_content, by_name, by_control, after], "steps": 2})
    for key in (by_content, by_name, by_control):
        failed = http.get(f"{JOBS}/{key}").json()
        assert failed["status"] == "failed"
        assert failed["failure_reason"] == (None if reason == "failed" else reason)
        assert failed["data"] is None
    assert http.get(f"{JOBS}/{after}").json()["status"] == "completed"


BROKEN_PNG = png_bytes()[:-20] + b"\x00" * 20
_SWELLS = b"1 0 obj << /Type /ObjStm >> stream\n" + zlib.compress(bytes(16 * MIB))
SWELLING_PDF = b"%PDF-1.5\n" + _SWELLS * 20 + b"\nstartxref\n9\n%%EOF\n"
REFUSED: dict[str, tuple[list[File], int, str]] = {
    "unsupported type": ([("a.txt", b"hello", "text/plain")], 400, "Unsupported"),
    "unknown bytes": ([("a.pdf", b"hello", "application/pdf")], 400, "Unsupported"),
    "page in disguise": ([("a.pdf", b"<html>", "text/html")], 400, "Unsupported"),
    "declared otherwise": ([("a.png", pdf_bytes(), "image/png")], 400, "does not match"),
    "empty": ([("a.pdf", b"", "application/pdf")], 400, "empty"),
    "nine images": ([png(n) for n in range(9)], 400, "At most 8"),
    "a PDF among several": ([png(), pdf()], 400, "alone"),
    "two PDFs": ([pdf(), pdf()], 400, "alone"),
    "cut image": ([("a.png", BROKEN_PNG, "image/png")], 400, "decoded"),
    "cut photo": ([("a.jpg", jpeg_bytes()[:-9], "image/jpeg")], 400, "decoded"),
    "cut PDF": ([("a.pdf", pdf_bytes()[:-30], "application/pdf")], 400, "broken"),
    "PDF without pages": ([("a.pdf", pdf_bytes(0), "application/pdf")], 400, "broken"),
    "PDF that swells": ([("a.pdf", SWELLING_PDF, "application/pdf")], 400, "broken"),
    "31 pages": ([pdf(31)], 400, "30 pages"),
    "too large": (
        [("a.pdf", pdf_bytes() + b"\n" * (10 * MIB), "application/pdf")],
        413,
        "larger",
    ),
    "too large together": (
        [("a.png", png_bytes() + b"\x00" * (9 * MIB), "image/png") for _ in range(4)],
        413,
        "together",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses(world: Sandbox, http: httpx.Client, user: str, case: str) -> None:
    files, status, words = REFUSED[case]
    before = world.query("SELECT count(*) FROM sandbox_reportjob")
    answer = post(http, user, *files)
    assert answer.status_code == status, answer.text[:300]
    assert words in answer.json()["detail"]
    assert world.query("SELECT count(*) FROM sandbox_reportjob") == before


def test_page_objects_may_be_packed(http: httpx.Client, user: str) -> None:
    packed = zlib.compress(b"<< /Type /Page >> << /Type /Pages >>")
    body = b"%PDF-1.5\n1 0 obj << /Type /ObjStm /N 2 >> stream\n" + packed
    body += b"\nendstream\nendobj\nstartxref\n9\n%%EOF\n"
    assert post(http, user, ("a.pdf", body, "application/pdf")).status_code == 200


def test_thirty_pages_are_taken(http: httpx.Client, user: str) -> None:
    assert post(http, user, pdf(30)).status_code == 200


def test_the_form_is_checked(world: Sandbox, http: httpx.Client, user: str) -> None:
    def problems(answer: httpx.Response) -> set[str]:
        assert answer.status_code == 422, answer.text[:300]
        return {each["loc"][1] for each in answer.json()["detail"]}

    assert problems(http.post(JOBS)) == {"user_id", "file"}
    assert problems(http.post(JOBS, data={"user_id": user, "file": "text"})) == {"file"}
    assert problems(post(http, "nobody", pdf())) == {"user_id"}
    assert problems(post(http, user, pdf(), needs_human_review="perhaps")) == {"needs_human_review"}
    assert post(http, str(uuid.uuid4()), pdf()).status_code == 404
    torn = http.post(JOBS, content=b"--x\r\n", headers={"content-type": "multipart/form-data"})
    assert torn.status_code in (400, 422)
    assert httpx.post(f"{world.url}{JOBS}").status_code == 401


def test_at_most_300_jobs_that_have_not_failed(sandbox_factory: SandboxFactory) -> None:
    world = sandbox_factory(users=10, orders=60, seed=7, speed=0)
    [[user]] = world.query(
        "SELECT id::text FROM sandbox_user WHERE team_id = %s ORDER BY seq LIMIT 1", (TEAM,)
    )
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as http:
        keys = [_job(http, user, png())["id"] for _ in range(300)]
        refused = post(http, user, png())
        assert refused.status_code == 400
        assert "300" in refused.json()["detail"]
        world.control("reports", {"next_outcomes": ["low_quality"]})
        world.query(
            "UPDATE sandbox_reportjob SET status = 'failed', dwell = NULL WHERE id = %s "
            "RETURNING id",
            (keys[0],),
        )
        assert post(http, user, png()).status_code == 200
        assert post(http, user, png()).status_code == 400


def test_jobs_move_by_the_worlds_clock(sandbox_factory: SandboxFactory) -> None:
    world = sandbox_factory(users=10, orders=60, seed=7, speed=1440)
    [[user]] = world.query(
        "SELECT id::text FROM sandbox_user WHERE team_id = %s ORDER BY seq LIMIT 1", (TEAM,)
    )
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as http:
        key = _job(http, user, pdf(), needs_human_review="true")["id"]
        until = time.monotonic() + 40
        while not (job := http.get(f"{JOBS}/{key}").json())["is_reviewed"]:
            assert time.monotonic() < until, job["status"]
            time.sleep(0.5)
    assert job["status"] == "completed"
