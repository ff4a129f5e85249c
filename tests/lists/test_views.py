"""Saved views: one object of filters, sort, columns and density, and who may open it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from backoffice.accounts.models import User
from backoffice.pages.models import ListChoice, SavedView
from orders.models import Order
from tests.api.rows import order, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/orders/"


@pytest.fixture
def lead(client: Client) -> User:
    user = staff("lab coordinator")
    client.force_login(user)
    return user


@pytest.fixture
def few() -> None:
    order(1, low_level_status="lost", bucket="needs-action", patient_first_name="Canary").save()
    order(2, method="testkit").save()
    order(3, method="walk_in_test", interpretation="critical").save()


def save(client: Client, query: str = "status=lost", **more: Any) -> Any:
    data = {"name": "Lost ones", "query": query, "density": "compact",
            "column": ["patient", "status", "sample"], "opens_for": "", **more}  # fmt: skip
    return client.post(f"{ADDRESS}views/", data)


def shown(client: Client, address: str) -> set[int]:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200, answer.content.decode()[-2000:]
    return {n for n in range(9) for row in answer.context["page"].rows if row.pk == uid("order", n)}


def test_a_view_keeps_filters_sort_columns_and_density(
    client: Client, lead: User, few: None
) -> None:
    answer = save(client, "status=lost&order_key=updated_at&order_direction=asc&after=x&size=25")
    view = SavedView.objects.get()
    assert answer.status_code == 302
    assert view.query == {
        "status": ["lost"], "order_key": ["updated_at"], "order_direction": ["asc"]
    }  # fmt: skip
    page = client.get(f"{ADDRESS}views/{view.pk}/", follow=True)
    assert page.redirect_chain[-1][0] == (
        f"{ADDRESS}?view={view.pk}&status=lost&order_key=updated_at&order_direction=asc"
    )
    screen = page.context["list"]
    assert [column.key for column in screen.columns] == ["patient", "status", "sample"]
    assert screen.density == "compact" and not screen.is_changed
    assert [row.pk for row in page.context["page"].rows] == [uid("order", 1)]
    assert "Lost ones" in page.content.decode()


def test_a_new_filter_is_no_longer_the_view_and_can_be_made_it(
    client: Client, lead: User, few: None
) -> None:
    save(client)
    view = SavedView.objects.get()
    page = client.get(ADDRESS, {"view": str(view.pk), "order_type": "testkit"})
    assert page.context["list"].is_changed
    assert [row.pk for row in page.context["page"].rows] == [uid("order", 2)]
    client.post(
        f"{ADDRESS}views/{view.pk}/change/",
        {"do": "update", "query": "order_type=testkit", "column": ["patient"], "density": "touch"},
    )
    view.refresh_from_db()
    assert (view.query, view.columns, view.density) == (
        {"order_type": ["testkit"]}, ["patient"], "touch"
    )  # fmt: skip
    assert view.name == "Lost ones"


def test_removing_the_last_filter_of_a_view_shows_everything(
    client: Client, lead: User, few: None
) -> None:
    save(client)
    view = SavedView.objects.get()
    assert shown(client, f"{ADDRESS}?view={view.pk}") == {1, 2, 3}


def test_choosing_columns_leaves_the_filters_alone(client: Client, lead: User, few: None) -> None:
    answer = client.post(
        f"{ADDRESS}columns/",
        {
            "here": "status=lost&after=abc",
            "column": ["patient", "lab", "status"],
            "density": "touch",
            "size": "25",
        },
    )
    assert answer["Location"] == f"{ADDRESS}?status=lost&after=abc"
    page = client.get(ADDRESS, {"status": "lost"})
    screen = page.context["list"]
    assert [column.key for column in screen.columns] == ["patient", "lab", "status"]
    assert (screen.density, screen.size) == ("touch", 25)
    client.force_login(staff("clinician"))
    assert len(client.get(ADDRESS).context["list"].columns) > 5, "only for who chose it"


def test_columns_are_moved_by_buttons(client: Client, lead: User) -> None:
    columns = ["patient", "status", "turn", "test"]
    for move, expected in (
        ("up:test", ["patient", "status", "test", "turn"]),
        ("down:status", ["patient", "turn", "status", "test"]),
        ("down:test", columns),
        ("up:status", columns),
    ):
        answer = client.post(f"{ADDRESS}columns/", {"column": columns, "move": move})
        assert "panel=columns" in answer["Location"]
        screen = client.get(ADDRESS).context["list"]
        assert [column.key for column in screen.columns] == expected, move
    client.post(f"{ADDRESS}columns/", {"column": columns, "reset": "1"})
    assert not ListChoice.objects.exists()


def test_in_a_view_ones_own_columns_win_only_when_chosen(
    client: Client, lead: User, few: None
) -> None:
    save(client)
    view = SavedView.objects.get()
    answer = client.post(
        f"{ADDRESS}columns/", {"here": f"view={view.pk}&status=lost", "column": ["patient", "lab"]}
    )
    assert answer["Location"] == f"{ADDRESS}?view={view.pk}&status=lost&columns=own"
    screen = client.get(answer["Location"]).context["list"]
    assert [column.key for column in screen.columns] == ["patient", "lab"]
    assert screen.is_changed
    plain = client.get(f"{ADDRESS}?view={view.pk}&status=lost").context["list"]
    assert [column.key for column in plain.columns] == ["patient", "status", "sample"]


def test_a_personal_view_is_there_for_its_owner_alone(
    client: Client, lead: User, few: None
) -> None:
    save(client)
    view = SavedView.objects.get()
    client.force_login(staff("clinician"))
    assert client.get(ADDRESS).context["list"].views == []
    assert client.get(f"{ADDRESS}views/{view.pk}/")["Location"] == ADDRESS
    page = client.get(ADDRESS, {"view": view.pk})
    assert "was deleted, or your role cannot use its filters" in page.content.decode()
    for do in ("delete", "update", "change", "up"):
        answer = client.post(f"{ADDRESS}views/{view.pk}/change/", {"do": do, "name": "Mine"})
        assert answer.status_code == 404
    view.refresh_from_db()
    assert view.name == "Lost ones"


@pytest.mark.parametrize(
    ("query", "role", "seen"),
    [
        ("status=lost", "viewer", True),
        ("patient_name=canary", "front desk", True),
        ("patient_name=canary", "viewer", False),
        ("search_input=canary", "viewer", False),
        ("order_key=patient_name", "viewer", False),
        ("interpretation=critical", "clinician", True),
        ("interpretation=critical", "front desk", False),
        ("is_critical=true", "front desk", False),
    ],
)
def test_shared_view_is_hidden_from_roles_without_its_filters(
    client: Client, lead: User, few: None, query: str, role: str, seen: bool
) -> None:
    save(client, query, shared="on")
    client.get(ADDRESS)  # says that it is saved
    view = SavedView.objects.get()
    client.force_login(staff(role))
    page = client.get(ADDRESS)
    assert ("Lost ones" in page.content.decode()) is seen
    if not seen:
        for address in (
            f"{ADDRESS}views/{view.pk}/",
            f"{ADDRESS}?view={view.pk}",
            f"{ADDRESS}views/",
        ):
            answer = client.get(address, follow=True).content.decode()
            assert "Lost ones" not in answer
            assert role != "viewer" or "canary" not in answer.lower()
        assert "Lost ones" not in client.get(f"{ADDRESS}views/counts/").content.decode()


def test_hidden_columns_of_a_shared_view_stay_hidden(client: Client, lead: User, few: None) -> None:
    save(client, "", shared="on", column=["patient", "born", "result", "status"])
    view = SavedView.objects.get()
    client.force_login(staff("viewer"))
    page = client.get(f"{ADDRESS}views/{view.pk}/", follow=True)
    assert [column.key for column in page.context["list"].columns] == ["patient", "status"]
    assert "Critical" not in page.content.decode()


def test_only_who_may_share_shares(client: Client, few: None) -> None:
    client.force_login(staff("front desk"))
    save(client, shared="on")
    assert not SavedView.objects.get().shared
    assert save(client, name="Other", opens_for="clinician").status_code == 422
    assert SavedView.objects.count() == 1


def test_a_shared_view_is_changed_by_who_may_share(client: Client, lead: User, few: None) -> None:
    save(client, shared="on")
    view = SavedView.objects.get()
    change = f"{ADDRESS}views/{view.pk}/change/"
    client.force_login(staff("clinician"))
    client.post(change, {"do": "delete"})
    assert SavedView.objects.exists()
    client.force_login(staff("lab admin"))
    client.post(change, {"do": "change", "name": "Lost kits", "shared": "on", "opens_for": ""})
    view.refresh_from_db()
    assert view.name == "Lost kits" and view.owner_id == lead.pk
    client.post(change, {"do": "delete"})
    assert not SavedView.objects.exists()


def test_nobody_chooses_what_a_list_opens_with_for_a_colleague(
    client: Client, lead: User, few: None
) -> None:
    save(client, "order_type=testkit", name="Kits", opens_for="me")
    save(client, shared="on")
    view = SavedView.objects.get(shared=True)
    change = f"{ADDRESS}views/{view.pk}/change/"
    client.force_login(staff("lab admin"))
    given = {"do": "change", "name": "Lost kits", "shared": "on", "opens_for": "me"}
    assert client.post(change, given).status_code == 422
    assert SavedView.objects.get(opens_for="me").name == "Kits"
    SavedView.objects.filter(name="Kits").update(opens_for="")
    SavedView.objects.filter(pk=view.pk).update(opens_for="me")
    assert "For its owner" in client.get(f"{ADDRESS}views/").content.decode()
    assert client.post(change, given).status_code == 302
    view.refresh_from_db()
    assert (view.name, view.opens_for, view.owner_id) == ("Lost kits", "me", lead.pk)


def test_list_opens_with_own_view_before_that_of_the_role(
    client: Client, lead: User, few: None
) -> None:
    save(client, shared="on", opens_for="clinician")
    assert shown(client, ADDRESS) == {1, 2, 3}, "for that role alone"
    client.force_login(staff("clinician"))
    assert shown(client, ADDRESS) == {1}
    assert shown(client, f"{ADDRESS}?view=all") == {1, 2, 3}
    save(client, "order_type=testkit", name="Kits", opens_for="me")
    assert shown(client, ADDRESS) == {2}
    assert 'href="/orders/?view=all"' in client.get(f"{ADDRESS}?status=lost").content.decode()


def test_one_view_opens_at_most(client: Client, lead: User) -> None:
    save(client, shared="on", opens_for="clinician")
    save(client, name="Second", shared="on", opens_for="clinician")
    assert list(SavedView.objects.order_by("pk").values_list("name", "opens_for")) == [
        ("Lost ones", ""), ("Second", "clinician")
    ]  # fmt: skip


def test_names_are_ones_own_and_refusals_keep_what_was_typed(client: Client, lead: User) -> None:
    save(client)
    again = save(client, "order_type=testkit")
    assert again.status_code == 422
    page = again.content.decode()
    assert "A view with this name already exists" in page
    assert 'value="order_type=testkit"' in page and 'value="Lost ones"' in page
    assert save(client, name="   ").status_code == 422
    client.force_login(staff("clinician"))
    assert save(client).status_code == 302


def test_tabs_are_reordered(client: Client, lead: User) -> None:
    for name in ("One", "Two", "Three"):
        save(client, name=name)
    three = SavedView.objects.get(name="Three")
    client.post(f"{ADDRESS}views/{three.pk}/change/", {"do": "up"})
    client.post(f"{ADDRESS}views/{three.pk}/change/", {"do": "up"})
    client.post(f"{ADDRESS}views/{three.pk}/change/", {"do": "up"})
    names = [view.name for view in client.get(ADDRESS).context["list"].views]
    assert names == ["Three", "One", "Two"]


def test_a_filter_the_list_no_longer_knows_is_told(client: Client, lead: User, few: None) -> None:
    save(client)
    SavedView.objects.update(query={"status": ["lost"], "color": ["red"]})
    page = client.get(f"{ADDRESS}views/{SavedView.objects.get().pk}/", follow=True)
    assert page.status_code == 200
    assert "no longer has: color" in page.content.decode()
    assert [row.pk for row in page.context["page"].rows] == [uid("order", 1)]


def test_a_value_the_list_no_longer_knows_is_refused_in_words(
    client: Client, lead: User, few: None
) -> None:
    save(client)
    SavedView.objects.update(query={"interpretation": ["fine"]})
    page = client.get(f"{ADDRESS}views/{SavedView.objects.get().pk}/", follow=True)
    assert page.status_code == 400 and 'role="alert"' in page.content.decode()


def test_counts_are_taken_apart_and_told_old(client: Client, lead: User, few: None) -> None:
    save(client)
    tab = client.get(ADDRESS).context["list"].tabs[-1]
    assert tab.count is None and client.get(ADDRESS).context["list"].has_stale_counts
    client.get(f"{ADDRESS}views/counts/")
    screen = client.get(ADDRESS).context["list"]
    assert screen.tabs[-1].count.words == "1" and not screen.has_stale_counts
    Order.objects.filter(low_level_status="lost").update(low_level_status="ordered")
    assert client.get(ADDRESS).context["list"].tabs[-1].count.words == "1"
    assert ">0</span>" in client.get(f"{ADDRESS}views/counts/").content.decode()


def test_a_view_of_this_week_stays_one(client: Client, lead: User) -> None:
    save(client, "ordered=this_week")
    view = SavedView.objects.get()
    assert view.query == {"ordered": ["this_week"]}
    page = client.get(f"{ADDRESS}views/{view.pk}/", follow=True)
    assert "ordered, this week" in page.content.decode()


@pytest.mark.parametrize("path", ["views/", "columns/", "bulk/"])
def test_strangers_and_other_roles_are_refused(client: Client, path: str) -> None:
    assert client.post(f"{ADDRESS}{path}").status_code == 302
    client.force_login(staff("auditor"))
    assert client.post(f"{ADDRESS}{path}").status_code == 403


def test_names_that_no_filter_has_are_told(client: Client, lead: User, few: None) -> None:
    for address in (ADDRESS, "/patients/"):
        page = client.get(f"{address}?ordered_from=banana&what=1").content.decode()
        assert "no filter called “ordered_from”, “what”" in page


def test_no_name_of_ours_is_told_as_one_that_no_filter_has(
    client: Client, lead: User, few: None
) -> None:
    here = "bucket=at-lab&after=x&at=51&view=all"
    given = {"column": ["patient", "status", "turn"], "move": "up:turn", "here": here}
    answer = client.post(f"{ADDRESS}columns/", given, follow=True)
    assert "panel=columns" in answer.redirect_chain[-1][0]
    assert "no filter called" not in answer.content.decode()
    many = "&".join(f"n{n}=1" for n in range(9)) + "&" + "x" * 90 + "=<b>"
    (notice,) = client.get(f"{ADDRESS}?{many}").context["list"].notices
    assert "“n4”, …" in notice and "n5" not in notice
    assert "“" + "x" * 40 + "”" in client.get(f"{ADDRESS}?{'x' * 90}=1").content.decode()


def test_what_a_list_uses_itself_is_no_filter_that_is_missing(
    client: Client, lead: User, few: None
) -> None:
    save(client)
    view = SavedView.objects.get()
    own = f"view={view.pk}&columns=own&at=51&after=&before=&run=x&size=25"
    filters = "&status=lost&order_key=updated_at&order_direction=asc&patient_name=ada"
    answer = client.get(f"{ADDRESS}?{own}{filters}", follow=True)
    assert answer.status_code == 200 and answer.context["list"].notices == []
