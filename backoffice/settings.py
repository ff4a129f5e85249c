"""Django settings, read from the environment; all errors are reported together at startup.

The table "Configuration" of the README lists the names. `LOCAL` means a development machine:
made-up people, loopback, plain HTTP. It is on when no `DATABASE_URL` is configured, and the
launcher sets it for the demo and for tests. Development values replace missing keys and secrets
only when `LOCAL` is on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jinja2
from csp.constants import NONE, SELF

from backoffice.core import environment as env
from backoffice.core.connection_settings import database_settings, delivery_database_settings
from backoffice.devtools import embedded

BASE_DIR = Path(__file__).resolve().parent.parent
env.clear_errors()


def configured(name: str, development: str, hint: str = "") -> str:
    """Return a required value; its published default applies only when `LOCAL` is on."""
    value = env.text(name, development if LOCAL else "")
    if not value:
        env.add_error(
            f"{name} is not set. Development values hold only while everything is local: set "
            f"{name}{hint}, or LOCAL=1 on a development machine."
        )
    return value


# Environment

DEBUG = env.flag("DEBUG", False)
LOCAL = env.flag(
    "LOCAL", not env.text("DATABASE_URL") and env.text("MANAGEMENT_ENV") != "production"
)
if DEBUG and not LOCAL:
    env.add_error("DEBUG shows settings and rows on error pages: it needs LOCAL=1.")
HTTPS_ONLY = env.flag("HTTPS_ONLY", not LOCAL)
PORT = env.number("PORT", 8000, 1, 65535)
SANDBOX_PORT = env.number("SANDBOX_PORT", 8100, 1, 65535)

SECRET_KEY = configured("SECRET_KEY", "development-only-" * 4, " to 50 random characters or more")
if SECRET_KEY and len(SECRET_KEY) < 50:
    env.add_error("SECRET_KEY is too short: it must have 50 characters or more.")
SECRET_KEY_FALLBACKS = env.word_list("SECRET_KEY_FALLBACKS")
# Keys of encrypted columns and files (`core/encryption`): the first encrypts, all decrypt.
FIELD_KEYS = env.field_keys(
    configured("FIELD_KEYS", "1:ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw=")
)
AUDIT_KEYS = env.audit_keys("AUDIT_KEY")
AUDIT_KEEP_YEARS = env.number("AUDIT_KEEP_YEARS", 6, 0, 100)
AUDIT_HOLD = env.flag("AUDIT_HOLD", False)
# Gets a line after each seal, preferably on append-only storage (`audit/chain_head.py`).
AUDIT_HEAD_FILE = env.writable_file("AUDIT_HEAD_FILE")
ALLOWED_HOSTS = env.word_list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]" if LOCAL else "")
if not ALLOWED_HOSTS:
    env.add_error(
        "ALLOWED_HOSTS is not set. Name the hosts this back office is reached by, comma separated."
    )
if "*" in ALLOWED_HOSTS:
    env.add_error("ALLOWED_HOSTS must name hosts: * accepts every host.")

# Operations

VERSION = env.text("VERSION", "unreleased")
# Tokens to read `/health/status` without an account, and `/metrics`.
HEALTH_TOKEN = env.bearer_token("HEALTH_TOKEN")
METRICS_TOKEN = env.bearer_token("METRICS_TOKEN")
# While this file exists, `/health/ready` answers 503, so that load balancers send no requests.
DRAIN_FILE = Path(env.text("DRAIN_FILE", str(BASE_DIR / "var" / "draining")))

# The service

SERVICE_BASE_URL = env.url(
    "SERVICE_BASE_URL", f"http://127.0.0.1:{SANDBOX_PORT}", ("https", "http")
)
SERVICE_API_KEY = configured("SERVICE_API_KEY", "sk_us_local_sandbox", " to your team key")
SERVICE_API_KEY_HEADER = env.header_name("SERVICE_API_KEY_HEADER", "x-service-api-key")
SERVICE_ORDER_CREATE_PATH = env.text("SERVICE_ORDER_CREATE_PATH", "/v3/order/create")
if not SERVICE_ORDER_CREATE_PATH.startswith("/"):
    env.add_error("SERVICE_ORDER_CREATE_PATH must start with /.")
# Labs whose bookings at service centers only the patient can change (appointments.md 7).
SELF_SERVICE_LABS = frozenset(env.word_list("SELF_SERVICE_LABS", "lab-coast" if LOCAL else ""))
# Methods of orders whose draws staff book; with other methods the patient walks in.
BOOKED_METHODS = env.word_list("BOOKED_METHODS", "at_home_phlebotomy")
# Whether bookings at service centers accept an idempotency key (a closed beta of the service).
PSC_IDEMPOTENCY = env.flag("PSC_IDEMPOTENCY", LOCAL)
# Field of the cancel call for the reason INCORRECT_LAB (wrong lab); none is documented.
SERVICE_CANCEL_REASON_FIELD = env.text("SERVICE_CANCEL_REASON_FIELD")
# Field of a new order for the update reason INCORRECT_LAB. The specification names only the reason.
# Set it to an empty value when the service accepts no such field.
SERVICE_ORDER_REASON_FIELD = env.field_name("SERVICE_ORDER_REASON_FIELD", "update_reason")
MANAGEMENT_BASE_URL = env.url("MANAGEMENT_BASE_URL", SERVICE_BASE_URL, ("https", "http"))
MANAGEMENT_KEY = ""
if os.environ.get("MANAGEMENT_KEY") != "":  # Empty: no management interface.
    MANAGEMENT_KEY = configured(
        "MANAGEMENT_KEY", "mg_local_sandbox", ", to nothing if you have none"
    )
MANAGEMENT_KEY_HEADER = env.header_name("MANAGEMENT_KEY_HEADER", "X-Management-Key")
MANAGEMENT_ORG_ID = ""
if MANAGEMENT_KEY:
    MANAGEMENT_ORG_ID = configured("MANAGEMENT_ORG_ID", "0d4f7c1e-0000-4000-8000-00000000c11c")
MANAGEMENT_ENV = env.choice("MANAGEMENT_ENV", "sandbox", ("sandbox", "production"))
MANAGEMENT_REGION = env.choice("MANAGEMENT_REGION", "us", ("us", "eu"))
env.check_service_key(SERVICE_API_KEY, MANAGEMENT_ENV, MANAGEMENT_REGION)
if MANAGEMENT_ENV == "production":
    env.check_https("SERVICE_BASE_URL", SERVICE_BASE_URL)
    env.check_https("MANAGEMENT_BASE_URL", MANAGEMENT_BASE_URL)
    if not env.text("SERVICE_BASE_URL"):
        env.add_error("SERVICE_BASE_URL is not set: production has no default for it.")

WEBHOOK_SECRETS = env.webhook_secrets(
    configured("WEBHOOK_SECRETS", "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA==")
)
WEBHOOK_HEADER_PREFIXES = env.word_list("WEBHOOK_HEADER_PREFIXES", "webhook,svix")
# Days to store the body of a finished event; its row is never deleted. 0 stores bodies forever.
EVENT_BODY_DAYS = env.number("EVENT_BODY_DAYS", 90, 0, 36_500)
# For how long one request replays events. The rest is left to the next request.
EVENT_REPLAY_SECONDS = env.number("EVENT_REPLAY_SECONDS", 10, 0, 3_600)
WEBHOOK_MAX_BYTES = env.number("WEBHOOK_MAX_BYTES", 5 * 1024 * 1024, 1, 64 * 1024 * 1024)
REPORT_MAX_BYTES = env.number("REPORT_MAX_BYTES", 10 * 1024 * 1024, 1, 1024 * 1024 * 1024)
REPORT_FOLDER = Path(env.text("REPORT_FOLDER", str(BASE_DIR / "var" / "reports")))

# Servers

DATABASE_URL = env.url(
    "DATABASE_URL", embedded.default_database_url(), ("postgres", "postgresql", "psql")
)
REDIS_URL = env.url("REDIS_URL", embedded.default_redis_url(), ("redis", "rediss", "unix"))
# Longest statement of a page in seconds (`statement_limits.py`); 0 sets no limit.
PAGE_STATEMENT_SECONDS = env.number("PAGE_STATEMENT_SECONDS", 15, 0, 3_600)
DATABASES = {"default": database_settings(DATABASE_URL)}
DATABASES["hooks"] = delivery_database_settings(DATABASES["default"])
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "bo",
        "OPTIONS": {"socket_timeout": 0.3, "socket_connect_timeout": 0.3},
    }
}
CELERY_BROKER_URL = REDIS_URL
if REDIS_URL.startswith("unix://"):
    CELERY_BROKER_URL = "redis+socket" + REDIS_URL.removeprefix("unix").replace(
        "?db=", "?virtual_host="
    )

# Email to staff: a notice with a link, without details

EMAIL_URL = env.url("EMAIL_URL", "", ("smtp", "smtp+tls", "smtps"))
if EMAIL_URL:
    EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = env.email_server(EMAIL_URL)
    EMAIL_USE_TLS = EMAIL_URL.lower().startswith("smtp+tls:")
    EMAIL_USE_SSL = EMAIL_URL.lower().startswith("smtps:")
EMAIL_TIMEOUT = 10  # seconds
EMAIL_FROM = env.text("EMAIL_FROM", "backoffice@localhost" if LOCAL else "")
SITE_URL = env.url("SITE_URL", f"http://127.0.0.1:{PORT}", ("https", "http")).rstrip("/")
if EMAIL_URL and not (LOCAL or (EMAIL_FROM and env.text("SITE_URL"))):
    env.add_error("EMAIL_URL needs EMAIL_FROM and SITE_URL: links lead there.")

# Intervals of the sync (see `celery.py`)

SYNC_ORDERS_SECONDS = env.number("SYNC_ORDERS_SECONDS", 30, 1, 86_400)
SYNC_SWEEP_HOURS = env.number("SYNC_SWEEP_HOURS", 24, 1, 24 * 31)
SYNC_UNMATCHED_SECONDS = env.number("SYNC_UNMATCHED_SECONDS", 60, 1, 86_400)
SYNC_USERS_MINUTES = env.number("SYNC_USERS_MINUTES", 60, 1, 24 * 60)
SYNC_PULLS_MINUTES = env.number("SYNC_PULLS_MINUTES", 15, 1, 24 * 60)
SYNC_CATALOGUE_HOURS = env.number("SYNC_CATALOGUE_HOURS", 24, 1, 24 * 31)
SYNC_PROFILE_HOURS = env.number("SYNC_PROFILE_HOURS", 24, 1, 24 * 31)
# A lease is longer than the longest call (20 s), so that only runs of dead workers are taken over.
SYNC_LEASE_SECONDS = env.number("SYNC_LEASE_SECONDS", 25, 1, 3_600)
# No request of a command is sent later than the send time after its delivery began, even when its
# worker was suspended in between. The lease is longer than the send time. The settle time also
# counts from the beginning: after it, a slow request has reached the service or never will.
OUTBOX_SEND_SECONDS = env.number("OUTBOX_SEND_SECONDS", 30, 1, 3_600)
OUTBOX_LEASE_SECONDS = env.number("OUTBOX_LEASE_SECONDS", 60, 1, 3_600)
OUTBOX_SETTLE_SECONDS = env.number("OUTBOX_SETTLE_SECONDS", 120, 0, 3_600)
SYNC_OVERLAP_SECONDS = env.number("SYNC_OVERLAP_SECONDS", 900, 0, 86_400)
# Whole months of samples to store before the current one; 0 stores them forever.
SAMPLES_KEEP_MONTHS = env.number("SAMPLES_KEEP_MONTHS", 0, 0, 1_200)
# Providers that send local time marked as UTC (wearables.md 4); it is shown as sent.
FLOATING_TIME_PROVIDERS = frozenset(env.word_list("FLOATING_TIME_PROVIDERS"))
# Resources whose `type` is part of a sample's key (differences.md 52). Without it, a sample would
# replace one of another type with the same time.
SAMPLES_KEYED_BY_TYPE = frozenset(
    env.word_list(
        "SAMPLES_KEYED_BY_TYPE",
        "cholesterol,electrocardiogram_voltage,heart_rate_alert,ige,igg,insulin_injection,"
        "sleep_breathing_disturbance,stand_hour",
    )
)

# LOCAL and production values exclude each other

if LOCAL:
    for _sign in env.production_signs(
        MANAGEMENT_ENV, SERVICE_API_KEY, DATABASE_URL, REDIS_URL, ALLOWED_HOSTS
    ):
        env.add_error(
            f"LOCAL is 1 (a development machine, with published secrets), but {_sign}. Set LOCAL=0,"
            " DATABASE_URL and keys of your own, or take that away."
        )
else:
    env.check_strength("SECRET_KEY", [SECRET_KEY], 50)
    env.check_strength("SECRET_KEY_FALLBACKS", SECRET_KEY_FALLBACKS)
    env.check_strength("AUDIT_KEY", AUDIT_KEYS, 32)
    env.check_strength("HEALTH_TOKEN", [HEALTH_TOKEN], 20)
    env.check_strength("METRICS_TOKEN", [METRICS_TOKEN], 20)
    env.check_not_published("SERVICE_API_KEY", [SERVICE_API_KEY])
    env.check_not_published("MANAGEMENT_KEY", [MANAGEMENT_KEY])
    env.check_not_published("WEBHOOK_SECRETS", WEBHOOK_SECRETS)
    env.check_field_key_strength(FIELD_KEYS)

# Django

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "django_htmx",
    "heroicons",
    "csp",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "backoffice",
    "backoffice.core",
    "backoffice.accounts",
    "backoffice.audit",
    "backoffice.mirror",
    "backoffice.sync",
    "backoffice.outbox",
    "backoffice.team",
    "backoffice.pages",
    "backoffice.api",
    "patients",
    "patients.wearables",
    "labs",
    "orders",
    "webhooks",
]
MIDDLEWARE = [
    "backoffice.pages.headers.strict",
    "backoffice.core.request_ids.assign_request_id",
    "backoffice.core.duration_metrics.measure_requests",
    "backoffice.core.request_ids.reject_unknown_methods",
    "backoffice.core.request_ids.accept_any_host_for_monitoring",
    "backoffice.core.request_ids.require_https_for_api",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "backoffice.pages.headers.Policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "backoffice.accounts.middleware.StaffMiddleware",
    "backoffice.pages.post_only.explain_post_only",
]
ROOT_URLCONF = "backoffice.urls"
WSGI_APPLICATION = "backoffice.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["backoffice.accounts.backend.StaffBackend"]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.jinja2.Jinja2",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "environment": "backoffice.jinja.environment",
            "context_processors": ["django.contrib.messages.context_processors.messages"],
            "trim_blocks": True,
            "lstrip_blocks": True,
            "undefined": jinja2.ChainableUndefined,
        },
    },
    # Templates of packages: Django's own, DRF, allauth.
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
USE_TZ = True
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("es", "Español")]
LOCALE_PATHS = [BASE_DIR / "backoffice" / "locale"]
USE_I18N = True

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "var" / "static"  # Filled by collectstatic and ./run up.
STATICFILES_FINDERS = ["backoffice.pages.static_files.UsedFiles"]
WHITENOISE_USE_FINDERS = LOCAL
_statics = "django.contrib.staticfiles.storage.StaticFilesStorage"
if not WHITENOISE_USE_FINDERS:
    _statics = "whitenoise.storage.CompressedManifestStaticFilesStorage"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": _statics},
}
MEDIA_ROOT = BASE_DIR / "var" / "files"

DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 500
DATA_UPLOAD_MAX_NUMBER_FILES = 8
FILE_UPLOAD_PERMISSIONS = 0o600

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
}
# A script that waits for each answer never reaches a hundred requests a second.
API_RATE = env.rate("API_RATE", "6000/min")
API_FAILED_RATE = env.rate("API_FAILED_RATE", "600/min")
SPECTACULAR_SETTINGS = {
    "TITLE": "Back office",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/",
    "DESCRIPTION": "Reads what the back office holds. A list answers a page and the cursor of the "
    "next one; a token shows what the roles of its account and its scopes both allow.",
    "SERVE_INCLUDE_SCHEMA": False,
}

# Sign-in and sessions

PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
_validation = "django.contrib.auth.password_validation."
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": _validation + "MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": _validation + "CommonPasswordValidator"},
    {"NAME": _validation + "UserAttributeSimilarityValidator"},
    {"NAME": "backoffice.accounts.password_rules.SiteWordValidator"},
    {"NAME": "backoffice.accounts.password_rules.BreachedPasswordValidator"},
]
# Words that no password may contain, in addition to the names of the product and its hosts.
PASSWORD_WORDS = env.word_list("PASSWORD_WORDS")
# A file of sorted lines that begin with the SHA-1 of a breached password, the usual format of such
# lists.
PASSWORD_BREACHED_FILE = env.hash_list_file("PASSWORD_BREACHED_FILE")
PASSWORD_RESET_TIMEOUT = 1800
# Roles that require a second factor: their names, `all`, or `none`.
SECOND_FACTOR_ROLES = frozenset(
    env.word_list("SECOND_FACTOR_ROLES", "none" if LOCAL else "all")
) - {"none"}
SESSION_ENGINE = "backoffice.accounts.session_store"
SESSION_COOKIE_NAME = "__Host-bo" if HTTPS_ONLY else "bo"
SESSION_COOKIE_SECURE = HTTPS_ONLY
SESSION_COOKIE_HTTPONLY = True
# With "Strict", a link in an email would lead to the sign-in page, because the browser would not
# send the session cookie, and that page would end the existing session. Every change needs the CSRF
# token of a form.
SESSION_COOKIE_SAMESITE = "Lax"
# The longest duration of a session, and of a session without activity, in seconds.
SESSION_COOKIE_AGE = env.number("SESSION_SECONDS", (8 if LOCAL else 12) * 3600, 60, 7 * 86_400)
SESSION_IDLE_SECONDS = env.number(
    "SESSION_IDLE_SECONDS", 8 * 3600 if LOCAL else 900, 10, 7 * 86_400
)
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
THEME_COOKIE_NAME = "__Host-theme" if HTTPS_ONLY else "theme"
MESSAGES_COOKIE_NAME = "__Host-messages" if HTTPS_ONLY else "messages"
MESSAGE_STORAGE = "backoffice.pages.messages.Storage"
CSRF_USE_SESSIONS = True
CSRF_FAILURE_VIEW = "backoffice.accounts.views.sign_in.form_expired"
CSRF_COOKIE_SECURE = HTTPS_ONLY
CSRF_TRUSTED_ORIGINS = env.word_list("CSRF_TRUSTED_ORIGINS")
SECURE_SSL_REDIRECT = HTTPS_ONLY
# The sender of webhooks counts a redirect as a failure. Health and metrics are requested inside the
# network.
SECURE_REDIRECT_EXEMPT = [r"^health/", r"^metrics$", r"^webhooks/"]
SECURE_HSTS_SECONDS = 63_072_000 if HTTPS_ONLY else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS_ONLY
SECURE_HSTS_PRELOAD = HTTPS_ONLY
BEHIND_PROXY = env.flag("BEHIND_PROXY", False)
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "object-src": [NONE],
    }
}

# django-allauth: sign-in in steps, second factors, single sign-on. `accounts/throttle.py` limits
# failed attempts and does not need Redis.

ACCOUNT_ADAPTER = "backoffice.accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = False
ACCOUNT_RATE_LIMITS = False
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if HTTPS_ONLY else "http"
MFA_ADAPTER = "backoffice.accounts.second_factor.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # Administrators set the addresses.
MFA_TOTP_ISSUER = "Back office"
MFA_TOTP_TOLERANCE = 1
MFA_RATE_LIMITS = False
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = LOCAL

# Single sign-on with OpenID Connect. The provider must allow this redirect URL:
# https://<this host>/accounts/oidc/login/callback/

OIDC_SERVER_URL = env.url("OIDC_SERVER_URL", "", ("https", "http")).rstrip("/")
if OIDC_SERVER_URL and not LOCAL and not OIDC_SERVER_URL.startswith("https://"):
    env.add_error("OIDC_SERVER_URL must start with https://")
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.text("OIDC_CLIENT_SECRET")
OIDC_NAME = env.text("OIDC_NAME", "single sign-on")
OIDC_ROLES_CLAIM = env.text("OIDC_ROLES_CLAIM")
OIDC_CREATE = env.flag("OIDC_CREATE", False)
# Whether the provider itself requires a second factor.
OIDC_SECOND_FACTOR = env.flag("OIDC_SECOND_FACTOR", False)
if OIDC_SERVER_URL and not (OIDC_CLIENT_ID and OIDC_CLIENT_SECRET):
    env.add_error("OIDC_SERVER_URL needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.")
SOCIALACCOUNT_ADAPTER = "backoffice.accounts.single_sign_on.SocialAccountAdapter"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": OIDC_NAME,
                "client_id": OIDC_CLIENT_ID,
                "secret": OIDC_CLIENT_SECRET,
                "settings": {"server_url": OIDC_SERVER_URL},
            }
        ],
    }
}

# Logs: JSON, no query strings, no exception text (see `logs.py`)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "backoffice.core.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.server": {"handlers": [], "level": "WARNING", "propagate": True},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))

env.raise_errors()
