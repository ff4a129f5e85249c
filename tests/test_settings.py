"""Settings refuse invalid values at start and name the variable without its value."""

from __future__ import annotations

import re
import runpy
import secrets
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from backoffice.core.key_strength import weakness, weakness_of_bytes
from backoffice.devtools.checks import production_environment
from backoffice.devtools.environments import SERVICE_VARIABLES

SETTINGS = Path(__file__).resolve().parent.parent / "backoffice" / "settings.py"
OUR_VARIABLES = (
    *SERVICE_VARIABLES,
    *("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS", "DEBUG", "LOCAL", "HTTPS_ONLY"),
    "FIELD_KEYS",
    *("SECOND_FACTOR_ROLES", "SESSION_SECONDS", "SESSION_IDLE_SECONDS", "OIDC_SERVER_URL"),
    *("TIME_ZONE", "PORT", "SANDBOX_PORT", "REPORT_MAX_BYTES", "BEHIND_PROXY", "LOG_LEVEL"),
)


def read(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    """Return the settings of a process with exactly these of our variables."""
    for name in OUR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(SETTINGS))


def deployed(**changes: str) -> dict[str, str]:
    return {**production_environment(), **changes}


def test_empty_environment_is_a_development_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch)
    assert settings["LOCAL"] is True
    assert settings["DEBUG"] is False
    assert settings["SERVICE_BASE_URL"] == "http://127.0.0.1:8100"
    assert settings["SERVICE_API_KEY"] == "sk_us_local_sandbox"
    assert settings["WEBHOOK_HEADER_PREFIXES"] == ["webhook", "svix"]
    assert settings["SESSION_COOKIE_SECURE"] is False
    assert settings["SECOND_FACTOR_ROLES"] == frozenset()


def test_update_reason_has_a_field_unless_set_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "SERVICE_ORDER_REASON_FIELD"
    assert read(monkeypatch)[name] == "update_reason"
    for field in ("reason_of_update", ""):
        assert read(monkeypatch, **{name: field})[name] == field


def test_deployment_is_secure(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, **deployed())
    assert settings["LOCAL"] is False
    assert settings["SESSION_COOKIE_SECURE"] is True
    assert settings["CSRF_COOKIE_SECURE"] is True
    assert settings["SECURE_SSL_REDIRECT"] is True
    assert settings["SECURE_HSTS_SECONDS"] > 0
    names = {name: settings[f"{name}_COOKIE_NAME"] for name in ("SESSION", "THEME", "MESSAGES")}
    assert all(name.startswith("__Host-") for name in names.values()), names
    assert settings["SECOND_FACTOR_ROLES"] == {"all"}
    assert (settings["SESSION_COOKIE_AGE"], settings["SESSION_IDLE_SECONDS"]) == (12 * 3600, 900)


@pytest.mark.parametrize(
    "name",
    [
        "SECRET_KEY",
        "FIELD_KEYS",
        "ALLOWED_HOSTS",
        "SERVICE_API_KEY",
        "MANAGEMENT_ORG_ID",
        "WEBHOOK_SECRETS",
        "SERVICE_BASE_URL",
    ],
)
def test_production_requires_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match=name):
        read(monkeypatch, **deployed(**{name: ""}))


@pytest.mark.parametrize(
    ("server", "secret", "expected_text"),
    [
        ("http://login.invalid", "made-up", "OIDC_SERVER_URL must start with https"),
        ("login.invalid", "made-up", "OIDC_SERVER_URL"),
        ("https://login.invalid", "", "OIDC_CLIENT_SECRET"),
    ],
)
def test_incomplete_single_sign_on_is_refused(
    server: str, secret: str, expected_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"OIDC_SERVER_URL": server, "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": secret}
    with pytest.raises(ImproperlyConfigured, match=expected_text):
        read(monkeypatch, **deployed(**variables))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("none", set()), ("lab admin, clinician", {"lab admin", "clinician"}), ("", {"all"})],
)
def test_second_factor_roles_are_parsed(
    value: str, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        read(monkeypatch, **deployed(SECOND_FACTOR_ROLES=value))["SECOND_FACTOR_ROLES"] == expected
    )


REAL_VALUES = {
    "DATABASE_URL": "postgres://u@db.invalid/x",
    "SECRET_KEY": "Ym9yaW5n-made-up-but-not-weak-8f3Kq0ZpV7xWc1LtN5sRdEuGhJ",
    "FIELD_KEYS": "7:" + b64encode(bytes(n * n % 251 for n in range(32))).decode(),
    "ALLOWED_HOSTS": "a.example.com",
    "SERVICE_API_KEY": "sk_us_of_ours",
    "MANAGEMENT_KEY": "",
    "WEBHOOK_SECRETS": "whsec_b3Vycy1hbmQtbm9ib2R5LWVsc2Vz",
}


