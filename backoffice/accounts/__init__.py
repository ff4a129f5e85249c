"""Accounts of staff: signing in, second factors, passwords, and sessions.

views/                      pages: sign-in, account, passwords, second factor, roles, session
adapter.py                  settings of django-allauth for signing in: texts, audit, devices
backend.py                  loads the user of a request
throttle.py                 limits guesses; known_devices.py: counts the owner's devices apart
second_factor.py            who must have a second factor, its forms, its secrets
recovery_codes.py           recovery codes, stored as hashes
second_factor_rotation.py   encrypts the secrets again when keys rotate
recent_authentication.py    asks for proof of identity again before sensitive changes
limits.py                   ends sessions when idle, and after their longest time
session_store.py            sessions in the database
passwords.py                forms that change or set a password
first_passwords.py          temporary passwords, which the owner must replace
password_rules.py           refuses site words and published passwords
emails.py                   mails password links and notices of account changes
single_sign_on.py           OpenID Connect; id_tokens.py: verifies the provider's tokens
staff_changes.py            roles of accounts, and their snapshots for the audit trail
role_summary.py             what a role may do, in one sentence
"""
