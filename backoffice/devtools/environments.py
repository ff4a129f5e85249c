"""Environment variables for the processes that `./run` starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from backoffice.devtools.embedded import Servers

SERVICE_VARIABLES: Final = (
    "SERVICE_BASE_URL",
    "SERVICE_API_KEY",
    "SERVICE_API_KEY_HEADER",
    "SERVICE_ORDER_CREATE_PATH",
    "SERVICE_ORDER_REASON_FIELD",
    "MANAGEMENT_BASE_URL",
    "MANAGEMENT_KEY",
    "MANAGEMENT_KEY_HEADER",
    "MANAGEMENT_ORG_ID",
    "MANAGEMENT_ENV",
    "MANAGEMENT_REGION",
    "WEBHOOK_SECRETS",
)


def resolve_service_settings(
    variables: Mapping[str, str], sandbox_port: int | None
) -> dict[str, str]:
    """Return the settings in `variables`.

    With a sandbox, its settings replace those of a configured service.
    """
    environment = dict(variables)
    if sandbox_port is not None:
        for name in SERVICE_VARIABLES:
            environment.pop(name, None)
        environment["LOCAL"] = "1"
        environment["SERVICE_BASE_URL"] = f"http://127.0.0.1:{sandbox_port}"
        environment["SANDBOX_PORT"] = str(sandbox_port)
        if "SANDBOX_ORDER_REASON_FIELD" in environment:
            environment["SERVICE_ORDER_REASON_FIELD"] = environment["SANDBOX_ORDER_REASON_FIELD"]
    return environment


def environment_for(servers: Servers, variables: Mapping[str, str]) -> dict[str, str]:
    environment = local_by_default(variables, embedded_database=servers.embedded)
    return {
        **environment,
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
    }


def local_by_default(variables: Mapping[str, str], *, embedded_database: bool) -> dict[str, str]:
    environment = dict(variables)
    environment.pop("DJANGO_SETTINGS_MODULE", None)  # Back office and sandbox set their own.
    if embedded_database and variables.get("MANAGEMENT_ENV") != "production":
        environment.setdefault("LOCAL", "1")
    return environment


def throwaway_environment(servers: Servers) -> dict[str, str]:
    """Return the environment of throw-away servers, without any configured service."""
    environment = environment_for(servers, os.environ)
    overridden = ("SECRET_KEY", "FIELD_KEYS", "ALLOWED_HOSTS", "HTTPS_ONLY", "DEBUG")
    for name in (*SERVICE_VARIABLES, *overridden):
        environment.pop(name, None)
    return {**environment, "LOCAL": "1", "TEST_SANDBOX_DATABASE": servers.database_url}
