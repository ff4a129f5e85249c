"""Reports go up once, as they are, and nothing is claimed about an upload whose answer is lost."""

from __future__ import annotations

import email
import email.policy
import io
import json
import time
import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from backoffice.service import Clock, Reader, Service, errors
from backoffice.service.reports import ReportJobPayload, Upload

from .conftest import TEAM_KEY, Slept
from .faulty import Answer, Faulty, answer, cut_short, drip, reset, says

USER_ID = UUID("11111111-0000-4000-8000-000000000001")
JOB: dict[str, Any] = {
    "id": "22222222-0000-4000-8000-000000000001",
    "status": "upload_pending",
    "failure_reason": None,
    "data": None,
    "needs_human_review": False,
    "is_reviewed": False,
}
JOBS = Reader(ReportJobPayload)
PDF = b"%PDF-1.7 made up \r\n--boundary\x00\xff"


def pdf(content: bytes = PDF) -> Upload:
    return Upload(io.BytesIO(content), "application/pdf")


def parts(remote: Faulty) -> list[tuple[str, str | None, str, Any]]:
    """Name, file name, type and content of the parts of the one request that was sent."""
    (request,) = remote.requests
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + request.body, policy=email.policy.HTTP)
    return [
        (
            str(part.get_param("name", header="content-disposition")),
            part.get_filename(),
            part.get_content_type(),
            part.get_content(),
        )
        for part in message.iter_parts()
    ]


def test_what_is_sent_for_one_pdf(service: Service, remote: Faulty) -> None:
    remote.then(says(JOB))
    job = service.reports.upload(USER_ID, [pdf()], needs_human_review=True).data
    assert (job.id, job.status) == (UUID(JOB["id"]), "upload_pending")
    assert parts(remote) == [
        ("user_id", None, "text/plain", str(USER_ID)),
        ("needs_human_review", None, "text/plain", "true"),
        ("file", "1.pdf", "application/pdf", PDF),
    ]
    (request,) = remote.requests
    assert (request.method, request.target) == ("POST", "/lab_report/v1/parser/job")
    assert int(request.headers["content-length"]) == len(request.body)


def test_images_go_in_their_order(service: Service, remote: Faulty) -> None:
    remote.then(says(JOB))
    images = [
        Upload(io.BytesIO(b"one"), "image/png"),
        Upload(io.BytesIO(b""), "image/jpeg"),
        Upload(io.BytesIO(b"three"), "image/png"),
    ]
    images[2].content.read()  # read by somebody before: it is sent whole all the same
    service.reports.upload(USER_ID, images)
    assert parts(remote)[1:] == [
        ("needs_human_review", None, "text/plain", "false"),
        ("file", "1.png", "image/png", b"one"),
        ("file", "2.jpg", "image/jpeg", b""),
        ("file", "3.png", "image/png", b"three"),
    ]


@pytest.mark.parametrize("files", [[], [Upload(io.BytesIO(b"<html>"), "text/html")]])
def test_what_is_no_report_is_not_sent(
    service: Service, remote: Faulty, files: list[Upload]
) -> None:
    remote.then(says(JOB))
    with pytest.raises(ValueError, match="a report is a PDF"):
        service.reports.upload(USER_ID, files)
    assert remote.requests == []


@pytest.mark.parametrize(
    "lost",
    [
        says({"detail": "later"}, 500),
        says({"detail": "later"}, 503, Retry_After="0"),
        says({}, 408),
        answer(b"<html>", kind="text/html"),
        answer(b"{"),
        answer(b""),
        says([]),
        says({"status": "started"}),
        cut_short(b'{"id": "22222222-0000-4000-8000-000000000001"}'),
        reset,
    ],
)
def test_a_lost_answer_is_uncertain_and_nothing_is_sent_again(
    service: Service, remote: Faulty, slept: Slept, lost: Answer
) -> None:
    remote.then(lost)
    with pytest.raises(errors.Uncertain) as caught:
        service.reports.upload(USER_ID, [pdf()])
    assert len(remote.requests) == 1 and slept.seconds == []
    assert "POST /lab_report/v1/parser/job" in str(caught.value)
    assert str(USER_ID) not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Refused),
        (413, errors.Refused),
        (422, errors.Refused),
        (403, errors.Denied),
        (404, errors.Missing),
        (429, errors.Limited),
    ],
)
def test_a_refusal_is_told_in_the_services_words(
    service: Service, remote: Faulty, status: int, kind: type[errors.ServiceError]
) -> None:
    remote.then(says({"detail": "too many pages"}, status))
    with pytest.raises(kind) as caught:
        service.reports.upload(USER_ID, [pdf()])
    assert caught.value.message == "too many pages" and len(remote.requests) == 1


