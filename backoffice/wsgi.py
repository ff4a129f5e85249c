"""Entry point of the web server: `granian --interface rsgi backoffice.wsgi:web`.

`application` is the same as a WSGI application, for servers that buffer whole requests themselves.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
pages = get_wsgi_application()

from backoffice.core import installation, statement_limits  # noqa: E402 - needs the settings
from backoffice.operations import request_buffer  # noqa: E402
from webhooks.endpoint import ENDPOINT_PATHS, webhook_application  # noqa: E402

statement_limits.limit_statements()
installation.verify()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Serve pages, and webhook deliveries without their middleware.

    The middleware would take a third of the time of a delivery.
    """
    inside = webhook_application if environ.get("PATH_INFO") in ENDPOINT_PATHS else pages
    return inside(environ, start_response)


web = request_buffer.Web(application)
