"""Settings of the sandbox. Everything comes from the environment, with local defaults."""

import os
from urllib.parse import unquote, urlsplit

SECRET_KEY = "sandbox-holds-made-up-people-only"  # noqa: S105 - signs nothing
DEBUG = False
ALLOWED_HOSTS = ["*"]  # served on the loopback address only
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "sandbox.urls"
WSGI_APPLICATION = "sandbox.wsgi.application"
APPEND_SLASH = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["rest_framework", "sandbox"]
MIDDLEWARE = ["sandbox.faults.FaultMiddleware"]
TEMPLATES: list[dict[str, object]] = []
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024 * 1024

PORT = int(os.environ.get("SANDBOX_PORT", "8100"))
DATABASE_URL = os.environ.get("SANDBOX_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/sandbox")
_parts = urlsplit(DATABASE_URL)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _parts.path.lstrip("/"),
        "USER": unquote(_parts.username or ""),
        "PASSWORD": unquote(_parts.password or ""),
        "HOST": _parts.hostname or "",
        "PORT": str(_parts.port or ""),
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": False,
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
}

# Who may call. The back office keeps its own copy of these development defaults.
ORG_ID = "0d4f7c1e-0000-4000-8000-00000000c11c"
TEAM_ID = "7ea00000-0000-4000-8000-000000000001"
TEAM_KEY = os.environ.get("SANDBOX_TEAM_KEY", "sk_us_local_sandbox")
OTHER_TEAM_ID = "7ea00000-0000-4000-8000-000000000002"
OTHER_TEAM_KEY = os.environ.get("SANDBOX_OTHER_TEAM_KEY", "sk_us_local_other_team")
TEAM_KEY_HEADER = "x-service-api-key"
# Field of a new order that says why it replaces another one; empty: none is understood.
ORDER_REASON_FIELD = os.environ.get("SANDBOX_ORDER_REASON_FIELD", "update_reason")
# Answer and accept the forms of the specification where the supplement differs; see
# `sandbox/specification_forms.py`.
AS_SPECIFIED = os.environ.get("SANDBOX_AS_SPECIFIED", "") == "1"
MANAGEMENT_KEY = os.environ.get("SANDBOX_MANAGEMENT_KEY", "mg_local_sandbox")
MANAGEMENT_KEY_HEADERS = ("X-Management-Key", "X-Service-Org-Key")
ENVIRONMENT = "sandbox"
REGION = "us"
WEBHOOK_SECRET = os.environ.get(
    "SANDBOX_WEBHOOK_SECRET", "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA=="
)

WEBHOOK_URL = os.environ.get("SANDBOX_WEBHOOK_URL", "")
WEBHOOK_HEADER_PREFIX = "webhook"
# Waits between attempts, and the patience with a dead endpoint, are divided by it.
RETRY_SPEED = float(os.environ.get("SANDBOX_RETRY_SPEED", "1"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    # Answers of 4xx are the sandbox's daily bread; their paths stay out of the log.
    "loggers": {"django.request": {"level": "CRITICAL"}},
}