@pytest.mark.parametrize("more", [{}, {"HTTPS_ONLY": "0"}, {"MANAGEMENT_ENV": "sandbox"}])
@pytest.mark.parametrize(
    "name",
    [
        *("SECRET_KEY", "FIELD_KEYS", "ALLOWED_HOSTS", "SERVICE_API_KEY", "MANAGEMENT_KEY"),
        "WEBHOOK_SECRETS",
    ],
)
def test_real_database_refuses_development_values(
    name: str, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published key or secret must not guard real data, whatever else is switched on."""
    assert read(monkeypatch, **REAL_VALUES, **more)["LOCAL"] is False
    rest = {key: value for key, value in REAL_VALUES.items() if key != name}
    with pytest.raises(ImproperlyConfigured, match=f"{name} is not set"):
        read(monkeypatch, **rest, **more)


@pytest.mark.parametrize("rest", [{}, REAL_VALUES, "production"])
def test_empty_management_key_disables_management(
    rest: dict[str, str] | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = deployed() if isinstance(rest, str) else rest
    settings = read(monkeypatch, **{**variables, "MANAGEMENT_KEY": "", "MANAGEMENT_ORG_ID": ""})
    assert settings["MANAGEMENT_KEY"] == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "70000"),
        ("REPORT_MAX_BYTES", "-1"),
        ("DEBUG", "perhaps"),
        ("DEBUG", "1"),
        ("TIME_ZONE", "Mars/Olympus"),
        ("DATABASE_URL", "mysql://u@h/x"),
        ("DATABASE_URL", "postgres://u@h:port/x"),
        ("DATABASE_URL", "postgres://u@h/"),
        ("REDIS_URL", "amqp://h"),
        ("SERVICE_BASE_URL", "service.example.com"),
        ("SERVICE_BASE_URL", "http://service.example.com"),
        ("MANAGEMENT_BASE_URL", "http://management.example.com"),
        ("SERVICE_API_KEY_HEADER", "x key: 1"),
        ("SERVICE_ORDER_CREATE_PATH", "v3/order"),
        ("SERVICE_ORDER_REASON_FIELD", "update reason"),
        ("SERVICE_API_KEY", "sk_us_of_the_sandbox"),
        ("SERVICE_API_KEY", "pk_eu_of_elsewhere"),
        ("SERVICE_API_KEY", "mg_of_management"),
        ("MANAGEMENT_ENV", "staging"),
        ("MANAGEMENT_REGION", "uk"),
        ("WEBHOOK_SECRETS", "whsec_YQ==,plain"),
        ("WEBHOOK_SECRETS", ","),
        ("SECRET_KEY", "short"),
        ("FIELD_KEYS", "c2hvcnRfb2ZfYnl0ZXM="),
        ("FIELD_KEYS", "1:c2hvcnRfb2ZfYnl0ZXM="),
        ("FIELD_KEYS", "0:ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw="),
        ("FIELD_KEYS", "1:ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw=,1:x_of_"),
        ("FIELD_KEYS", ","),
        ("ALLOWED_HOSTS", "*"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_invalid_value_is_refused_by_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImproperlyConfigured) as error:
        read(monkeypatch, **deployed(**{name: value}))
    assert name in str(error.value)
    assert "_of_" not in str(error.value)


INVALID_VALUES = {
    "DEBUG": "perhaps",
    "HTTPS_ONLY": "maybe",
    "PORT": "http",
    "SANDBOX_PORT": "0",
    "SECRET_KEY": "short",
    "FIELD_KEYS": "1:c2hvcnRfb2ZfYnl0ZXM=",
    "AUDIT_KEY": "short",
    "ALLOWED_HOSTS": "*",
    "HEALTH_TOKEN": "short",
    "SERVICE_API_KEY_HEADER": "x key: 1",
    "SERVICE_ORDER_CREATE_PATH": "v3/order",
    "SERVICE_API_KEY": "mg_of_management",
    "MANAGEMENT_REGION": "uk",
    "WEBHOOK_SECRETS": ",",
    "REPORT_MAX_BYTES": "-1",
    "DATABASE_URL": "mysql://u@h/x",
    "REDIS_URL": "amqp://h",
    "EMAIL_URL": "mail.invalid",
    "API_RATE": "many",
    "TIME_ZONE": "Mars/Olympus",
    "LOG_LEVEL": "LOUD",
    "SYNC_ORDERS_SECONDS": "often",
    "OIDC_SERVER_URL": "login.invalid",
}


def test_all_invalid_values_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own line, so that nobody has to start the process repeatedly."""
    for name in INVALID_VALUES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ImproperlyConfigured) as error:
        read(monkeypatch, **deployed(**INVALID_VALUES))
    lines = str(error.value).splitlines()
    assert [line.split()[0] for line in lines] == list(
        dict.fromkeys(line.split()[0] for line in lines)
    ), "each variable is named once"
    assert {line.split()[0] for line in lines} == INVALID_VALUES.keys()
    assert "_of_" not in str(error.value)
    for name in INVALID_VALUES:
        monkeypatch.delenv(name)
    assert read(monkeypatch)["LOCAL"] is True, "no error is left for the next reading"


