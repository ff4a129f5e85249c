"""Django settings, read from the environment; all errors are reported together at startup.

The table "Configuration" of the README lists the names. `LOCAL` means a development machine:
made-up people, loopback, plain HTTP. It is on when no `DATABASE_URL` is configured, and the
launcher sets it for the demo and for tests. Development values replace missing keys and secrets
only when `LOCAL` is on.
"""

from __future__ import annotations

import os
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import environ
from csp.constants import NONE, SELF

from backoffice.core.environment import (
    add_error,
    choice,
    clear_errors,
    field_keys,
    flag,
    hash_list_file,
    header_name,
    number,
    production_signs,
    raise_errors,
    rate,
    split_list,
    text,
    url,
    word_list,
    writable_file,
)
from backoffice.core.key_strength import PUBLISHED, weakness, weakness_of_bytes
from backoffice.devtools import embedded

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
clear_errors()


def configured(name: str, development: str, hint: str = "") -> str:
    """Return a required value; its published default applies only when `LOCAL` is on."""
    value = text(name, development if LOCAL else "")
    if not value:
        add_error(
            f"{name} is not set. Development values hold only while everything is local: set "
            f"{name}{hint}, or LOCAL=1 on a development machine."
        )
    return value


# Environment

DEBUG = flag("DEBUG", False)
LOCAL = flag("LOCAL", not text("DATABASE_URL") and text("MANAGEMENT_ENV") != "production")
if DEBUG and not LOCAL:
    add_error("DEBUG shows settings and rows on error pages: it needs LOCAL=1.")
HTTPS_ONLY = flag("HTTPS_ONLY", not LOCAL)
PORT = number("PORT", 8000, 1, 65535)
SANDBOX_PORT = number("SANDBOX_PORT", 8100, 1, 65535)

SECRET_KEY = configured("SECRET_KEY", "development-only-" * 4, " to 50 random characters or more")
if SECRET_KEY and len(SECRET_KEY) < 50:
    add_error("SECRET_KEY is too short: it must have 50 characters or more.")
SECRET_KEY_FALLBACKS = word_list("SECRET_KEY_FALLBACKS")
# Keys of encrypted columns and files (`core/encryption`): the first encrypts, all decrypt.
FIELD_KEYS = field_keys(configured("FIELD_KEYS", "1:ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw="))
AUDIT_KEYS = word_list("AUDIT_KEY")
if any(len(key) < 32 for key in AUDIT_KEYS):
    add_error("AUDIT_KEY is too short: each key must have 32 characters or more.")
AUDIT_KEEP_YEARS = number("AUDIT_KEEP_YEARS", 6, 0, 100)
AUDIT_HOLD = flag("AUDIT_HOLD", False)
# Gets a line after each seal, preferably on append-only storage (`audit/chain_head.py`).
AUDIT_HEAD_FILE = writable_file("AUDIT_HEAD_FILE")
ALLOWED_HOSTS = word_list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]" if LOCAL else "")
if not ALLOWED_HOSTS:
    add_error(
        "ALLOWED_HOSTS is not set. Name the hosts this back office is reached by, comma separated."
    )
if "*" in ALLOWED_HOSTS:
    add_error("ALLOWED_HOSTS must name hosts: * accepts every host.")

# Operations

VERSION = text("VERSION", "unreleased")
# Tokens to read `/health/status` without an account, and `/metrics`.
HEALTH_TOKEN = text("HEALTH_TOKEN")
METRICS_TOKEN = text("METRICS_TOKEN")
for _name, _token in (("HEALTH_TOKEN", HEALTH_TOKEN), ("METRICS_TOKEN", METRICS_TOKEN)):
    if _token and (len(_token) < 20 or not _token.isascii()):
        add_error(f"{_name} must have 20 letters and digits or more, or none.")
# While this file exists, `/health/ready` answers 503, so that load balancers send no requests.
DRAIN_FILE = Path(text("DRAIN_FILE", str(BASE_DIR / "var" / "draining")))

# The service

SERVICE_BASE_URL = url("SERVICE_BASE_URL", f"http://127.0.0.1:{SANDBOX_PORT}", ("https", "http"))
SERVICE_API_KEY = configured("SERVICE_API_KEY", "sk_us_local_sandbox", " to your team key")
SERVICE_API_KEY_HEADER = header_name("SERVICE_API_KEY_HEADER", "x-service-api-key")
SERVICE_ORDER_CREATE_PATH = text("SERVICE_ORDER_CREATE_PATH", "/v3/order/create")
if not SERVICE_ORDER_CREATE_PATH.startswith("/"):
    add_error("SERVICE_ORDER_CREATE_PATH must start with /.")
