"""Review of results: what waits for eyes, who signed what, and criticals until they are told."""

from orders.results.criticals import at_a_glance, open_criticals
from orders.results.queue import unsigned_count

__all__ = ["at_a_glance", "open_criticals", "unsigned_count"]
