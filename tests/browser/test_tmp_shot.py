from pathlib import Path
from tests.browser import browser
from tests.browser.office import running_office
def test_shot(tmp_path_factory):
    with running_office(tmp_path_factory.mktemp("x"), users=8, orders=70) as office, browser() as page:
        office.log_in(page, "lab-coordinator")
        page.open(f"{office.url}/orders/")
        for n in (1,2,3,4): page.click(f"tbody tr:nth-child({n}) [data-pick]")
        page.screenshot(Path("/tmp/s1.png"), full_page=False)
        page.click_text("Add a note…"); page.find("#id_text")
        page.screenshot(Path("/tmp/s2.png"), full_page=False)
        page.resize(390, 800)
        page.open(f"{office.url}/orders/")
        page.click("tbody tr:nth-child(2) [data-pick]")
        page.screenshot(Path("/tmp/s3.png"), full_page=False)
        page.resize(1280, 900)
        office.log_in(page, "clinician")
        page.open(f"{office.url}/results/list/?place=partial")
        page.screenshot(Path("/tmp/s4.png"), full_page=False)
