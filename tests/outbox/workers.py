"""Workers of the outbox for tests: killed or stopped at a line that the test names."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.db import connection

from backoffice.devtools.embedded import dies_with_parent

ROOT = Path(__file__).resolve().parents[2]

CLAIMED = ("delivery.py:_send:call",)
"""It is taken; nothing was read or sent."""
CHECKED = ("delivery.py:_begin:call",)
"""It is checked; the row does not say yet that it is being sent."""
BEGUN = ("delivery.py:_begin:return",)
"""The row says that it is being sent; nothing has left."""
SENT = (*BEGUN, "transport.py:read:call")
"""It has left; the answer is not read."""
ANSWERED = ("delivery.py:_done:call",)
"""The answer is read; nothing is stored."""
STORED = (*ANSWERED, "base.py:save:return")
"""In the transaction that closes it."""
CLOSED = ("delivery.py:_done:return",)
"""It is closed; the history does not say so yet."""


@dataclass
class Workers:
    """The process that workers are forked from."""

    process: subprocess.Popen[str] = field(repr=False)

    def work(self) -> str:
        """One works until nothing is due."""
        return str(self._asked({})["went"])

    def killed(self, at: tuple[str, ...]) -> bool:
        """One works and is killed with SIGKILL at this moment; False when that never came."""
        return bool(self._asked({"at": at, "signal": "KILL"})["went"] == "killed")

    def stopped(self, at: tuple[str, ...]) -> int | None:
        """One works and is stopped at this moment: its number, for `go_on` and `kill`."""
        answer = self._asked({"at": at, "signal": "STOP"})
        return int(answer["pid"]) if answer["went"] == "stopped" else None

    def go_on(self, pid: int) -> str:
        return str(self._asked({"go_on": pid})["went"])

    def kill(self, pid: int) -> None:
        assert self._asked({"kill": pid})["went"] == "killed"

    def ring(self) -> None:
        """One works for a second, beside what the test does."""
        self._asked({"for": 1.0})

    def rest(self) -> None:
        """Until those have ended: else they would take what the next test asks for."""
        self._asked({"rest": True})

    def loop(self) -> int:
        """One that works until it is killed: its number."""
        return int(self._asked({"loop": True})["pid"])

    def _asked(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process of the workers has ended"
        return json.loads(line)  # type: ignore[no-any-return]


def environment() -> dict[str, str]:
    """Where the database of this process is, as the tests have renamed it."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    name = str(connection.settings_dict["NAME"])
    return {"DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}"))}


@contextlib.contextmanager
def ready(environment: Mapping[str, str], log: Path) -> Iterator[Workers]:
    """Workers with these settings; what they say goes to the log."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.outbox.deliverer"],
            cwd=ROOT,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "backoffice.settings", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )
    try:
        yield Workers(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
