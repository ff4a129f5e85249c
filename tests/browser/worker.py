"""`python -m tests.browser.worker`: run the tasks that staff actions need.

They run when a form wakes the worker, and otherwise twice a second. Polling without a pause would
take a fifth of a processor from the web server.
"""

from __future__ import annotations

import contextlib
import time

import django
import redis


def main() -> None:
    django.setup()
    from django.conf import settings
    from django.db import Error, close_old_connections

    from backoffice.operations import tasks as operations
    from labs import tasks as labs
    from orders import tasks as orders
    from patients import tasks as patients
    from webhooks import tasks as webhooks

    connection = redis.Redis.from_url(settings.REDIS_URL)
    while True:
        close_old_connections()
        for task in (orders.deliver, operations.run_bulk_actions, orders.print_documents,
                     patients.deliver, labs.deliver, webhooks.deliver,
                     orders.look_up, patients.look_up):  # fmt: skip
            try:
                task()
            except (Error, redis.RedisError) as error:
                print(f"worker: {type(error).__name__}", flush=True)
                time.sleep(0.2)
        with contextlib.suppress(redis.RedisError):
            connection.brpop(["outbox", "bulk"], timeout=0.5)


if __name__ == "__main__":
    main()
