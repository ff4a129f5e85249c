"""In a real browser: the service check of administrators names what is wrong and how to mend it,
and turns off and deletes webhook endpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.browser.office import Office, at_work, log_in, picture
from tests.sync.house import wait_until
from tests.webhooks.sending import receiving

pytestmark = needs_browser

PAGE = "/system/service-check/"
TITLES = "return [...document.querySelectorAll('tbody th.lead')].map(one => one.textContent.trim())"
LINE = """
return [...document.querySelectorAll('tbody tr')]
 .find(row => row.querySelector('th.lead')?.textContent.trim() === arguments[0])?.innerText ?? ''
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with at_work(tmp_path_factory.mktemp("houses"), users=8, orders=24) as office:
        office.sandbox.control("webhooks", {"url": f"{office.url}/webhooks/"})
        yield office


@contextlib.contextmanager
def checked(office: Office, **settings: str) -> Iterator[Browser]:
    """The page of a web server with other settings, as an administrator sees it."""
    with contextlib.ExitStack() as opened:
        url = office.url
        if settings:
            url = opened.enter_context(receiving(office.house, workers=1, **settings))
        page = opened.enter_context(browser())
        log_in(page, url, "administrator")
        page.open(url + PAGE)
        page.sees("Service check")
        yield page


def line(page: Browser, title: str) -> str:
    """What the page says about one check."""
    found = " ".join(str(page.run(LINE, title)).split())
    assert found, page.run(TITLES)
    return found


def test_wrong_header_name_is_mended_by_what_the_page_says(office: Office) -> None:
    with checked(office, SERVICE_API_KEY_HEADER="x-some-other-header") as page:
        said = line(page, "Key header")
        assert "Problem" in said
        assert "does not read the key from the header x-some-other-header" in said
        assert "Set SERVICE_API_KEY_HEADER=x-service-api-key" in said
        picture(page, "service-check-header")
    with checked(office, SERVICE_API_KEY_HEADER="x-service-api-key") as page:
        assert "OK" in line(page, "Key header")
        page.sees("No problem found")


def test_wrong_key_is_named_and_not_shown(office: Office) -> None:
    with checked(office, SERVICE_API_KEY="sk_us_of_nobody") as page:
        said = line(page, "Team key")
        assert "Problem" in said and "refuses the team key (401)" in said
        assert "Set SERVICE_API_KEY" in said
        assert "Could not be checked" in line(page, "Clocks")
        assert "of_nobody" not in page.text()


def test_clock_an_hour_off_is_named(office: Office) -> None:
    office.sandbox.control("clock", {"advance_seconds": 3600})
    try:
        with checked(office) as page:
            said = line(page, "Clocks")
            assert "Problem" in said
            assert "The service's clock is 60 min ahead of ours." in said
            assert "timedatectl" in said
    finally:
        office.sandbox.control("clock", {"advance_seconds": -3600})
    with checked(office) as page:
        assert "OK" in line(page, "Clocks")


def test_endpoint_is_turned_off_then_deleted(office: Office) -> None:
    with office.sandbox.service() as service:
        team = office.house.value("SELECT team_id::text FROM orders_order LIMIT 1")
        url = f"{office.url}/webhooks/?made-up"
        made = service.management.create_webhook(team, url, "Made up").data.id
        with checked(office) as page:
            page.click(f'a[href$="/endpoints/{made}/switch/"]')
            page.sees("stops delivering events to this address")
            picture(page, "endpoint-switch")
            page.link("Turn off the endpoint")
            page.sees("Switched off")
            assert service.management.webhook(team, made).data.disabled is True
            page.open(office.url + PAGE)
            page.click(f'a[href$="/endpoints/{made}/delete/"]')
            page.sees("This cannot be undone.")
            page.link("Delete the endpoint")
            wait_until(
                lambda: all(one.data.id != made for one in service.management.every_webhook(team)),
                60,
                "the endpoint is deleted",
            )
            page.open(office.url + PAGE)
            page.sees("Webhook endpoints at the service")
            assert not page.all(f'a[href$="/endpoints/{made}/delete/"]')