def test_redirect_is_not_followed_and_outcome_is_uncertain(
    service: Service, remote: Faulty
) -> None:
    remote.then(says({}, 307, Location=f"{remote.url}/lab_report/v1/parser/job/"))
    with pytest.raises(errors.Uncertain):
        service.reports.upload(USER_ID, [pdf()])
    assert len(remote.requests) == 1


def test_nobody_listening_means_nothing_was_sent(slept: Slept) -> None:
    with (
        Service("http://127.0.0.1:1", "key", clock=slept.clock()) as service,
        pytest.raises(errors.Unreachable),
    ):
        service.reports.upload(USER_ID, [pdf()])


def test_an_answer_that_never_ends_is_uncertain(remote: Faulty) -> None:
    """The two minutes of an upload pass in half a second here."""
    remote.then(drip(0.05))
    hurried = Clock(monotonic=lambda: time.monotonic() * 240)
    with Service(remote.url, TEAM_KEY, clock=hurried) as service:
        started = time.monotonic()
        with pytest.raises(errors.Uncertain):
            service.reports.upload(USER_ID, [pdf()])
        assert 0.3 < time.monotonic() - started < 5


class Endless(io.RawIOBase):
    """A file of any size that takes no memory."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = (0, self.at, self.size)[whence] + offset
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, size: int = -1) -> bytes:
        piece = b"x" * min(size if size >= 0 else self.size, self.size - self.at)
        self.at += len(piece)
        return piece


def test_large_files_stream(service: Service, remote: Faulty) -> None:
    remote.forgets = True
    remote.then(says(JOB))
    service.reports.upload(USER_ID, [pdf()])
    files = [Upload(Endless(15 * 1024 * 1024), "image/png") for _ in range(2)]  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        service.reports.upload(USER_ID, files)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert remote.requests[1].size > 30 * 1024 * 1024
    assert peak < 2 * 1024 * 1024


def test_a_job_is_read_by_its_id_in_either_spelling(service: Service, remote: Faulty) -> None:
    other = {name: value for name, value in JOB.items() if name != "id"} | {"job_id": JOB["id"]}
    remote.then(says(JOB), says(other), says({"detail": "no such job"}, 404))
    for _ in range(2):
        assert service.reports.job(JOB["id"]).data.id == UUID(JOB["id"])
    with pytest.raises(errors.Missing):
        service.reports.job(JOB["id"])
    assert {request.target for request in remote.requests} == {
        f"/lab_report/v1/parser/job/{JOB['id']}"
    }


@pytest.mark.parametrize(
    ("changed", "in_review"),
    [
        ({"status": "started", "needs_human_review": True}, True),
        ({"status": "completed", "needs_human_review": True}, True),
        ({"status": "completed", "needs_human_review": True, "is_reviewed": True}, False),
        ({"status": "completed"}, False),
        ({"status": "failed", "needs_human_review": True}, False),
        ({"status": "upload_pending", "needs_human_review": True}, False),
        ({"status": "pending_review"}, True),
    ],
)
def test_review_is_told_from_two_marks(changed: dict[str, Any], in_review: bool) -> None:
    assert JOBS.value(json.dumps(JOB | changed).encode()).in_review is in_review


def test_values_are_text_as_printed() -> None:
    job = JOBS.value(
        b"""{"id":"22222222-0000-4000-8000-000000000001","data":{"metadata":null,"results":[
        {"test_name":"a","value":"1.50e3"},{"test_name":"b","value":7},
        {"test_name":"c","value":true},{"test_name":"d","value":null}]}}"""
    )
    assert job.data is not None
    assert [one.value for one in job.data.results] == ["1.50e3", "7", "true", ""]
    assert job.data.metadata.lab_name is None
