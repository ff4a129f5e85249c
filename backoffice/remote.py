"""The client of the configured service, one kept connection pool per process."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from backoffice import counters, requests
from backoffice.service import Service, Watch


@cache
def service() -> Service:
    """The service this deployment is a customer of. Called after a worker forks, never before."""
    return Service(
        settings.SERVICE_BASE_URL,
        settings.SERVICE_API_KEY,
        key_header=settings.SERVICE_API_KEY_HEADER,
        order_create_path=settings.SERVICE_ORDER_CREATE_PATH,
        management_url=settings.MANAGEMENT_BASE_URL,
        management_key=settings.MANAGEMENT_KEY,
        management_key_header=settings.MANAGEMENT_KEY_HEADER,
        management_org_id=settings.MANAGEMENT_ORG_ID,
        management_env=settings.MANAGEMENT_ENV,
        management_region=settings.MANAGEMENT_REGION,
        watch=Watch(request_id=requests.current.get, ended=counters.called),
    )
