"""Words about people stand in no address that our pages make, and filters can be shared all the
same."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from django.http import QueryDict
from django.test import Client

from backoffice.accounts.models import User
from backoffice.core.encryption.url_tokens import (
    PREFIX,
    PersonalParameters,
    decrypted_query,
    encrypted_query,
    is_encrypted_token,
)
from backoffice.pages.models import SavedView
from tests.api.rows import demographics, order, patient, staff, uid

pytestmark = pytest.mark.django_db

WORDS = PersonalParameters("sample", frozenset({"q"}))
NAME = "Canaryname"


@pytest.fixture
def ana(client: Client) -> User:
    user = staff("lab coordinator", "ana")
    client.force_login(user)
    for n in range(60):
        patient(n).save()
        demographics(n, first_name=NAME, name_key=f"{NAME.lower()} testperson").save()
        order(
            n, user_id=uid("patient", n), patient_first_name=NAME,
            patient_last_name="Testperson", patient_name=f"{NAME.lower()} testperson",
        ).save()  # fmt: skip
    patient(99).save()
    demographics(99, first_name="Somebody", name_key="somebody else").save()
    order(99, user_id=uid("patient", 99), patient_name="somebody else").save()
    return user


LISTS = [
    ("/patients/", {"q": NAME}),
    ("/orders/", {"search_input": NAME, "bucket": "at-lab"}),
    ("/orders/", {"patient_name": NAME, "shipping_recipient_name": ""}),
]


def addresses(page: str) -> list[str]:
    return [unquote(unescape(one)) for one in re.findall(r'(?:href|action)="([^"]*)"', page)]


def posted(client: Client, path: str, given: dict[str, str]) -> str:
    answer = client.post(path, given)
    assert answer.status_code == 302
    return str(answer.headers["Location"])


@pytest.mark.parametrize(("path", "given"), LISTS)
def test_what_is_typed_leads_to_an_address_that_does_not_say_it(
    client: Client, ana: User, path: str, given: dict[str, str]
) -> None:
    address = posted(client, path, given)
    assert NAME.lower() not in unquote(address).lower() and PREFIX in address
    assert "shipping_recipient_name" not in address, "what is empty stays out"
    answer = client.get(address)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert f'value="{NAME}"' in page, "the box shows what was typed"
    assert "60 match" in page or ">60<" in page
    found = addresses(page)
    assert any("after=" in one and PREFIX in one for one in found), "the next page keeps the words"
    assert not [one for one in found if NAME.lower() in one.lower()]


@pytest.mark.parametrize(("path", "given"), LISTS)
def test_plain_search_term_in_url_works_and_is_not_repeated(
    client: Client, ana: User, path: str, given: dict[str, str]
) -> None:
    """A bookmark from before, or what somebody wrote by hand."""
    page = client.get(path, given).content.decode()
    assert f'value="{NAME}"' in page
    assert not [one for one in addresses(page) if NAME.lower() in one.lower()]


def test_the_next_page_is_of_the_same_people(client: Client, ana: User) -> None:
    page = client.get(posted(client, "/patients/", {"q": NAME})).content.decode()
    following = next(one for one in addresses(page) if "after=" in one)
    names = client.get(f"/patients/{following}").content.decode()
    assert names.count(f"{NAME} Testperson") == 10


def test_link_of_active_filter_removes_it(client: Client, ana: User) -> None:
    given = {"patient_name": NAME, "status": "delivered_to_lab"}
    page = client.get(posted(client, "/orders/", given)).content.decode()
    drop = r'class="drop" href="([^"]*)"[^>]*>.*?<span class="sr">Remove ([^<]*)</span>'
    drops = {words: unescape(rest) for rest, words in re.findall(drop, page, re.DOTALL)}
    rest = drops["Name: Canaryname"]
    assert "patient_name" not in rest and "status=delivered_to_lab" in rest


def test_colleagues_may_be_given_the_address(client: Client, ana: User) -> None:
    address = posted(client, "/patients/", {"q": NAME})
    colleague = Client()
    asked = colleague.get(address)
    assert PREFIX in unquote(unquote(asked.headers["Location"])), "the sign-in leads back to it"
    colleague.force_login(staff("clinician", "ben"))
    assert f'value="{NAME}"' in colleague.get(address).content.decode()


def test_a_saved_view_opens_without_saying_whom(client: Client, ana: User) -> None:
    saved = client.post("/patients/views/", {"name": "Hers", "query": f"q={NAME}", "opens_for": ""})
    view = SavedView.objects.get()
    assert view.query == {"q": [NAME]}
    for answer in (saved, client.get(f"/patients/views/{view.pk}/")):
        address = answer.headers["Location"]
        assert NAME not in address and f"view={view.pk}" in address
        page = client.get(address).content.decode()
        assert f'value="{NAME}"' in page
        assert "Update “Hers”" not in page, "it shows what it says"


def test_the_person_of_a_report_is_found_the_same_way(client: Client, ana: User) -> None:
    address = posted(client, "/reports/upload/", {"q": NAME})
    assert NAME not in address
    assert f'value="{NAME}"' in client.get(address).content.decode()


def value_of(address: str) -> str:
    """The sealed word of an address that has one."""
    return str(next(value for _, value in parse_qsl(urlsplit(address).query) if value[0] == PREFIX))


@pytest.mark.parametrize("spoil", [lambda it: it[:-4], lambda it: it[:20] + "AAAA" + it[24:]])
def test_what_cannot_be_opened_is_told_and_shows_nobody(
    client: Client, ana: User, spoil: Callable[[str], str]
) -> None:
    whole = value_of(posted(client, "/patients/", {"q": NAME}))
    answer = client.get("/patients/", {"q": spoil(whole)})
    assert answer.status_code == 400
    assert "type them again" in answer.content.decode()
    assert NAME not in answer.content.decode()


def test_equal_words_look_different_and_open_alike() -> None:
    given = QueryDict("q=made+up&size=25")
    first, second = (encrypted_query(given, WORDS)["q"] for _ in range(2))
    assert first != second, "equal words cannot be told"
    for one in (first, second):
        assert decrypted_query(QueryDict(f"q={one}"), WORDS)["q"] == "made up"
    assert encrypted_query(encrypted_query(given, WORDS), WORDS)["q"].count(PREFIX) == 1


@pytest.mark.parametrize(
    ("path", "given", "elsewhere", "name"),
    [
        ("/orders/", {"patient_name": NAME}, "/orders/", "search_input"),
        ("/orders/", {"search_input": NAME}, "/orders/", "patient_name"),
        ("/patients/", {"q": NAME}, "/orders/", "search_input"),
        ("/patients/", {"q": NAME}, "/reports/upload/", "q"),
    ],
)
def test_they_open_in_their_list_and_box_alone(
    client: Client, ana: User, path: str, given: dict[str, str], elsewhere: str, name: str
) -> None:
    word = value_of(posted(client, path, given))
    answer = client.get(elsewhere, {name: word})
    assert answer.status_code == 400 and NAME not in answer.content.decode()


@pytest.mark.parametrize("name", ["search_input", "patient_name"])
def test_who_sees_no_names_opens_none_of_a_colleague(client: Client, ana: User, name: str) -> None:
    address = posted(client, "/orders/", {name: NAME})
    client.force_login(staff("viewer", "vic"))
    for asked in (address, address.replace(name, "search_input")):
        answer = client.get(asked)
        assert answer.status_code == 400 and NAME not in answer.content.decode()
    # Nor by sending it through the form: there it is a word like any other.
    page = client.get(posted(client, "/orders/", {"search_input": value_of(address)}))
    assert page.status_code == 200 and NAME not in page.content.decode()


def test_what_they_type_themselves_opens_for_them_and_for_others(client: Client, ana: User) -> None:
    beginning = str(uid("order", 7))[:8]
    client.force_login(staff("viewer", "vic"))
    address = posted(client, "/orders/", {"search_input": beginning})
    assert beginning not in address
    for reader in (None, ana):
        if reader is not None:
            client.force_login(reader)
        page = client.get(address).content.decode()
        assert f'value="{beginning}"' in page and str(uid("order", 7)) in page


LOOKALIKES = (
    PREFIX,
    "~smith",
    "~abc",
    "~" + "A" * 60,
    "~AQ Canary Testperson of the long long street",
)


@pytest.mark.parametrize("typed", LOOKALIKES)
def test_words_may_begin_as_what_is_sealed_does(client: Client, ana: User, typed: str) -> None:
    assert not is_encrypted_token(typed)
    address = posted(client, "/patients/", {"q": typed})
    assert typed not in dict(parse_qsl(urlsplit(address).query)).values()
    for answer in (client.get(address), client.get("/patients/", {"q": typed})):
        page = answer.content.decode()
        assert answer.status_code == 200 and f'value="{typed}"' in page
        assert typed == PREFIX or not [one for one in addresses(page) if typed in one]


def test_invalid_token_in_url_is_encrypted_as_typed(client: Client, ana: User) -> None:
    typed = "~AQ" + "Canary" * 10
    assert is_encrypted_token(typed)
    address = posted(client, "/patients/", {"q": typed})
    assert "Canary" not in address
    assert f'value="{typed}"' in client.get(address).content.decode()


def test_what_opens_is_not_sealed_again(client: Client, ana: User) -> None:
    address = posted(client, "/patients/", {"q": NAME})
    assert posted(client, "/patients/", {"q": value_of(address)}) == address
