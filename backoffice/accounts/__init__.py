"""Accounts of staff: how people get in, how sure we are that it is them, and for how long.

entrance.py         log in, log out, the first page, forms of ended sessions
adapter.py          what django-allauth asks about log-ins: words, audit, devices
throttle.py         how often may be guessed; known_devices.py: where the owner still gets in
second_factor.py    who must have one; its pages: app, passkeys, recovery codes
recovery_codes.py   kept as hashes; factor_secrets.py: secrets, sealed anew when keys rotate
fresh.py            "is it still you?" before what matters is changed
limits.py           sessions end when idle, and after their longest time
passwords.py        changed, or set anew by a link in an e-mail
first_passwords.py  nobody goes on with one that somebody else has chosen
password_rules.py   what is no password: our own words, and what was published
mailing.py          these links, and what was changed about getting in
single_sign_on.py   by OpenID Connect; id_tokens.py: signed by the provider, for us, for now
members.py          roles of accounts, and the words the audit trail keeps about them
account_page.py     "Your account"
roles_page.py       who may what, made from `access.py`
"""
