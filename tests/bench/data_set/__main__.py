"""`python -m tests.bench.data_set ORDERS`: fill the empty database of DATABASE_URL and check it."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from django.core.management import call_command  # noqa: E402

from tests.bench.data_set.building import Size, build  # noqa: E402
from tests.bench.data_set.checking import check  # noqa: E402

CONNECTION_COUNT = 2


def main() -> int:
    call_command("migrate", verbosity=0)
    build(
        Size(int(sys.argv[1])),
        lambda text: print(text, flush=True),
        connection_count=CONNECTION_COUNT,
    )
    problems = check()
    for problem in problems:
        print(f"not as the mirror would have it: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
