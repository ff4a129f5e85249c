"""Recent authentication: ask people to prove their identity again before sensitive changes."""

from __future__ import annotations

import time
from functools import wraps
from typing import Any, Final, cast

from allauth.account.authentication import get_authentication_records
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django_htmx.http import HttpResponseClientRedirect

from backoffice.accounts.access import View, address_without_personal_text

SECONDS: Final = 900
"""How long an authentication counts as recent; sending a form is allowed twice as long."""


def has_recent_authentication(request: HttpRequest) -> bool:
    """Return whether the user of the request authenticated recently."""
    records = get_authentication_records(request, request.user)
    seconds = SECONDS if request.method in ("GET", "HEAD") else 2 * SECONDS
    return any(time.time() - record["at"] < seconds for record in records)


def require_recent_authentication(view: View) -> View:
    """Redirect to authentication unless it is recent. Apply it inside of an access decorator."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated or has_recent_authentication(request):
            response = view(request, *args, **kwargs)
            assert isinstance(response, HttpResponseBase)
            return response
        query = urlencode({"next": address_without_personal_text(request)})
        url = f"{reverse('account_reauthenticate')}?{query}"
        if request.headers.get("HX-Request") == "true":
            # htmx would follow a redirect silently and put the page into the table.
            return HttpResponseClientRedirect(url)
        return HttpResponseRedirect(url)

    return cast(View, checked)
