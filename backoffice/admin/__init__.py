"""The administration: Django's admin as far as it serves us, behind our permissions, in our look.

`site` is what the addresses lead to; each app registers its models in its own `admin.py`. What
other packages register with Django's own site is shown nowhere.

- `site.py`: who gets in, and the first page; `groups.py`: what stands on it;
- `lists.py`: lists without counts and offsets, and the base of all pages;
- `records.py`: mirrored records, to be read and to be fetched again;
- `staff.py`, `roles.py`: people and what they may do.
"""

from backoffice.admin.lists import BaseAdmin
from backoffice.admin.records import RecordAdmin
from backoffice.admin.roles import RoleAdmin
from backoffice.admin.site import site
from backoffice.admin.staff import StaffAdmin

__all__ = ["BaseAdmin", "RecordAdmin", "RoleAdmin", "StaffAdmin", "site"]
