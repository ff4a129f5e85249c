"""`python -m tests.webhooks.drainer`: a worker of the inbox that can be killed at any line.

It does what a Celery worker does when beat rings, again and again, and starts in a second.
"""

from __future__ import annotations

import time

import django


def main() -> None:
    django.setup()
    from django.db import Error, close_old_connections

    from webhooks import tasks

    while True:
        close_old_connections()
        try:
            tasks.apply_due_events()
        except Error as error:
            print(f"drainer: {type(error).__name__}", flush=True)
            time.sleep(0.2)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
