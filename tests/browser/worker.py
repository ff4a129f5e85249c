"""`python -m tests.browser.worker`: all that beat rings for while staff act, again and again."""

from __future__ import annotations

import time

import django


def main() -> None:
    django.setup()
    from django.db import Error, close_old_connections

    from labs import tasks as labs
    from orders import tasks as orders
    from patients import tasks as patients

    while True:
        close_old_connections()
        for ring in (orders.deliver, orders.work_on_lists, patients.deliver, labs.deliver,
                     orders.look_up, patients.look_up):  # fmt: skip
            try:
                ring()
            except Error as error:
                print(f"worker: {type(error).__name__}", flush=True)
                time.sleep(0.2)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
