"""`python -m sandbox`: migrate, seed an empty database, run the world, serve requests."""

import argparse
import multiprocessing
import os
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TextIO

import httpx

from sandbox import settings


def main() -> None:
    """Run the sandbox until SIGTERM or SIGINT."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sandbox.settings")
    arguments = _arguments()
    if arguments.as_specified:
        os.environ["SANDBOX_AS_SPECIFIED"] = "1"  # for the process that answers requests
        settings.AS_SPECIFIED = True

    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from sandbox import seeding, unmatched_seeding, world_loop
    from sandbox.deliveries import endpoints

    call_command("migrate", verbosity=0)
    if arguments.reset or seeding.is_empty():
        seeding.seed_world(
            seeding.make_plan(arguments.seed, arguments.users, arguments.orders, arguments.epoch),
            lambda made: _say(f"sandbox has made {made} orders", sys.stderr),
        )
        unmatched_seeding.seed_unmatched_results(arguments.strays)
    if arguments.speed is not None:
        world_loop.set_speed(arguments.speed)
    if arguments.webhook_url is not None:
        endpoints.configure(arguments.webhook_url)
    connection.close()
    _serve(arguments.port)


def _say(line: str, stream: TextIO) -> None:
    stream.write(line + "\n")
    stream.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sandbox", description=__doc__)
    parser.add_argument("--port", type=int, default=settings.PORT)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--orders", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=float, help="dwell times are divided by it; 0 stands still")
    parser.add_argument("--epoch", type=_moment, help="the world's time when it is seeded")
    parser.add_argument(
        "--webhook-url",
        default=settings.WEBHOOK_URL or None,
        help="where webhooks go; empty: nowhere (default: where they went before)",
    )
    parser.add_argument("--reset", action="store_true", help="seed anew")
    parser.add_argument(
        "--as-specified",
        action="store_true",
        help="the specification's forms where the supplement differs (see specification_forms.py)",
    )
    parser.add_argument("--strays", type=int, default=0, help="results to seed without a match")
    return parser.parse_args()


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _serve(port: int) -> None:
    """Run the world in this process; the one worker process of granian answers requests."""
    from granian.constants import Interfaces
    from granian.server import Server

    from sandbox.deliveries.deliverer import Deliverer
    from sandbox.world_loop import WorldLoop

    multiprocessing.set_start_method("spawn")  # the threads of this process must not be forked
    loop = WorldLoop()
    loop.start()
    deliverer = Deliverer()
    deliverer.start()
    threading.Thread(target=_announce, args=(port,), daemon=True).start()
    Server(
        "sandbox.wsgi:application",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.WSGI,
        workers=1,
        blocking_threads=16,
        log_enabled=False,
    ).serve()
    loop.stop.set()
    deliverer.stop.set()
    loop.join(timeout=10)
    deliverer.join(timeout=10)


def _announce(port: int) -> None:
    """Print the address once a first request is answered."""
    address = f"http://127.0.0.1:{port}"
    while True:
        try:
            if httpx.get(f"{address}/_control/status", timeout=10).status_code == 200:
                _say(f"sandbox ready on {address}", sys.stdout)
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)


if __name__ == "__main__":
    main()
