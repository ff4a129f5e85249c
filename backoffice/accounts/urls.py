"""URLs below `accounts/`. Names with an underscore are those that django-allauth redirects to."""

from __future__ import annotations

from django.urls import path

from backoffice.accounts.single_sign_on import PROVIDER
from backoffice.accounts.views import account, passwords, session, sign_in, single_sign_on
from backoffice.accounts.views import second_factor as factors

urlpatterns = [
    path("", account.account, name="account"),
    path("", account.account, name="mfa_index"),
    path("", account.account, name="mfa_list_webauthn"),
    path("login/", sign_in.sign_in, name="login"),
    path("login/", sign_in.sign_in, name="account_login"),
    path("login/passkey/", factors.sign_in_with_passkey, name="mfa_login_webauthn"),
    path("login/second-factor/", factors.verify_at_sign_in, name="mfa_authenticate"),
    path("logout/", sign_in.sign_out, name="logout"),
    path("session/", session.session_status, name="session"),
    path("sessions/end/", account.end_sessions, name="end-sessions"),
    path("second-factor/", factors.set_up, name="second-factor"),
    path("second-factor/app/", factors.add_app, name="mfa_activate_totp"),
    path("second-factor/app/remove/", factors.remove_app, name="mfa_deactivate_totp"),
    path("second-factor/passkey/", factors.add_passkey, name="mfa_add_webauthn"),
    path(
        "second-factor/passkey/<int:pk>/remove/",
        factors.remove_passkey,
        name="mfa_remove_webauthn",
    ),
    path("second-factor/codes/", factors.show_recovery_codes, name="mfa_view_recovery_codes"),
    path(
        "second-factor/codes/new/",
        factors.generate_recovery_codes,
        name="mfa_generate_recovery_codes",
    ),
    path("proof/", factors.reauthenticate_by_password, name="account_reauthenticate"),
    path("proof/code/", factors.reauthenticate_by_code, name="mfa_reauthenticate"),
    path("proof/passkey/", factors.reauthenticate_by_passkey, name="mfa_reauthenticate_webauthn"),
    path("password/", passwords.change_password, name="password-change"),
    path("password/forgotten/", passwords.request_reset, name="password-forgotten"),
    path("password/forgotten/asked/", passwords.reset_requested, name="password-asked"),
    path("password/new/<uidb64>/<token>/", passwords.set_password, name="password-new"),
    path("oidc/login/", single_sign_on.start, name="oidc-login"),
    path(
        "oidc/login/callback/",
        single_sign_on.callback,
        {"provider_id": PROVIDER},
        name="openid_connect_callback",
    ),
]
