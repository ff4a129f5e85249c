"""A small OpenID Connect provider on a real socket where one person is always signed in.

It checks what a provider checks: the client and its secret, the redirect URI, PKCE, and that a code
is used once. It publishes its key. Tests can make it sign tokens differently.
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

CLIENT_ID, CLIENT_SECRET = "back-office", "made-up-client-secret"
MOVED_PREFIX = "/elsewhere"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    url: str = ""
    person: dict[str, Any] = field(default_factory=dict)
    """Claims of the person who is signed in there."""
    user_info: dict[str, Any] | None = None
    """The answer of the user information endpoint, if it differs from `person`."""
    failing_path: str = ""
    """A path that answers 500."""
    redirected_path: str = ""
    """A path that redirects to another address."""
    has_id_token: bool = True
    """Whether the answer contains an ID token."""
    allowed_redirect_uri: str = ""
    """The only allowed redirect URI; empty allows any."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    issuer: str = ""
    """The issuer it names, if that is not its URL."""
    kid: str = "sample"
    key: Any = field(default_factory=new_key)
    algorithm: str = "RS256"
    """Algorithm, key and key ID that sign the ID tokens."""
    published: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    claim_overrides: dict[str, Any] = field(default_factory=dict)
    """Claims of ID tokens to replace; None removes a claim."""

    def __post_init__(self) -> None:
        self.published[self.kid] = self.key

    def rotate(self) -> None:
        """Use another key with another ID. The earlier one is no longer published."""
        self.kid, self.key = "sample-2", new_key()
        self.published = {self.kid: self.key}

    def keys(self) -> dict[str, Any]:
        more = {"alg": self.algorithm} if self.algorithm[:2] in ("RS", "PS") else {}
        found = [
            {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}
            for kid, key in self.published.items()
        ]
        return {"keys": found}

    def configuration_document(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, request: dict[str, str]) -> str:
        """Return the address to which the browser is redirected."""
        assert request["client_id"] == CLIENT_ID and request["response_type"] == "code"
        assert request["code_challenge_method"] == "S256" and "openid" in request["scope"]
        assert not self.allowed_redirect_uri or request["redirect_uri"] == self.allowed_redirect_uri
        if not self.person:
            answer = {"error": "access_denied"}
        else:
            answer = {"code": uuid4().hex}
            self.codes[answer["code"]] = request
        return f"{request['redirect_uri']}?{urlencode({**answer, 'state': request['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return the token response, or None for a request it does not trust."""
        request = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            request is None
            or (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET)
            or request["code_challenge"] != challenge
            or request["redirect_uri"] != form.get("redirect_uri")
        ):
            return None
        access = uuid4().hex
        self.tokens.add(access)
        now = int(time.time())
        claims = {
            "iss": self.issuer or self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 60,
            "nonce": request.get("nonce"),
            "jti": access,
            **self.person,
            **self.claim_overrides,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        headers = {"kid": self.kid}
        id_token = jwt.encode(claims, self.key, algorithm=self.algorithm, headers=headers)
        response = {"access_token": access, "token_type": "Bearer"}
        return {**response, "id_token": id_token} if self.has_id_token else response


class _Handler(BaseHTTPRequestHandler):
    @property
    def provider(self) -> Provider:
        found: Provider = self.server.provider  # type: ignore[attr-defined]
        return found

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        provider = self.provider
        if urlsplit(self.path).path == provider.redirected_path:
            return self._redirect()
        parts = urlsplit(self.path.removeprefix(MOVED_PREFIX))
        if parts.path == provider.failing_path:
            self._send_json(500, {"error": "broken"})
        elif parts.path == "/.well-known/openid-configuration":
            self._send_json(200, provider.configuration_document())
        elif parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
            self.end_headers()
        elif parts.path == "/keys":
            self._send_json(200, provider.keys())
        elif parts.path == "/userinfo":
            token = self.headers["Authorization"].removeprefix("Bearer ")
            is_known = token in provider.tokens
            claims = provider.person if provider.user_info is None else provider.user_info
            self._send_json(200 if is_known else 401, claims if is_known else {})
        else:
            self._send_json(404, {})

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if self.path == self.provider.redirected_path:
            return self._redirect()
        answer = None if self.provider.failing_path == "/token" else self.provider.token(form)
        self._send_json(200 if answer else 400, answer or {"error": "invalid_grant"})

    def _redirect(self) -> None:
        """Redirect to the same response at another address."""
        self.send_response(307)
        self.send_header("Location", f"{self.provider.url}{MOVED_PREFIX}{self.path}")
        self.end_headers()

    def _send_json(self, status: int, body: dict[str, Any]) -> None:
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def run_provider() -> Iterator[Provider]:
    provider = Provider()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.provider = provider  # type: ignore[attr-defined]
        provider.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield provider
        finally:
            server.shutdown()