# Labs whose bookings at service centers only the patient can change (appointments.md 7).
SELF_SERVICE_LABS = frozenset(word_list("SELF_SERVICE_LABS", "lab-coast" if LOCAL else ""))
# Methods of orders whose draws staff book; with other methods the patient walks in.
BOOKED_METHODS = word_list("BOOKED_METHODS", "at_home_phlebotomy")
# Whether bookings at service centers accept an idempotency key (a closed beta of the service).
PSC_IDEMPOTENCY = flag("PSC_IDEMPOTENCY", LOCAL)
# Field of the cancel call for the reason INCORRECT_LAB (wrong lab); none is documented.
SERVICE_CANCEL_REASON_FIELD = text("SERVICE_CANCEL_REASON_FIELD")
# Field of a new order for the update reason INCORRECT_LAB. The specification names only the reason.
# Set it to an empty value when the service accepts no such field.
SERVICE_ORDER_REASON_FIELD = ""
if os.environ.get("SERVICE_ORDER_REASON_FIELD") != "":
    SERVICE_ORDER_REASON_FIELD = text("SERVICE_ORDER_REASON_FIELD", "update_reason")
    if not SERVICE_ORDER_REASON_FIELD.isascii() or not SERVICE_ORDER_REASON_FIELD.isidentifier():
        add_error("SERVICE_ORDER_REASON_FIELD must be the name of a field, such as update_reason.")
MANAGEMENT_BASE_URL = url("MANAGEMENT_BASE_URL", SERVICE_BASE_URL, ("https", "http"))
MANAGEMENT_KEY = ""
if os.environ.get("MANAGEMENT_KEY") != "":  # Empty: no management interface.
    MANAGEMENT_KEY = configured(
        "MANAGEMENT_KEY", "mg_local_sandbox", ", to nothing if you have none"
    )
MANAGEMENT_KEY_HEADER = header_name("MANAGEMENT_KEY_HEADER", "X-Management-Key")
MANAGEMENT_ORG_ID = ""
if MANAGEMENT_KEY:
    MANAGEMENT_ORG_ID = configured("MANAGEMENT_ORG_ID", "0d4f7c1e-0000-4000-8000-00000000c11c")
MANAGEMENT_ENV = choice("MANAGEMENT_ENV", "sandbox", ("sandbox", "production"))
MANAGEMENT_REGION = choice("MANAGEMENT_REGION", "us", ("us", "eu"))
_key_fits = "pk_" if MANAGEMENT_ENV == "production" else "sk_"
if SERVICE_API_KEY and not SERVICE_API_KEY.startswith(("pk_", "sk_")):
    add_error("SERVICE_API_KEY must start with pk_ (production) or sk_ (sandbox).")
elif SERVICE_API_KEY and not SERVICE_API_KEY.startswith(_key_fits):
    add_error(
        f"SERVICE_API_KEY and MANAGEMENT_ENV disagree: a key of {MANAGEMENT_ENV} starts with "
        f"{_key_fits}."
    )
if SERVICE_API_KEY[3:5] in ("us", "eu") and SERVICE_API_KEY[3:5] != MANAGEMENT_REGION:
    add_error("SERVICE_API_KEY and MANAGEMENT_REGION disagree: the key names another region.")
for _name, _url in (
    ("SERVICE_BASE_URL", SERVICE_BASE_URL),
    ("MANAGEMENT_BASE_URL", MANAGEMENT_BASE_URL),
):
    if MANAGEMENT_ENV == "production" and not _url.startswith("https://"):
        add_error(f"{_name} must start with https:// in production.")

