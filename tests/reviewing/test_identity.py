"""Whether a result names the patient of its order: reading, display and signing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core import service_client
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from orders.models import Delegation, Order, ResultVersion, Review, Signature
from orders.results import reviewed_elsewhere
from orders.results.sign_off import active_delegation, delegation_obstacles
from orders.rules.result_identity import current_identity
from orders.sync import LOOKUP_TYPES as OF_ORDERS
from orders.sync import store_orders
from patients.models import Demographics
from patients.sync import LOOKUP_TYPES as OF_PATIENTS
from tests.api.rows import staff, token_for
from tests.sandbox_service import sandbox_as_service
from tests.sandboxes import Sandbox, running

pytestmark = pytest.mark.django_db(transaction=True)

B19 = json.loads((Path(__file__).parents[1] / "cases" / "B19.json").read_text())
LOOKUP_TYPES = (*OF_ORDERS, *OF_PATIENTS)
WARNING = "The result names someone else"


@pytest.fixture(scope="module")
def own_sandbox() -> Iterator[Sandbox]:
    with running(users=8, orders=30, seed=4) as sandbox:
        yield sandbox


@pytest.fixture
def order_id(own_sandbox: Sandbox, settings: Settings) -> Iterator[UUID]:
    """A mirrored order of the sandbox with a result, and its patient."""
    with sandbox_as_service(own_sandbox, settings):
        found = own_sandbox.query(
            "SELECT id FROM sandbox_order WHERE result_version > 0 AND result_status = 'final'"
            " AND patient_dob IS NOT NULL ORDER BY number LIMIT 1"
        )
        key = UUID(str(found[0][0]))
        store_orders([service_client.service().orders.get(key)])
        yield key


def run_lookup(kind: str, key: object) -> None:
    schedule_lookups(kind, [key])
    run_due_lookups([subject for subject in LOOKUP_TYPES if subject.kind == kind])


def read_result(own_sandbox: Sandbox, order_id: UUID, **answer: Any) -> Review:
    if answer:
        own_sandbox.prepare_answer(f"/v3/order/{order_id}/result$", **answer)
    run_lookup("results", order_id)
    return Review.objects.get(pk=order_id)


def read_patient(order_id: UUID) -> UUID:
    patient = Order.objects.get(pk=order_id).user_id
    assert patient is not None
    run_lookup("demographics", patient)
    return patient


def page(client: Client, order_id: UUID) -> str:
    return str(client.get(reverse("reviewing:report", args=[order_id])).content.decode())


def user_with_delegation(order_id: UUID | None) -> User:
    """Return a user who may sign only by the delegation of a clinician."""
    front_desk_user = staff("front-desk", "desk")
    until = timezone.now() + timedelta(days=2)
    Delegation(
        by=staff("clinician", "anna"), to=front_desk_user, order_id=order_id, until=until
    ).save()
    return front_desk_user


def test_result_of_another_person_warns_and_cannot_be_delegated(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    read_patient(order_id)
    review = read_result(own_sandbox, order_id, body=B19)
    assert review.identity == "different" and review.names_somebody_else
    front_desk_user = user_with_delegation(order_id)
    assert active_delegation(front_desk_user, review) is None
    assert "names someone else" in " ".join(delegation_obstacles(review))
    assert (review.rank, review.place, review.interpretation) == (1, "somebody else", "normal")
    client.force_login(User.objects.get(username="anna"))
    shown = page(client, order_id)
    assert WARNING in shown and "Otto Other" in shown and "23/01/1962" in shown
    assert shown.count("Differs") == 2
    assert shown.count("Names somebody else") > 1, "in the row of the queue, not only in the filter"
    order_page = client.get(reverse("orders:detail", args=[order_id])).content.decode()
    assert WARNING in order_page and "Otto Other" in order_page


def test_result_of_the_patient_can_be_delegated(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    read_patient(order_id)
    review = read_result(own_sandbox, order_id)
    assert review.identity == "same"
    assert active_delegation(user_with_delegation(order_id), review) is not None
    client.force_login(User.objects.get(username="anna"))
    shown = page(client, order_id)
    assert WARNING not in shown and shown.count("Names somebody else") == 1, "only in the filter"


def test_result_that_names_nobody_is_not_known(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    read_patient(order_id)
    metadata = {**B19["metadata"], "patient": "", "dob": "", "age": ""}
    review = read_result(own_sandbox, order_id, body={**B19, "metadata": metadata})
    assert review.identity == "unknown"
    assert delegation_obstacles(review) == []
    client.force_login(staff("clinician", "anna"))
    shown = page(client, order_id)
    assert WARNING not in shown and "Unknown" in shown


def test_age_counts_where_the_result_has_no_birth_date(
    own_sandbox: Sandbox, order_id: UUID
) -> None:
    patient = read_patient(order_id)
    person = Demographics.objects.get(pk=patient)
    name = f"{person.last_name.upper()}, {person.first_name.upper()}"
    metadata = {**B19["metadata"], "patient": name, "dob": "", "age": "121"}
    review = read_result(own_sandbox, order_id, body={**B19, "metadata": metadata})
    assert review.identity == "different"
    assert [fact.label for fact in current_identity(order_id).facts] == [
        "Name",
        "Birth date",
        "Age",
    ]


def test_identity_follows_later_changes_of_demographics(
    own_sandbox: Sandbox, order_id: UUID
) -> None:
    Order.objects.update(
        patient_first_name="", patient_last_name="", patient_name="", patient_dob=None
    )
    review = read_result(own_sandbox, order_id)
    assert review.identity == "unknown", "nothing is known about the patient"
    patient = read_patient(order_id)
    review.refresh_from_db()
    assert review.identity == "same"
    changes = {"first_name": "Otto", "last_name": "Other", "dob": "1962-01-23"}
    own_sandbox.prepare_answer(f"/v2/user/{patient}/info", merge=changes)
    read_patient(order_id)
    review.refresh_from_db()
    assert Demographics.objects.get(pk=patient).last_name == "Other"
    assert review.identity == "different"
    assert delegation_obstacles(review) != []
    read_patient(order_id)
    review.refresh_from_db()
    assert review.identity == "same"


def sign(client: Client, order_id: UUID, **values: str) -> int:
    version = Review.objects.get(pk=order_id).version
    address = reverse("reviewing:sign", args=[order_id])
    return client.post(address, {"version": version, **values}).status_code


def test_signing_result_of_another_person_needs_confirmation(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    read_patient(order_id)
    read_result(own_sandbox, order_id, body=B19)
    delegate_client = Client()
    delegate_client.force_login(user_with_delegation(order_id))
    assert sign(delegate_client, order_id, is_identity_confirmed="on") == 403
    client.force_login(User.objects.get(username="anna"))
    assert 'name="is_identity_confirmed"' in page(client, order_id)
    assert sign(client, order_id) == 409
    assert not Signature.objects.exists()
    assert sign(client, order_id, is_identity_confirmed="on") == 302
    assert Signature.objects.get().is_identity_confirmed
    entry = AuditEntry.objects.filter(object_type="sign result").get()
    assert entry.after and entry.after["identity_confirmed"] == 1
    assert "Confirmed for this patient" in page(client, order_id)


def test_signing_result_of_the_patient_needs_no_confirmation(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    read_patient(order_id)
    read_result(own_sandbox, order_id)
    client.force_login(staff("clinician", "anna"))
    assert 'name="is_identity_confirmed"' not in page(client, order_id)
    assert sign(client, order_id) == 302
    assert not Signature.objects.get().is_identity_confirmed


def test_place_follows_the_identity_and_is_filtered(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    patient = read_patient(order_id)
    read_result(own_sandbox, order_id, body=B19)
    client.force_login(staff("clinician", "anna"))
    found = {
        section: order_id
        in [item.review.pk for item in client.get(f"/results/?place={section}").context["items"]]
        for section in ("somebody else", "abnormal", "unknown", "normal")
    }
    assert found == {"somebody else": True, "abnormal": False, "unknown": False, "normal": False}
    changes = {"first_name": "Otto", "last_name": "Other", "dob": "1962-01-23"}
    own_sandbox.prepare_answer(f"/v2/user/{patient}/info", merge=changes)
    read_patient(order_id)
    review = Review.objects.get(pk=order_id)
    assert (review.identity, review.place) == ("same", "normal")


def test_reviewed_elsewhere_skips_results_of_another_person(
    own_sandbox: Sandbox, order_id: UUID
) -> None:
    read_patient(order_id)
    read_result(own_sandbox, order_id, body=B19)
    anna = staff("clinician", "anna")
    assert reviewed_elsewhere.sign(timezone.now() + timedelta(days=1), anna) == 0
    read_result(own_sandbox, order_id)
    assert reviewed_elsewhere.sign(timezone.now() + timedelta(days=1), anna) == 1


def test_another_person_is_marked_wherever_values_are_shown(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    patient = read_patient(order_id)
    run_lookup("users", patient)
    read_result(own_sandbox, order_id, body=B19)
    client.force_login(staff("clinician", "anna"))
    marked = "The result names someone else"
    tab = client.get(reverse("of-patient:results", args=[patient])).content.decode()
    assert marked in tab and "Names somebody else" in tab
    address = reverse("reviewing:trend", args=[patient, "loinc:potassium"])
    assert marked in client.get(address).content.decode()
    headers = token_for(staff("administrator", "api"))
    answer = Client().get(f"/api/results/{order_id}/", headers=headers).json()
    assert answer["identity"] == "different"
    read_result(own_sandbox, order_id)
    tab = client.get(reverse("of-patient:results", args=[patient])).content.decode()
    assert marked not in tab and "Names somebody else" not in tab


def test_signed_result_naming_another_person_returns_to_queue(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    patient = read_patient(order_id)
    person = Demographics.objects.get(pk=patient)
    assert person.dob is not None
    own_metadata = {
        "patient": f"{person.first_name} {person.last_name}",
        "dob": person.dob.isoformat(),
    }
    body = {**B19, "metadata": {**B19["metadata"], **own_metadata, "age": ""}}
    first = read_result(own_sandbox, order_id, body=body)
    assert (first.identity, first.version, first.place) == ("same", 1, "normal")
    client.force_login(staff("clinician", "anna"))
    assert sign(client, order_id) == 302
    again = read_result(own_sandbox, order_id, body=B19)
    assert (again.version, again.signed, again.in_queue) == (2, 1, True)
    assert (again.kind, again.rank, again.identity) == ("corrected", 1, "different")
    assert read_result(own_sandbox, order_id, body=B19).version == 2, (
        "the same result makes no version"
    )
    assert sign(client, order_id, is_identity_confirmed="on") == 302
    assert not Review.objects.get(pk=order_id).in_queue


def test_new_demographics_do_not_make_a_result_corrected(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    """The laboratory corrected nothing, so a confirmed and signed result stays signed."""
    patient = read_patient(order_id)
    assert read_result(own_sandbox, order_id, body=B19).identity == "different"
    client.force_login(staff("clinician", "anna"))
    assert sign(client, order_id, is_identity_confirmed="on") == 302
    changes = {"first_name": "Otto", "last_name": "Other", "dob": "1962-01-23"}
    own_sandbox.prepare_answer(f"/v2/user/{patient}/info", merge=changes)
    read_patient(order_id)
    same = read_result(own_sandbox, order_id, body=B19)
    assert (same.identity, same.version, same.in_queue) == ("same", 1, False)
    read_patient(order_id)
    again = read_result(own_sandbox, order_id, body=B19)
    assert (again.identity, again.version, again.in_queue) == ("different", 1, False)
    named = {**B19, "metadata": {**B19["metadata"], "patient": "", "dob": "", "age": ""}}
    other = read_result(own_sandbox, order_id, body=named)
    assert (other.version, other.kind) == (2, "corrected"), (
        "the lab removed the person from the result"
    )


def test_result_contradicting_new_demographics_returns_to_queue(
    own_sandbox: Sandbox, order_id: UUID, client: Client
) -> None:
    patient = read_patient(order_id)
    assert read_result(own_sandbox, order_id).identity == "same"
    client.force_login(staff("clinician", "anna"))
    assert sign(client, order_id) == 302
    changes = {"first_name": "Otto", "last_name": "Other", "dob": "1962-01-23"}
    own_sandbox.prepare_answer(f"/v2/user/{patient}/info", merge=changes)
    read_patient(order_id)
    again = read_result(own_sandbox, order_id)
    assert (again.identity, again.version, again.in_queue) == ("different", 2, True)
    assert again.kind == "final"


# The digest of releases that do not compare persons.
EARLIER_DIGEST = """
SELECT sha256(convert_to(
 jsonb_build_array(r.status, r.interpretation, 0, lines.news)::text, 'UTF8'))
FROM orders_result r JOIN orders_resultversion v USING (order_id) CROSS JOIN LATERAL (
 SELECT jsonb_agg(one.line ORDER BY one.line) AS news FROM (
  SELECT sent - 'side' - 'source' - 'word' FROM jsonb_array_elements(v.content->'lines') AS sent
 ) AS one (line)
) AS lines
WHERE r.order_id = %s
"""


def test_signed_result_of_an_earlier_release_keeps_its_version(
    own_sandbox: Sandbox, order_id: UUID
) -> None:
    """Read again without changes, it does not return as corrected."""
    body = {**B19, "metadata": {**B19["metadata"], "patient": "", "dob": "", "age": ""}}
    assert read_result(own_sandbox, order_id, body=body).place == "normal"
    with connection.cursor() as cursor:
        cursor.execute(EARLIER_DIGEST, [order_id])
        [digest] = cursor.fetchone()
    assert bytes(ResultVersion.objects.get(order_id=order_id).digest) == bytes(digest)
    assert read_result(own_sandbox, order_id, body=body).version == 1
