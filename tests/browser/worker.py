"""`python -m tests.browser.worker`: all that beat rings for while staff act, when a form rings and
twice a second. Looking all the time takes a fifth of a processor from the pages.
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

    from labs import tasks as labs
    from orders import tasks as orders
    from patients import tasks as patients
    from webhooks import tasks as webhooks

    bells = redis.Redis.from_url(settings.REDIS_URL)
    while True:
        close_old_connections()
        for ring in (orders.deliver, orders.work_on_lists, orders.print_documents,
                     patients.deliver, labs.deliver, webhooks.deliver,
                     orders.look_up, patients.look_up):  # fmt: skip
            try:
                ring()
            except (Error, redis.RedisError) as error:
                print(f"worker: {type(error).__name__}", flush=True)
                time.sleep(0.2)
        with contextlib.suppress(redis.RedisError):
            bells.brpop(["outbox", "bulk"], timeout=0.5)


if __name__ == "__main__":
    main()