_secrets = configured("WEBHOOK_SECRETS", "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA==")
WEBHOOK_SECRETS = split_list(_secrets)
for _secret in WEBHOOK_SECRETS or ([""] if _secrets else []):
    try:
        _key = b64decode(_secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        _key = b""
    if not _secret.startswith("whsec_") or len(_key) < 16:
        add_error(
            "WEBHOOK_SECRETS must be secrets starting with whsec_, then 16 bytes or more in base64."
        )
WEBHOOK_HEADER_PREFIXES = word_list("WEBHOOK_HEADER_PREFIXES", "webhook,svix")
# Days to store the body of a finished event; its row is never deleted. 0 stores bodies forever.
EVENT_BODY_DAYS = number("EVENT_BODY_DAYS", 90, 0, 36_500)
# For how long one request replays events. The rest is left to the next request.
EVENT_REPLAY_SECONDS = number("EVENT_REPLAY_SECONDS", 10, 0, 3_600)
WEBHOOK_MAX_BYTES = number("WEBHOOK_MAX_BYTES", 5 * 1024 * 1024, 1, 64 * 1024 * 1024)
REPORT_MAX_BYTES = number("REPORT_MAX_BYTES", 10 * 1024 * 1024, 1, 1024 * 1024 * 1024)
REPORT_FOLDER = Path(text("REPORT_FOLDER", str(BASE_DIR / "var" / "reports")))
if MANAGEMENT_ENV == "production" and not text("SERVICE_BASE_URL"):
    add_error("SERVICE_BASE_URL is not set: production has no default for it.")

# Servers

DATABASE_URL = url(
    "DATABASE_URL", embedded.default_database_url(), ("postgres", "postgresql", "psql")
)
REDIS_URL = url("REDIS_URL", embedded.default_redis_url(), ("redis", "rediss", "unix"))


def _database(url: str) -> dict[str, Any]:
    database: dict[str, Any] = dict(env.db_url_config(url))
    if not database.get("NAME"):
        add_error("DATABASE_URL must name a database.")
    options: dict[str, Any] = database.setdefault("OPTIONS", {})
    # `?host=/folder` names a socket. Django's own tools read it from HOST.
    database["HOST"] = options.pop("host", database.get("HOST", ""))
    database["PORT"] = str(options.pop("port", database.get("PORT", "")) or "")
    options.setdefault("connect_timeout", 3)
    options.setdefault("application_name", "backoffice")
    if not str(database["HOST"]).startswith("/"):
        options.setdefault("keepalives_idle", 30)
        options.setdefault("keepalives_interval", 10)
        options.setdefault("keepalives_count", 3)
    return {
        **database,
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "SESSION_SETTINGS": {  # `core/connection_settings.py`
            # A parallel worker takes longer to start than a statement of a page takes.
            "max_parallel_workers_per_gather": "0",
            # A worker that is suspended inside a transaction must not hold its locks forever.
            "idle_in_transaction_session_timeout": "120s",
        },
    }


def _delivery_database(database: dict[str, Any]) -> dict[str, Any]:
    """Return the database settings for deliveries, which must be answered within 3 seconds."""
    limits = {"statement_timeout": "3s", "lock_timeout": "200ms", "synchronous_commit": "on"}
    # The webhook code prepares its statements explicitly, with separate values. Automatic
    # preparation of frequent statements is therefore off.
    options = {**database["OPTIONS"], "connect_timeout": 2, "prepare_threshold": sys.maxsize}
    return {
        **database,
        "SESSION_SETTINGS": {**database["SESSION_SETTINGS"], **limits},
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": options,
        "TEST": {"MIRROR": "default"},
    }


# Longest statement of a page in seconds (`statement_limits.py`); 0 sets no limit.
PAGE_STATEMENT_SECONDS = number("PAGE_STATEMENT_SECONDS", 15, 0, 3_600)
DATABASES = {"default": _database(DATABASE_URL)}
DATABASES["hooks"] = _delivery_database(DATABASES["default"])
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

# E-mail to staff: a notice with a link, without details

EMAIL_URL = ""
if text("EMAIL_URL"):
    EMAIL_URL = url("EMAIL_URL", "", ("smtp", "smtp+tls", "smtps"))
if EMAIL_URL:
    _mail = env.email_url_config(EMAIL_URL)
    _ports = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
    EMAIL_HOST = _mail["EMAIL_HOST"]
    EMAIL_PORT = _mail["EMAIL_PORT"] or _ports[urlsplit(EMAIL_URL).scheme]
    EMAIL_HOST_USER = _mail["EMAIL_HOST_USER"] or ""
    EMAIL_HOST_PASSWORD = _mail["EMAIL_HOST_PASSWORD"] or ""
    EMAIL_USE_TLS = urlsplit(EMAIL_URL).scheme == "smtp+tls"
    EMAIL_USE_SSL = urlsplit(EMAIL_URL).scheme == "smtps"
EMAIL_TIMEOUT = 10  # seconds
EMAIL_FROM = text("EMAIL_FROM", "backoffice@localhost" if LOCAL else "")
SITE_URL = url("SITE_URL", f"http://127.0.0.1:{PORT}", ("https", "http")).rstrip("/")
if EMAIL_URL and not (LOCAL or (EMAIL_FROM and text("SITE_URL"))):
    add_error("EMAIL_URL needs EMAIL_FROM and SITE_URL: links lead there.")

# Intervals of the sync (see `celery.py`)

SYNC_ORDERS_SECONDS = number("SYNC_ORDERS_SECONDS", 30, 1, 86_400)
SYNC_SWEEP_HOURS = number("SYNC_SWEEP_HOURS", 24, 1, 24 * 31)
SYNC_UNMATCHED_SECONDS = number("SYNC_UNMATCHED_SECONDS", 60, 1, 86_400)
SYNC_USERS_MINUTES = number("SYNC_USERS_MINUTES", 60, 1, 24 * 60)
SYNC_PULLS_MINUTES = number("SYNC_PULLS_MINUTES", 15, 1, 24 * 60)
SYNC_CATALOGUE_HOURS = number("SYNC_CATALOGUE_HOURS", 24, 1, 24 * 31)
SYNC_PROFILE_HOURS = number("SYNC_PROFILE_HOURS", 24, 1, 24 * 31)
# A lease is longer than the longest call (20 s), so that only runs of dead workers are taken over.
SYNC_LEASE_SECONDS = number("SYNC_LEASE_SECONDS", 25, 1, 3_600)
# No request of a command is sent later than the send time after its delivery began, even when its
# worker was suspended in between. The lease is longer than the send time. The settle time also
# counts from the beginning: after it, a slow request has reached the service or never will.
OUTBOX_SEND_SECONDS = number("OUTBOX_SEND_SECONDS", 30, 1, 3_600)
OUTBOX_LEASE_SECONDS = number("OUTBOX_LEASE_SECONDS", 60, 1, 3_600)
OUTBOX_SETTLE_SECONDS = number("OUTBOX_SETTLE_SECONDS", 120, 0, 3_600)
SYNC_OVERLAP_SECONDS = number("SYNC_OVERLAP_SECONDS", 900, 0, 86_400)
# Whole months of samples to store before the current one; 0 stores them forever.
SAMPLES_KEEP_MONTHS = number("SAMPLES_KEEP_MONTHS", 0, 0, 1_200)
# Providers that send local time marked as UTC (wearables.md 4); it is shown as sent.
FLOATING_TIME_PROVIDERS = frozenset(word_list("FLOATING_TIME_PROVIDERS"))
# Resources whose `type` is part of a sample's key (differences.md 52). Without it, a sample would
# replace one of another type with the same time.
SAMPLES_KEYED_BY_TYPE = frozenset(
    word_list(
        "SAMPLES_KEYED_BY_TYPE",
        "cholesterol,electrocardiogram_voltage,heart_rate_alert,ige,igg,insulin_injection,"
        "sleep_breathing_disturbance,stand_hour",
    )
)

# LOCAL and production values exclude each other

if LOCAL:
    for _sign in production_signs(
        MANAGEMENT_ENV, SERVICE_API_KEY, DATABASE_URL, REDIS_URL, ALLOWED_HOSTS
    ):
        add_error(
            f"LOCAL is 1 (a development machine, with published secrets), but {_sign}. Set LOCAL=0,"
            " DATABASE_URL and keys of your own, or take that away."
        )
else:
    for _name, _shortest, _keys in (
        ("SECRET_KEY", 50, [SECRET_KEY]),
        ("SECRET_KEY_FALLBACKS", 0, SECRET_KEY_FALLBACKS),
        ("AUDIT_KEY", 32, AUDIT_KEYS),
        ("HEALTH_TOKEN", 20, [HEALTH_TOKEN]),
        ("METRICS_TOKEN", 20, [METRICS_TOKEN]),
    ):
        # Shorter keys have already been rejected.
        for _why in {weakness(_key) for _key in _keys if len(_key) >= _shortest} - {None}:
            add_error(f"{_name} is too weak: it {_why}. Make it with a random generator.")
    for _name, _keys in (
        ("SERVICE_API_KEY", [SERVICE_API_KEY]),
        ("MANAGEMENT_KEY", [MANAGEMENT_KEY]),
        ("WEBHOOK_SECRETS", WEBHOOK_SECRETS),
    ):
        if PUBLISHED.intersection(_keys):
            add_error(f"{_name} is a published development value: set your own.")
    for _why in filter(None, map(weakness_of_bytes, FIELD_KEYS.values())):
        add_error(f"FIELD_KEYS are too weak: a key {_why}. Make it with a random generator.")

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
    "backoffice.pages.errors.forms_only",
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
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["backoffice.pages.templatetags.addresses"],
        },
    }
]
FORM_RENDERER = "backoffice.pages.form_controls.Controls"
USE_TZ = True
TIME_ZONE = text("TIME_ZONE", "UTC")
if TIME_ZONE not in available_timezones():
    add_error("TIME_ZONE must be the name of a time zone, such as UTC.")
