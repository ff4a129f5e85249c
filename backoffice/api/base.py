"""Authentication, permissions, rate limits and errors of all API views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone, translation
from rest_framework import exceptions
from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from backoffice.accounts.access import PERMISSIONS, DeclaredPermission, declared_permissions, may
from backoffice.accounts.models import User
from backoffice.api import tokens
from backoffice.api.errors import TooManyRequests, error_response
from backoffice.api.models import ApiToken
from backoffice.api.throttles import ReadRate, count_failure
from backoffice.audit.recording import AuditUnavailable, record_entry


class TokenAuthentication(BaseAuthentication):
    """Authentication by `Authorization: Token <token>`.

    A request has the permissions that both the roles of the account and the scopes of the token
    grant.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "token":
            return None
        try:
            token = tokens.get_token(text.strip())
        except tokens.TokenRefused as refused:
            raise exceptions.AuthenticationFailed(str(refused)) from refused
        token.user.scopes = frozenset({"api.read", *token.scopes})
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Token realm="api"'


class SingleRendererNegotiation(BaseContentNegotiation):
    """Content negotiation that ignores the Accept header: every response is JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class BaseAPIView(APIView):
    """Base class of the API views. All are read-only."""

    authentication_classes = (TokenAuthentication, SessionAuthentication)
    permission_classes = (DeclaredPermission,)
    throttle_classes = (ReadRate,)
    renderer_classes: list[type[BaseRenderer]] = [JSONRenderer]
    parser_classes = (JSONParser,)
    content_negotiation_class = SingleRendererNegotiation
    http_method_names = ["get", "head", "post"]  # POST where a viewset has a search

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer in the default language and time zone: browsers and programs get the same."""
        with timezone.override(None), translation.override(settings.LANGUAGE_CODE):
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method not in self.allowed_methods:
            raise exceptions.MethodNotAllowed(request.method or "")
        super().initial(request, *args, **kwargs)

    def permission_denied(
        self, request: Request, message: str | None = None, code: str | None = None
    ) -> NoReturn:
        if request.authenticators and not request.successful_authenticator:
            raise exceptions.NotAuthenticated("Sign in, or send a token: Authorization: Token ...")
        needed = dict.fromkeys(("api.read", *(declared_permissions(type(self)) or ())))
        allowed = " and to ".join(PERMISSIONS[name] for name in needed)
        words = f"Your roles must allow you to {allowed}."
        if isinstance(request.auth, ApiToken):
            missing = [name for name in needed if not may(request.user, name)]
            words = f"{words} This token lacks {', '.join(missing)}."
        raise exceptions.PermissionDenied(words)

    def throttled(self, request: Request, wait: float | None) -> NoReturn:
        raise TooManyRequests(wait or 1)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
            exc = self._unknown(exc)
        return super().handle_exception(exc)

    def _unknown(self, exc: Exception) -> Exception:
        """Count the failure for the client address, and audit the use of an invalid token."""
        request = self.request._request
        if wait := count_failure(request):
            return TooManyRequests(wait)  # not audited, so that nobody can flood the audit trail
        refused = exc.__cause__
        if isinstance(refused, tokens.TokenRefused):
            key_ids = [refused.token.key_id] if refused.token else []
            try:
                record_entry(
                    request, "login", "token", ids=key_ids, outcome="refused", reason=str(refused)
                )
            except AuditUnavailable as unavailable:
                return unavailable
        return exc

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return error_response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers["Cache-Control"] = "no-store, private"
        return response
