"""A small data set with a record behind every URL, in which every secret is a canary.

Names, birth dates, addresses and phone numbers of patients and values of results contain the texts
of `canaries.py`.

`python -m tests.access.data_set` fills the database of a running installation and prints as JSON
what a client needs: session cookies of some roles, and tokens.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from datetime import timedelta
from typing import Any, Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import Group  # noqa: E402
from django.contrib.sessions.backends.base import SessionBase  # noqa: E402
from django.db import transaction  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from backoffice.accounts.access import ADMINISTRATOR, ROLES  # noqa: E402
from backoffice.accounts.models import User  # noqa: E402
from backoffice.api import tokens  # noqa: E402
from backoffice.core.models import UnknownValue  # noqa: E402
from backoffice.mirror.models import Drift, UnreadRecord  # noqa: E402
from backoffice.sync.models import SyncRun  # noqa: E402
from labs.models import LabAccount, Marker, Physician, Team  # noqa: E402
from orders.models import Order, Result, UnmatchedResult  # noqa: E402
from orders.models.review import Delegation, Signature  # noqa: E402
from patients.models import (  # noqa: E402
    Connection,
    Demographics,
    Insurance,
    Payor,
    Provider,
)
from patients.wearables.handlers import handle_samples  # noqa: E402
from patients.wearables.models import HistoricalPull, Summary, WorkoutStream  # noqa: E402
from tests.access.canaries import (  # noqa: E402
    BORN,
    EMAIL,
    FIRST_NAME,
    FORM_TOKEN,
    LAST_NAME,
    MEMBER,
    PHONE,
    STREET,
    VALUE,
)
from tests.api.rows import TEAM, envelope, uid  # noqa: E402
from tests.bench.data_set import people  # noqa: E402
from tests.bench.data_set.building import Size, build  # noqa: E402
from tests.browser import sample_data  # noqa: E402
from tests.wearables.test_samples import NOON, sample, samples_event  # noqa: E402
from tests.webhooks.rows import put  # noqa: E402

ORDER_COUNT: Final = 60
NO_ROLE: Final = "nobody"
INSURANCE: Final = f'{{"payor_code": "P1", "member_id": "{MEMBER}", "relationship": "Self"}}'


def fill() -> None:
    """Fill the empty tables of the back office."""
    make_staff()
    _build()
    _set_canaries()
    sample_data.main()
    latest_order = Order.objects.exclude(user=None).order_by("-created_at")[0]
    assert latest_order.user_id is not None
    _create_people(latest_order)
    _create_device_data(latest_order)
    _create_system_records(latest_order)
    _create_reviews()
    _create_unmatched_result(latest_order)


def make_staff() -> None:
    for role in ROLES:
        user, _ = User.objects.get_or_create(username=role.replace(" ", "-"))
        user.groups.set([Group.objects.get(name=role)])
    User.objects.get_or_create(username=NO_ROLE)


def _build() -> None:
    """Build the data set of the benchmarks, with other names and values."""
    names, result = (people.FIRST_NAMES[:], people.LAST_NAMES[:]), people.result
    people.FIRST_NAMES[:] = [f"{FIRST_NAME}{n}" for n in range(len(names[0]))]
    people.LAST_NAMES[:] = [f"{LAST_NAME}{n}" for n in range(len(names[1]))]
    people.result = _with_canaries
    try:
        build(Size(ORDER_COUNT))
    finally:
        people.FIRST_NAMES[:], people.LAST_NAMES[:] = names
        people.result = result


_result: Final = people.result


def _with_canaries(panel: int, variant: int) -> dict[str, Any]:
    result = copy.deepcopy(_result(panel, variant))
    for position, line in enumerate(result["results"]):
        if line.get("value") is not None:
            line["value"] = float(VALUE + position)
            line["result"] = str(VALUE + position)
    return result


def _set_canaries() -> None:
    """Set the fields that the benchmark data set shares between people."""
    LabAccount.objects.update(account_name="Sample clinic", record="{}")
    Order.objects.filter(patient_dob__isnull=False).update(patient_dob=BORN)
    Demographics.objects.update(
        dob=BORN,
        email=EMAIL,
        phone_number=PHONE,
        phone_digits=PHONE[:0:-1],
        first_line=STREET,
    )


def _create_people(order: Order) -> None:
    user = order.user_id
    Connection(
        user_id=user, slug="band-one", name="Band", created_on=timezone.now(), status="connected",
        **envelope(),
    ).save()  # fmt: skip
    Insurance(
        id=uid("insurance", 1), user_id=user, is_primary=True, payor_code="P1",
        member_id=MEMBER, relationship="Self", **envelope(INSURANCE),
    ).save()  # fmt: skip
    Payor(payor_code="P1", name="Sample Payor", **envelope()).save()
    HistoricalPull(
        user_id=user, provider="band-one", resource="sleep", status="failure", **envelope()
    ).save()
    Provider(slug="band-one", name="Band", **envelope()).save()
    WorkoutStream(id=uid("workout", 1), user_id=user, **envelope()).save()
    Physician(npi="1000000004", first_name="Sample", last_name="Madeup", **envelope()).save()
    Team(id=TEAM, name="Made-up team").save()
    Marker(id=5, lab_id=900, name="Marker 5", slug="marker-5", **envelope()).save()


def _create_device_data(order: Order) -> None:
    event = samples_event(
        1, "heartrate", [sample(NOON + timedelta(minutes=n), 60 + n) for n in range(9)]
    )
    handle_samples([dataclasses.replace(event, user_id=order.user_id)])
    Summary(
        id=uid("summary", 1), user_id=order.user_id, resource="activity", provider="band",
        number=1, calendar_date=NOON.date(), steps=7000, **envelope(),
    ).save()  # fmt: skip


def _create_system_records(order: Order) -> None:
    run = SyncRun.objects.create(resource="orders", full=True, state="done", fetched=7)
    Drift.objects.create(run=run, resource="orders", key=str(order.pk), kind="stale")
    UnknownValue.objects.create(vocabulary="order.status", value="made-up", sightings=3)
    UnreadRecord.objects.create(resource="orders", key="x", reason="made up", record="{}")
    body = json.dumps({"event_type": "labtest.order.updated", "data": json.loads(order.record)})
    put(
        "labtest.order.updated",
        body.encode(),
        user_id=order.user_id,
        subject_id=str(order.pk),
        state="dead",
        reason="made up",
    )


def _create_reviews() -> None:
    clinician = User.objects.get(username="clinician")
    result = Result.objects.filter(order__review__version__gt=0).order_by("order_id")[0]
    Signature.objects.create(order_id=result.pk, version=1, kind="signed", by=clinician)
    Delegation.objects.create(
        by=clinician,
        to=User.objects.get(username="lab-coordinator"),
        until=timezone.now() + timedelta(days=3),
    )


def _create_unmatched_result(order: Order) -> None:
    now = timezone.now()
    with transaction.atomic():
        account, _ = tokens.account_of("reporting")
    tokens.issue(account, name="made up")
    UnmatchedResult.objects.create(
        id=uid("unmatched", 1),
        status="pending_customer_review",
        decision_code="no_match",
        first_name=FIRST_NAME,
        last_name=LAST_NAME,
        dob=BORN,
        lab_slug="lab-north",
        allowed_actions=["ignore"],
        created_at=now,
        updated_at=now,
        **envelope(),
    )


def session_of(user: User) -> str:
    """Return the session cookie of a signed-in user with the CSRF token `FORM_TOKEN`."""
    client = Client()
    client.force_login(user)
    session: SessionBase = client.session
    session["_csrftoken"] = FORM_TOKEN
    session.save()
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def main() -> None:
    from tests.access.visits import probes  # it imports this module

    fill()
    people = {role: User.objects.get(username=role) for role in (ADMINISTRATOR, "viewer")}
    account = User.objects.get(username="reporting")
    output = {
        "cookie": settings.SESSION_COOKIE_NAME,
        "sessions": {role: session_of(user) for role, user in people.items()},
        "token": tokens.issue(account)[1],
        "paths": [one.path for one in probes() if one.is_real and one.method == "GET"],
    }
    print(json.dumps(output))


if __name__ == "__main__":
    main()
