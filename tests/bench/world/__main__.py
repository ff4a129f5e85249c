"""`python -m tests.bench.world ORDERS`: fill the empty database of DATABASE_URL, and look at it."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from django.core.management import call_command  # noqa: E402

from tests.bench.world.building import Size, build  # noqa: E402
from tests.bench.world.checking import check  # noqa: E402

LANES = 2


def main() -> int:
    call_command("migrate", verbosity=0)
    build(Size(int(sys.argv[1])), lambda words: print(words, flush=True), lanes=LANES)
    wrong = check()
    for words in wrong:
        print(f"not as the mirror would have it: {words}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
