"""Is it still you? What matters is changed only by somebody who proved it a short while ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from allauth.account.authentication import get_authentication_records
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

View = TypeVar("View", bound=Callable[..., Any])

SECONDS: Final = 900
"""A log-in or a later proof counts this long; for a form that was opened in time, twice as long."""


def has_recent_authentication(request: HttpRequest) -> bool:
    proofs = get_authentication_records(request, request.user)
    looking = request.method in ("GET", "HEAD")
    return any(time.time() - one["at"] < SECONDS * (1 if looking else 2) for one in proofs)


def require_recent_authentication(view: View) -> View:
    """Ask for a proof first; inside of what lets nobody in but members of staff."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated or has_recent_authentication(request):
            answer: HttpResponseBase = view(request, *args, **kwargs)
            return answer
        query = urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(f"{reverse('account_reauthenticate')}?{query}")

    return cast(View, checked)
