"""A small OpenID Connect provider on a real socket: one person is logged in there, always.

It checks what a provider checks: the client and its secret, the address to come back to, PKCE, and
that a code is used once. It publishes its key, and can be told to sign its tokens otherwise.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "back-office", "made-up-client-secret"
ELSEWHERE = "/elsewhere"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    url: str = ""
    person: dict[str, Any] = field(default_factory=dict)
    """Claims of who is logged in there."""
    info: dict[str, Any] | None = None
    """What the page of user information says instead."""
    broken: str = ""
    """A path that answers 500."""
    moved: str = ""
    """A path that leads elsewhere."""
    tells_who: bool = True
    """Whether there is an ID token."""
    comes_back: str = ""
    """The only address people may be sent back to; empty for any."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    issuer: str = ""
    """What it calls itself, where that is not its address."""
    kid: str = "sample"
    key: Any = field(default_factory=new_key)
    algorithm: str = "RS256"
    """What ID tokens are signed by, with which key, and by which name."""
    published: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    """Claims of ID tokens that are otherwise than they should be; None for none."""

    def __post_init__(self) -> None:
        self.published[self.kid] = self.key

    def rotate(self) -> None:
        """Another key, by another name; the earlier one is no longer published."""
        self.kid, self.key = "sample-2", new_key()
        self.published = {self.kid: self.key}

    def keys(self) -> dict[str, Any]:
        more = {"alg": self.algorithm} if self.algorithm[:2] in ("RS", "PS") else {}
        found = [
            {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}
            for kid, key in self.published.items()
        ]
        return {"keys": found}

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        assert asked["client_id"] == CLIENT and asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"]
        assert not self.comes_back or asked["redirect_uri"] == self.comes_back
        if not self.person:
            answer = {"error": "access_denied"}
        else:
            answer = {"code": uuid4().hex}
            self.codes[answer["code"]] = asked
        return f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """None for whom it does not trust."""
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET)
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form.get("redirect_uri")
        ):
            return None
        access = uuid4().hex
        self.tokens.add(access)
        now = int(time.time())
        claims = {
            "iss": self.issuer or self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "nonce": asked.get("nonce"),
            "jti": access,
            **self.person,
            **self.said,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        headers = {"kid": self.kid}
        signed = jwt.encode(claims, self.key, algorithm=self.algorithm, headers=headers)
        told = {"access_token": access, "token_type": "Bearer"}
        return {**told, "id_token": signed} if self.tells_who else told


class _Talk(BaseHTTPRequestHandler):
    @property
    def provider(self) -> Provider:
        found: Provider = self.server.provider  # type: ignore[attr-defined]
        return found

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        provider = self.provider
        if urlsplit(self.path).path == provider.moved:
            return self._move()
        parts = urlsplit(self.path.removeprefix(ELSEWHERE))
        if parts.path == provider.broken:
            self._say(500, {"error": "broken"})
        elif parts.path == "/.well-known/openid-configuration":
            self._say(200, provider.document())
        elif parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
            self.end_headers()
        elif parts.path == "/keys":
            self._say(200, provider.keys())
        elif parts.path == "/userinfo":
            token = self.headers["Authorization"].removeprefix("Bearer ")
            known = token in provider.tokens
            said = provider.person if provider.info is None else provider.info
            self._say(200 if known else 401, said if known else {})
        else:
            self._say(404, {})

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if self.path == self.provider.moved:
            return self._move()
        answer = None if self.provider.broken == "/token" else self.provider.token(form)
        self._say(200 if answer else 400, answer or {"error": "invalid_grant"})

    def _move(self) -> None:
        """To the same answer at another address."""
        self.send_response(307)
        self.send_header("Location", f"{self.provider.url}{ELSEWHERE}{self.path}")
        self.end_headers()

    def _say(self, status: int, body: dict[str, Any]) -> None:
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: Any) -> None:
        """Silence."""


@contextlib.contextmanager
def providing() -> Iterator[Provider]:
    provider = Provider()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Talk) as server:
        server.provider = provider  # type: ignore[attr-defined]
        provider.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield provider
        finally:
            server.shutdown()
