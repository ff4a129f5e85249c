"""`python -m backoffice.operations.probe PORT`: exit with 0 if the local web process is ready.

This is the health check of containers. It runs often, so it neither reads settings nor imports
Django.
"""

from __future__ import annotations

import os
import sys
from urllib.error import URLError
from urllib.request import Request, urlopen


def main(port: str) -> int:
    host = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip() or "localhost"
    # Connect to loopback, with a Host header that the application accepts.
    request = Request(f"http://127.0.0.1:{port}/health/ready", headers={"Host": host})  # noqa: S310
    try:
        with urlopen(request, timeout=3) as answer:  # noqa: S310
            return 0 if answer.status == 200 else 1
    except (URLError, OSError):
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
