"""Review of results: the queue, sign-offs, and critical results until the call-back."""

from orders.results.critical_calls import open_criticals, result_badges
from orders.results.queue import unsigned_count

__all__ = ["open_criticals", "result_badges", "unsigned_count"]
