"""Verify ID tokens of the provider: signature, audience, issuer, and times.

django-allauth does not check the signature of a token that it fetched itself; this adapter does.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings

from backoffice.service.json_text import JsonObject

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures with a key pair only: not `none`, and no secret that is shared with the provider."""
REQUIRED_CLAIMS: Final = ["iss", "sub", "aud", "exp", "iat"]
LEEWAY: Final = 30
"""Seconds by which the clocks may differ."""
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")


class VerifyingOIDCAdapter(OpenIDConnectOAuth2Adapter):
    """The OpenID Connect adapter of django-allauth, with full verification of ID tokens."""

    @property
    def openid_config(self) -> JsonObject:
        """Return the provider's configuration document.

        Raise ValueError if it names another issuer, or an address without https.
        """
        config: JsonObject = super().openid_config
        configured = settings.OIDC_SERVER_URL.partition("/.well-known/")[0]
        if config["issuer"].rstrip("/") != configured.rstrip("/"):
            raise ValueError("the document names another issuer than the configured one")
        if not settings.LOCAL and any(
            urlsplit(config[name]).scheme != "https" for name in _ENDPOINTS
        ):
            raise ValueError("the document names an address without https")
        return config

    def _decode_id_token(self, app: SocialApp, id_token: str) -> JsonObject:
        """Return the claims of the token.

        Raise KeyError for a key that the provider does not publish, PyJWTError for any other fault.
        """
        # The tests with forged tokens fail if a later django-allauth no longer calls this method.
        config = self.openid_config
        with get_adapter().get_requests_session() as session:
            answer = session.get(config["jwks_uri"])
            answer.raise_for_status()
        keys = jwt.PyJWKSet.from_dict(answer.json())
        claims: JsonObject = jwt.decode(
            id_token,
            keys[jwt.get_unverified_header(id_token)["kid"]],
            algorithms=ALGORITHMS,
            audience=app.client_id,
            issuer=config["issuer"],
            leeway=LEEWAY,
            options={"require": REQUIRED_CLAIMS},
        )
        if claims.get("azp", app.client_id) != app.client_id:
            raise jwt.InvalidAudienceError("the token was made for another client")
        return claims
