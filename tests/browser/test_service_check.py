"""Browser tests of the service check, which names problems and fixes and manages endpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, log_in, running_office, save_screenshot
from tests.waiting import wait_until
from tests.webhooks.sending import receiving

pytestmark = needs_browser

PAGE = "/system/service-check/"
TITLES = "return [...document.querySelectorAll('tbody th.lead')].map(one => one.textContent.trim())"
CHECK_ROW = """
return [...document.querySelectorAll('tbody tr')]
 .find(row => row.querySelector('th.lead')?.textContent.trim() === arguments[0])?.innerText ?? ''
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with running_office(tmp_path_factory.mktemp("back_offices"), users=8, orders=24) as office:
        office.sandbox.control("webhooks", {"url": f"{office.url}/webhooks/"})
        yield office


@contextlib.contextmanager
def service_check(office: Office, **settings: str) -> Iterator[Browser]:
    """Open the service check as administrator, on a web server with other settings."""
    with contextlib.ExitStack() as opened:
        url = office.url
        if settings:
            url = opened.enter_context(receiving(office.back_office, workers=1, **settings))
        page = opened.enter_context(browser())
        log_in(page, url, "administrator")
        page.open(url + PAGE)
        page.wait_for_text("Service check")
        yield page


def check_text(page: Browser, title: str) -> str:
    """Return the text of one check on the page."""
    found = " ".join(str(page.run(CHECK_ROW, title)).split())
    assert found, page.run(TITLES)
    return found


def test_check_names_setting_that_fixes_wrong_header(office: Office) -> None:
    with service_check(office, SERVICE_API_KEY_HEADER="x-some-other-header") as page:
        text = check_text(page, "Key header")
        assert "Problem" in text
        assert "does not read the key from the header x-some-other-header" in text
        assert "Set SERVICE_API_KEY_HEADER=x-service-api-key" in text
        save_screenshot(page, "service-check-header")
    with service_check(office, SERVICE_API_KEY_HEADER="x-service-api-key") as page:
        assert "OK" in check_text(page, "Key header")
        page.wait_for_text("No problems found")


def test_wrong_key_is_reported_and_not_shown(office: Office) -> None:
    with service_check(office, SERVICE_API_KEY="sk_us_of_nobody") as page:
        text = check_text(page, "Team key")
        assert "Problem" in text and "refuses the team key (401)" in text
        assert "Set SERVICE_API_KEY" in text
        assert "Could not be checked" in check_text(page, "Clocks")
        assert "of_nobody" not in page.text()


def test_wrong_clock_of_service_is_reported(office: Office) -> None:
    office.sandbox.control("clock", {"advance_seconds": 3600})
    try:
        with service_check(office) as page:
            text = check_text(page, "Clocks")
            assert "Problem" in text
            assert "The service's clock is 60 min ahead of ours." in text
            assert "timedatectl" in text
    finally:
        office.sandbox.control("clock", {"advance_seconds": -3600})
    with service_check(office) as page:
        assert "OK" in check_text(page, "Clocks")


def test_endpoint_is_turned_off_then_deleted(office: Office) -> None:
    with office.sandbox.service() as service:
        team = office.back_office.value("SELECT team_id::text FROM orders_order LIMIT 1")
        url = f"{office.url}/webhooks/?made-up"
        endpoint_id = service.management.create_webhook(team, url, "Made up").data.id
        with service_check(office) as page:
            page.click(f'a[href$="/endpoints/{endpoint_id}/switch/"]')
            page.wait_for_text("stops delivering events to this address")
            save_screenshot(page, "endpoint-switch")
            page.click_text("Turn off endpoint")
            page.wait_for_text("Turned off")
            assert service.management.webhook(team, endpoint_id).data.disabled is True
            page.open(office.url + PAGE)
            page.click(f'a[href$="/endpoints/{endpoint_id}/delete/"]')
            page.wait_for_text("This cannot be undone.")
            page.click_text("Delete endpoint")
            wait_until(
                lambda: all(
                    endpoint.data.id != endpoint_id
                    for endpoint in service.management.every_webhook(team)
                ),
                60,
                "the endpoint is deleted",
            )
            page.open(office.url + PAGE)
            page.wait_for_text("Webhook endpoints at the service")
            assert not page.find_all(f'a[href$="/endpoints/{endpoint_id}/delete/"]')
