"""Pages for invalid requests."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from tests.api.rows import staff

pytestmark = pytest.mark.django_db
FILE_COUNT = settings.DATA_UPLOAD_MAX_NUMBER_FILES + 1
TOO_MANY_FILES = b"".join(
    b'--made-up\r\nContent-Disposition: form-data; name="a"; filename="a.pdf"\r\n\r\nx\r\n'
    for _ in range(FILE_COUNT)
)


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
@pytest.mark.parametrize("path", ["/nowhere/", "/orders/"])
def test_unreadable_body_is_no_server_error(path: str, host: str) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(staff("administrator"))
    kind = "multipart/form-data; boundary=made-up"
    answer = client.post(
        path, TOO_MANY_FILES + b"--made-up--\r\n", content_type=kind, headers={"host": host}
    )
    assert answer.status_code in (400, 403, 404)


def test_bad_request_page_shows_reason(client: Client) -> None:
    client.force_login(staff("clinician"))
    answer = client.get("/live/?since=made-up")
    assert answer.status_code == 400
    assert "That is no cursor." in answer.content.decode()


def test_refused_host_is_not_repeated_on_page(client: Client) -> None:
    answer = client.get("/accounts/login/", headers={"host": "evil.example"})
    assert answer.status_code == 400
    page = answer.content.decode()
    assert "is not valid" in page and "evil" not in page


@pytest.mark.parametrize(
    ("address", "expected_end"),
    [
        ("/orders/?status=lost", "%3Fstatus%3Dlost"),
        (f"/orders/?x={'y' * 3000}", "next=/orders/"),
        (f"/results/trend/00000000-0000-4000-8000-000000000000/{'y' * 3000}/", "next=/"),
    ],
)
def test_url_of_any_length_redirects_to_log_in(
    client: Client, address: str, expected_end: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer.headers["Location"].endswith(expected_end)
