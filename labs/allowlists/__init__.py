"""Which teams may use a lab account, and changing that (catalogue.md 7).

The service replaces the whole list and knows no condition, so the list is read right before it is
written, compared with what the person saw, and read again afterwards. Only the management
interface can do it, with its own key.
"""

from labs.allowlists.commands import SetAllowlist

__all__ = ["SetAllowlist"]
