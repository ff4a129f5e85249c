"""Review of results: what waits for eyes, who signed what, and criticals until they are told."""

from orders.reviewing.criticals import at_a_glance, open_criticals
from orders.reviewing.waiting import unsigned_count

__all__ = ["at_a_glance", "open_criticals", "unsigned_count"]
