"""Entry point of the web server: `granian --interface rsgi backoffice.wsgi:web`.

`application` is the same as a WSGI application, for servers that take in whole requests themselves.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
pages = get_wsgi_application()

from backoffice import buffering, installation, patience  # noqa: E402 - needs the settings
from webhooks.door import DOORS, deliveries  # noqa: E402

patience.limit_statements()
installation.verify()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Deliveries pass by the middleware of the pages, which costs a third of their time."""
    inside = deliveries if environ.get("PATH_INFO") in DOORS else pages
    return inside(environ, start_response)


web = buffering.Web(application)