LANGUAGE_CODE = "en-us"
USE_I18N = False

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
API_RATE = rate("API_RATE", "6000/min")
API_FAILED_RATE = rate("API_FAILED_RATE", "600/min")
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
PASSWORD_WORDS = word_list("PASSWORD_WORDS")
# A file of sorted lines that begin with the SHA-1 of a breached password, the usual format of such
# lists.
PASSWORD_BREACHED_FILE = hash_list_file("PASSWORD_BREACHED_FILE")
PASSWORD_RESET_TIMEOUT = 1800
# Roles that require a second factor: their names, `all`, or `none`.
SECOND_FACTOR_ROLES = frozenset(word_list("SECOND_FACTOR_ROLES", "none" if LOCAL else "all")) - {
    "none"
}
SESSION_ENGINE = "backoffice.accounts.session_store"
SESSION_COOKIE_NAME = "__Host-bo" if HTTPS_ONLY else "bo"
SESSION_COOKIE_SECURE = HTTPS_ONLY
SESSION_COOKIE_HTTPONLY = True
# With "Strict", a link in an e-mail would lead to the sign-in page, because the browser would not
# send the session cookie, and that page would end the existing session. Every change needs the CSRF
# token of a form.
SESSION_COOKIE_SAMESITE = "Lax"
# The longest duration of a session, and of a session without activity, in seconds.
SESSION_COOKIE_AGE = number("SESSION_SECONDS", (8 if LOCAL else 12) * 3600, 60, 7 * 86_400)
SESSION_IDLE_SECONDS = number("SESSION_IDLE_SECONDS", 8 * 3600 if LOCAL else 900, 10, 7 * 86_400)
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
THEME_COOKIE_NAME = "__Host-theme" if HTTPS_ONLY else "theme"
MESSAGES_COOKIE_NAME = "__Host-messages" if HTTPS_ONLY else "messages"
MESSAGE_STORAGE = "backoffice.pages.messages.Storage"
CSRF_USE_SESSIONS = True
CSRF_FAILURE_VIEW = "backoffice.accounts.views.sign_in.form_expired"
CSRF_COOKIE_SECURE = HTTPS_ONLY
CSRF_TRUSTED_ORIGINS = word_list("CSRF_TRUSTED_ORIGINS")
SECURE_SSL_REDIRECT = HTTPS_ONLY
# The sender of webhooks counts a redirect as a failure. Health and metrics are requested inside the
# network.
SECURE_REDIRECT_EXEMPT = [r"^health/", r"^metrics$", r"^webhooks/"]
SECURE_HSTS_SECONDS = 63_072_000 if HTTPS_ONLY else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS_ONLY
SECURE_HSTS_PRELOAD = HTTPS_ONLY
BEHIND_PROXY = flag("BEHIND_PROXY", False)
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

OIDC_SERVER_URL = ""
if text("OIDC_SERVER_URL"):
    OIDC_SERVER_URL = url("OIDC_SERVER_URL", "", ("https", "http")).rstrip("/")
    if OIDC_SERVER_URL and not LOCAL and not OIDC_SERVER_URL.startswith("https://"):
        add_error("OIDC_SERVER_URL must start with https://")
OIDC_CLIENT_ID = text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = text("OIDC_CLIENT_SECRET")
OIDC_NAME = text("OIDC_NAME", "single sign-on")
OIDC_ROLES_CLAIM = text("OIDC_ROLES_CLAIM")
OIDC_CREATE = flag("OIDC_CREATE", False)
# Whether the provider itself requires a second factor.
OIDC_SECOND_FACTOR = flag("OIDC_SECOND_FACTOR", False)
if OIDC_SERVER_URL and not (OIDC_CLIENT_ID and OIDC_CLIENT_SECRET):
    add_error("OIDC_SERVER_URL needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.")
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
    "root": {"handlers": ["stderr"], "level": text("LOG_LEVEL", "INFO")},
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
choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))

raise_errors()
