"""Accounts of staff: how people get in, how sure we are that it is them, and for how long.

entrance.py         log in, log out, the first page, forms of ended sessions
adapter.py          what django-allauth asks about log-ins: words, audit, devices
throttle.py         how often may be guessed; known_devices.py: where the owner still gets in
second_factor.py    who must have one; its pages: app, passkeys, recovery codes
factor_secrets.py   its secrets, sealed anew when keys rotate
fresh.py            "is it still you?" before what matters is changed
limits.py           sessions end when idle, and after their longest time
passwords.py        changed, or set anew by a link in an e-mail
single_sign_on.py   by OpenID Connect
account_page.py     "Your account"
roles_page.py       who may what, made from `access.py`
"""
