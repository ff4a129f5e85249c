"""Load the member of staff who makes a request."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.backends import ModelBackend

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.core.prepared_queries import columns, read

_FIND_STAFF: Final = f"""
SELECT {columns(User)}, pg_current_snapshot()::text AS snapshot, (
 SELECT max(decision) FROM core_unknownvalue WHERE decision > 0
) AS decision, ARRAY(
 SELECT name FROM auth_group
 JOIN accounts_user_groups ON group_id = auth_group.id WHERE user_id = accounts_user.id
) AS group_names
FROM accounts_user WHERE id = %s
"""  # noqa: S608 - our names


class StaffBackend(ModelBackend):
    """Find staff by their id.

    The same query returns their groups, the snapshot that the page starts from (see `live.py`), and
    whether somebody gave values other labels (see `backoffice.core.vocabulary`). Signing in takes
    equally long for names that exist and names that do not.
    """

    def get_user(self, user_id: int) -> User | None:
        user = next(iter(read(User, _FIND_STAFF, [user_id])), None)
        if user is not None:
            vocabulary.decisions.refresh_to(getattr(user, "decision", None) or 0)
        return user if user is not None and self.user_can_authenticate(user) else None
