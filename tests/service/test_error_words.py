"""Whatever JSON an error comes with, it becomes an error of ours with the words in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backoffice.service import Service, errors, wire

from .faulty import Server, answer
from .writes import WRITES

words = st.text(min_size=1, max_size=20)
scalar = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
anything = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["detail", "msg", "loc", "message", "input", "x"]), inner)
    ),
    max_leaves=12,
)
entry = st.fixed_dictionaries(
    {"msg": anything | words, "loc": anything | st.lists(words | st.integers())},
    optional={"type": words, "input": anything, "ctx": anything},
)
documented = st.one_of(
    st.fixed_dictionaries({"detail": words}),
    st.fixed_dictionaries({"detail": st.lists(entry, max_size=4)}),
    st.fixed_dictionaries(
        {
            "detail": st.fixed_dictionaries(
                {"error_type": anything, "error_message": words, "user_id": anything}
            )
        }
    ),
    st.fixed_dictionaries({"error": words, "message": words, "status_code": st.integers()}),
    st.fixed_dictionaries({"success": st.just(False), "user_id": words, "error": words}),
)
no_examples_kept = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def said_in(body: Any) -> list[str]:
    """All words of a body but the parts that repeat what was sent, or tell where."""
    if isinstance(body, str):
        return [plain(body)] if plain(body) else []
    if isinstance(body, list):
        return [one for item in body for one in said_in(item)]
    if isinstance(body, dict):
        silent = ("input", "ctx", "loc", "type", "user_id", "error_type", "error")
        return [one for name, item in body.items() if name not in silent for one in said_in(item)]
    return []


def plain(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@settings(no_examples_kept, max_examples=400)
@given(body=documented | anything)
def test_no_words_are_lost(body: Any) -> None:
    said = wire.parse_error_body(json.dumps(body).encode())
    kept = " ".join([said.message, *(one.msg for one in said.fields)])
    assert len(said.message) <= wire.MESSAGE_CHARS
    assert kept.isprintable()
    assert bool(kept.strip()) >= bool(said_in(body))
    if isinstance(body, dict) and isinstance(body.get("detail"), str) and plain(body["detail"]):
        assert said.message == plain(body["detail"])[: wire.MESSAGE_CHARS]
    if isinstance(body, dict) and isinstance(body.get("detail"), list):
        for one in body["detail"]:
            if isinstance(one, dict) and isinstance(one.get("msg"), str):
                assert plain(one["msg"]) in kept


@settings(no_examples_kept, max_examples=400)
@given(body=st.binary(max_size=200) | st.text().map(str.encode))
def test_no_bytes_are_too_odd(body: bytes) -> None:
    said = wire.parse_error_body(body)
    assert said.message.isprintable() and len(said.message) <= wire.MESSAGE_CHARS


@pytest.mark.parametrize("status", [400, 404, 409, 422, 429, 500])
@settings(no_examples_kept, max_examples=25)
@given(data=st.data())
def test_a_write_ends_as_one_of_its_outcomes(
    server: Server, status: int, data: st.DataObject
) -> None:
    """Over a real socket: one of the error classes, and nothing else."""
    body = data.draw(documented | anything)
    remote = server.fresh().then(answer(json.dumps(body).encode(), status))
    with Service(remote.url, "key") as service, pytest.raises(errors.ServiceError) as caught:
        WRITES["orders.create"].call(service)
    kinds = {404: errors.Missing, 429: errors.Limited}
    kinds |= {409: errors.Uncertain, 500: errors.Uncertain}
    assert isinstance(caught.value, kinds.get(status, errors.Refused))
    assert len(remote.requests) == 1
