"""Whom the client talks to: a server whose certificate is not in order is told nothing."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from backoffice.service import Service, errors
from backoffice.service.transport import _trust

from .conftest import TEAM_KEY, Slept
from .writes import WRITES

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


class Authority:
    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            self._builder(self.name, self.key, NOW - DAY, NOW + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        begins: datetime,
        ends: datetime,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )

    def issue(self, folder: Path, host: str, ends: datetime) -> Path:
        """Key and certificate of `host`, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        builder = self._builder(subject, key, NOW - 2 * DAY, ends)
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        issued = builder.add_extension(names, critical=False).sign(self.key, hashes.SHA256())
        path = folder / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + issued.public_bytes(serialization.Encoding.PEM)
        )
        return path


@pytest.fixture(scope="module")
def known() -> Authority:
    """One that this process trusts, as it does those of the world."""
    authority = Authority("Made-up authority")
    pem = authority.certificate.public_bytes(serialization.Encoding.PEM).decode()
    _trust().load_verify_locations(cadata=pem)
    return authority


@contextlib.contextmanager
def serving(certificate: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a server with this certificate, and the keys it was told."""
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.append(self.headers["x-service-api-key"])
            body = b'{"users": [], "total": 0}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - of the library

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"https://localhost:{server.server_port}", told
        finally:
            server.shutdown()


def test_a_certificate_in_order_is_believed(known: Authority, tmp_path: Path) -> None:
    with serving(known.issue(tmp_path, "localhost", NOW + DAY)) as (url, told):
        with Service(url, TEAM_KEY) as service:
            assert service.users.list().records == []
        assert told == [TEAM_KEY]


@pytest.mark.parametrize(
    ("host", "ends", "trusted"),
    [
        ("localhost", NOW - DAY, True),
        ("elsewhere.invalid", NOW + DAY, True),
        ("localhost", NOW + DAY, False),
    ],
    ids=["expired", "of another host", "of nobody known"],
)
def test_another_one_is_told_nothing(
    known: Authority, tmp_path: Path, slept: Slept, host: str, ends: datetime, trusted: bool
) -> None:
    authority = known if trusted else Authority("Nobody")
    with serving(authority.issue(tmp_path, host, ends)) as (url, told):
        with Service(url, TEAM_KEY, clock=slept.clock()) as service:
            with pytest.raises(errors.Unreachable) as caught:
                service.users.list()
            assert caught.value.status is None
            with pytest.raises(errors.Unreachable) as unsent:
                WRITES["orders.create"].call(service)
            assert type(unsent.value) is errors.Unreachable, "nothing left, so nothing is unclear"
        assert told == []
