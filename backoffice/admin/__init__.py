"""The administration: Django's admin with our permissions and templates.

`site` is the admin site; each app registers its models in its own `admin.py`. Models that other
packages register with Django's default site are not shown.

- `site.py`: access and the index page; `groups.py`: the groups and links of the index page;
- `lists.py`: lists without counts and offsets, and the base class of all admin classes;
- `codes.py`: names of codes in the lists;
- `records.py`: mirrored records, to read and to fetch again;
- `staff.py`, `staff_list.py`, `roles.py`: people and their permissions.
"""

from backoffice.admin.lists import BaseAdmin
from backoffice.admin.records import RecordAdmin
from backoffice.admin.roles import RoleAdmin
from backoffice.admin.site import site
from backoffice.admin.staff import StaffAdmin

__all__ = ["BaseAdmin", "RecordAdmin", "RoleAdmin", "StaffAdmin", "site"]
