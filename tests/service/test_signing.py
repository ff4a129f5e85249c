"""A delivery is believed for its signature alone, and refused for a named reason."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backoffice.service.signing import (
    Forged,
    Misshapen,
    Secret,
    Stale,
    Unsigned,
    Unverified,
    VerifiedDelivery,
    read_secrets,
    verify,
)

# The vector of the interface's documents.
TEXT = "whsec_Y2xpbmljLWJhY2stb2ZmaWNlLXRlc3Qta2V5LTAwMDE="
BODY = b'{"event_type":"labtest.order.updated","data":{"id":"x"}}'
SIGNATURE = "v1,ze2mitRi3s1lyH8I+j9JL0U08sZHhGdUU2PgnWwNQoY="
AT = datetime.fromtimestamp(1700000000, UTC)
PREFIXES = ("webhook", "vendor")
SECRETS = read_secrets([TEXT])


def headers(prefix: str = "webhook", **changed: str) -> dict[str, str]:
    sent = {"id": "msg_0001", "timestamp": "1700000000", "signature": SIGNATURE} | changed
    return {f"{prefix}-{name}": value for name, value in sent.items()}


def sign(text: str, message_id: str, timestamp: str, body: bytes) -> str:
    """As the documents describe it, apart from the code under test."""
    key = base64.b64decode(text[6:])
    content = b".".join([message_id.encode(), timestamp.encode(), body])
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def secret(number: int) -> str:
    return "whsec_" + base64.b64encode(number.to_bytes(32, "big")).decode()


def test_the_documented_vector() -> None:
    assert verify(BODY, headers(), SECRETS, PREFIXES, AT) == VerifiedDelivery(
        "msg_0001", AT, SECRETS[0].name
    )
    assert sign(TEXT, "msg_0001", "1700000000", BODY) == SIGNATURE


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_configured_prefix_counts_and_no_other(prefix: str) -> None:
    assert verify(BODY, headers(prefix), SECRETS, PREFIXES, AT).message_id == "msg_0001"
    others = [one for one in PREFIXES if one != prefix]
    with pytest.raises(Unsigned):
        verify(BODY, headers(prefix), SECRETS, others, AT)


def test_prefixes_do_not_mix() -> None:
    mixed = headers() | {"vendor-signature": SIGNATURE}
    del mixed["webhook-signature"]
    with pytest.raises(Unsigned):
        verify(BODY, mixed, SECRETS, PREFIXES, AT)
    whole = headers("vendor") | {"webhook-id": "other"}
    assert verify(BODY, whole, SECRETS, PREFIXES, AT).message_id == "msg_0001"


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_a_missing_header(name: str) -> None:
    sent = headers()
    del sent[f"webhook-{name}"]
    with pytest.raises(Unsigned):
        verify(BODY, sent, SECRETS, PREFIXES, AT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("id", v) for v in ("", "a.b", "a\n", "\x00", "a b", "é", "x" * 129, "١٢", "a/b")],
        *[("timestamp", v) for v in ("", "-1", "1e9", "1_0", "١٢", "1" * 13, " 1", "1\n", "1.0")],
        *[("signature", v) for v in ("", "v1,é", SIGNATURE + "\n", "v1," + "x" * 5000, "\x00")],
    ],
)
def test_a_header_out_of_shape(name: str, value: str) -> None:
    with pytest.raises(Misshapen) as caught:
        verify(BODY, headers(**{name: value}), SECRETS, PREFIXES, AT)
    assert str(caught.value) == f"misshapen {name}"


@pytest.mark.parametrize(
    "signature",
    [
        SIGNATURE.replace("v1", "v0"),
        SIGNATURE.replace("v1", "v1a"),
        SIGNATURE.lower(),
        SIGNATURE[:-1],
        SIGNATURE.replace("v1,", ""),
        SIGNATURE.replace(",", ", "),
        "v1,",
        " ",
    ],
)
def test_a_signature_that_is_not_it(signature: str) -> None:
    with pytest.raises(Forged):
        verify(BODY, headers(signature=signature), SECRETS, PREFIXES, AT)


@pytest.mark.parametrize("seconds", [-300, -1, 0, 1, 300])
def test_five_minutes_either_way_are_tolerated(seconds: int) -> None:
    assert verify(BODY, headers(), SECRETS, PREFIXES, AT + timedelta(seconds=seconds))


@pytest.mark.parametrize("seconds", [-86400, -301, 301, 86400])
def test_beyond_it_is_stale(seconds: int) -> None:
    with pytest.raises(Stale) as caught:
        verify(BODY, headers(), SECRETS, PREFIXES, AT + timedelta(seconds=seconds))
    assert caught.value.seconds_off == -seconds


def test_a_time_beyond_every_calendar_is_stale() -> None:
    far = "9" * 12
    sent = headers(timestamp=far, signature=sign(TEXT, "msg_0001", far, BODY))
    with pytest.raises(Stale):
        verify(BODY, sent, SECRETS, PREFIXES, AT)


def test_a_forged_delivery_is_not_called_stale() -> None:
    """Only genuine deliveries may speak about the clocks."""
    with pytest.raises(Forged):
        verify(BODY + b" ", headers(), SECRETS, PREFIXES, AT + timedelta(days=1))


def test_two_secrets_while_one_is_replaced() -> None:
    old, new = secret(1), secret(2)
    both = read_secrets([old, new])
    for text, name in ((old, both[0].name), (new, both[1].name)):
        sent = headers(signature=sign(text, "msg_0001", "1700000000", BODY))
        assert verify(BODY, sent, both, PREFIXES, AT).key == name
        alone = read_secrets([new if text == old else old])
        with pytest.raises(Forged):
            verify(BODY, sent, alone, PREFIXES, AT)
    signatures = [sign(text, "msg_0001", "1700000000", BODY) for text in (new, old)]
    sent = headers(signature=" ".join(signatures))
    for known in ([old], [new], [old, new], [new, old]):
        assert verify(BODY, sent, read_secrets(known), PREFIXES, AT)


def test_without_secrets_nothing_is_believed() -> None:
    with pytest.raises(Forged):
        verify(BODY, headers(), (), PREFIXES, AT)


def test_only_the_first_eight_signatures_are_examined() -> None:
    other = sign(secret(9), "msg_0001", "1700000000", BODY)
    eighth = " ".join([other] * 7 + [SIGNATURE] + [other] * 50)
    ninth = " ".join([other] * 8 + [SIGNATURE])
    assert verify(BODY, headers(signature=eighth), SECRETS, PREFIXES, AT)
    with pytest.raises(Forged):
        verify(BODY, headers(signature=ninth), SECRETS, PREFIXES, AT)


def test_unknown_schemes_are_passed_over() -> None:
    sent = headers(signature=f"v1a,AAAA v2,zzzz {SIGNATURE}")
    assert verify(BODY, sent, SECRETS, PREFIXES, AT)


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.sampled_from(["body", "id", "timestamp", "signature"]),
    st.integers(0, 200),
    st.integers(1, 255),
)
def test_one_changed_bit_is_refused(part: str, place: int, mask: int) -> None:
    body, sent = bytearray(BODY), headers()
    if part == "body":
        body[place % len(body)] ^= mask
    else:
        value = bytearray(sent[f"webhook-{part}"].encode())
        value[place % len(value)] ^= mask
        sent[f"webhook-{part}"] = value.decode("latin-1")
    with pytest.raises(Unverified):
        verify(bytes(body), sent, SECRETS, PREFIXES, AT)


@settings(max_examples=500, deadline=None, database=None)
@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=80), st.binary(max_size=40))
def test_nothing_received_raises_anything_else(
    message_id: str, timestamp: str, signature: str, body: bytes
) -> None:
    sent = headers(id=message_id, timestamp=timestamp, signature=signature)
    with pytest.raises(Unverified):
        verify(body, sent, SECRETS, PREFIXES, AT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        TEXT[6:],
        "whsec_!!!!",
        "whsec_c2hvcnQ=",
        TEXT + "é",
        TEXT[:-1],
        TEXT.replace("whsec_", "WHSEC_"),
    ],
)
def test_a_secret_that_is_none_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="whsec_ and at least 16 bytes") as caught:
        read_secrets([text])
    assert len(text) < 8 or text[6:] not in str(caught.value)


def test_a_secret_does_not_show() -> None:
    one = Secret.read(TEXT)
    assert repr(one) == f"Secret(name='{one.name}')"
    assert len(one.name) == 8 and one.key == b"clinic-back-office-test-key-0001"
    assert one.name != Secret.read(secret(1)).name