def test_missing_variables_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected_text = (
        "SECRET_KEY",
        "FIELD_KEYS",
        "SERVICE_API_KEY",
        "WEBHOOK_SECRETS",
        "ALLOWED_HOSTS",
    )
    with pytest.raises(ImproperlyConfigured) as error:
        read(monkeypatch, **deployed(**dict.fromkeys(expected_text, "")))
    lines = str(error.value).splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(expected_text)
    assert all("is not set" in line for line in lines)


README = SETTINGS.parent.parent / "README.md"
READ_CALL = re.compile(r"\b(?:env\.(?!check_|add_error)\w+|configured)\(\s*\"([A-Z_]+)\"")


def test_readme_lists_exactly_the_settings() -> None:
    table = README.read_text().partition("## Configuration")[2].partition("\n## ")[0]
    documented = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([A-Z][A-Z_]+)`", row.split("|")[1])
    }
    read_here = set(READ_CALL.findall(SETTINGS.read_text()))
    assert len(read_here) > 60, "the pattern no longer matches"
    assert read_here - documented == set(), "these are read but not documented"
    assert documented - read_here == set(), "these are documented but not read"


def test_production_key_is_refused_in_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match="SERVICE_API_KEY"):
        read(monkeypatch, SERVICE_API_KEY="pk_us_real")


def test_socket_url_is_converted_for_django(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        monkeypatch,
        LOCAL="1",
        DATABASE_URL="postgres://me@/mine?host=/run/sockets&port=5444",
        REDIS_URL="unix:///run/redis.sock?db=2",
    )
    database = settings["DATABASES"]["default"]
    assert (database["HOST"], database["PORT"], database["NAME"], database["USER"]) == (
        "/run/sockets",
        "5444",
        "mine",
        "me",
    )
    assert "host" not in database["OPTIONS"]
    assert settings["CELERY_BROKER_URL"] == "redis+socket:///run/redis.sock?virtual_host=2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MANAGEMENT_ENV", "production"),
        ("SERVICE_API_KEY", "pk_us_made_up"),
        ("DATABASE_URL", "postgres://u@db.invalid/x"),
        ("DATABASE_URL", "postgres:///x?host=10.0.0.7"),
        ("REDIS_URL", "rediss://redis.invalid/0"),
        ("ALLOWED_HOSTS", "*"),
        ("ALLOWED_HOSTS", ".example.com"),
    ],
)
def test_development_machine_refuses_signs_of_production(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImproperlyConfigured) as error:
        read(monkeypatch, **{"LOCAL": "1", name: value})
    assert name in str(error.value)
    assert not name.endswith("_URL") or value not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u:p@127.0.0.1:5433/x",
        "postgres://u@localhost/x",
        "postgres://u@[::1]/x",
        "postgres:///x?host=/var/run/made-up",
    ],
)
def test_development_machine_accepts_local_database(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(monkeypatch, LOCAL="1", DATABASE_URL=url)["LOCAL"] is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECRET_KEY", "development-only-" * 4),
        ("SECRET_KEY", "django-insecure-" + "8f3Kq0ZpV7xWc1LtN5sRdEuGhJaB2mYo9PiQ"),
        ("SECRET_KEY", "s" * 60),
        ("SECRET_KEY", "secretkey1234" * 5),
        ("SECRET_KEY_FALLBACKS", "development-only-" * 4),
        ("AUDIT_KEY", "0123456789abcdef" * 3),
        ("FIELD_KEYS", "1:ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw="),
        ("FIELD_KEYS", "1:" + b64encode(bytes(32)).decode()),
        ("FIELD_KEYS", "1:" + b64encode(bytes(range(32))).decode()),
        ("FIELD_KEYS", "1:" + b64encode(b"correct horse battery staple 123").decode()),
        ("SERVICE_API_KEY", "sk_us_local_sandbox"),
        ("MANAGEMENT_KEY", "mg_local_sandbox"),
        ("WEBHOOK_SECRETS", "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA=="),
        ("HEALTH_TOKEN", "0" * 30),
        ("METRICS_TOKEN", "abcabcabcabcabcabcabcabc"),
    ],
)
def test_deployment_refuses_published_and_weak_keys(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AUDIT_KEY", raising=False)
    sandbox = {"MANAGEMENT_ENV": "sandbox", "SERVICE_API_KEY": "sk_us_of_ours"}
    with pytest.raises(ImproperlyConfigured) as error:
        read(monkeypatch, **{**deployed(**sandbox), name: value})
    assert [line for line in str(error.value).splitlines() if line.startswith(name)]
    assert value not in str(error.value)


def test_generated_keys_are_never_weak() -> None:
    for _ in range(2_000):
        assert weakness(secrets.token_urlsafe(40)) is None
        assert weakness(secrets.token_hex(32)) is None
        assert weakness_of_bytes(secrets.token_bytes(32)) is None
