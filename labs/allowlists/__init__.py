"""Allowlists: which teams may use a lab account (catalogue.md 7).

The service replaces the whole list unconditionally. So the list is read right before the write,
compared with the list that the person saw, and read again after the write. This needs the
management interface, with its own key.
"""

from labs.allowlists.commands import SetAllowlist

__all__ = ["SetAllowlist"]
