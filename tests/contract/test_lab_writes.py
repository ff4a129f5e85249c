"""Lab tests made and archived at the sandbox, and the questions of an order to be."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec
import pytest

from backoffice.service import Service, errors
from backoffice.service.labs import LabTestChange, NewLabTest
from tests.contract.test_orders import NOBODY
from tests.sandboxes import SandboxFactory


@pytest.fixture(scope="module")
def client(sandbox_factory: SandboxFactory, as_specified: bool) -> Iterator[Service]:
    with sandbox_factory(
        as_specified=as_specified, users=5, orders=10, seed=31
    ).service() as service:
        yield service


def test_labs_create_test(client: Service) -> None:
    marker = client.labs.markers(size=1).records[0].data
    assert marker.provider_id and marker.lab_id
    lab = next(one.data for one in client.labs.labs().records if one.data.id == marker.lab_id)
    body = NewLabTest(
        name=f"Made up {uuid.uuid4().hex[:6]}",
        method=lab.collection_methods[0],
        description="made up",
        provider_ids=[marker.provider_id],
        lab_slug=lab.slug,
    )
    made = client.labs.create_test(body)
    assert (made.data.name, made.data.status) == (body.name, "pending_approval")
    read = client.labs.lab_test(made.data.id)
    assert read.data.name == body.name
    changed = client.labs.update_test(made.data.id, LabTestChange(name=f"{body.name} b"))
    assert changed.data.name == f"{body.name} b"
    archived = client.labs.update_test(made.data.id, LabTestChange(active=False))
    assert (archived.data.status, archived.data.name) == ("inactive", f"{body.name} b")
    with pytest.raises((errors.Refused, errors.Missing)):
        client.labs.create_test(msgspec.structs.replace(body, provider_ids=["no-such-code"]))


def test_a_lab_test_of_nobody_is_missing(client: Service) -> None:
    with pytest.raises(errors.Missing) as missing:
        client.labs.update_test(NOBODY, LabTestChange(active=False))
    assert missing.value.message
