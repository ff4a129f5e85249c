"""The commands of `./run`, which run after the packages are installed.

    servers ─▶ sandbox (demo), web, migrations ─▶ beat, workers, demo sign-ins

They stop in the reverse order. The script `./run` creates the environment of this module.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from backoffice.devtools import embedded, programs, running_demo
from backoffice.devtools.checks import check
from backoffice.devtools.demo_data import has_earlier_tables, is_demo_database, is_empty
from backoffice.devtools.embedded import ROOT, Servers, ServersError, background
from backoffice.devtools.environments import (
    environment_for,
    local_by_default,
    resolve_service_settings,
    throwaway_environment,
)
from backoffice.devtools.progress import FirstSync
from backoffice.devtools.supervisor import ChildError, Supervisor

PYTHON: Final = sys.executable
MANAGE: Final = (PYTHON, str(ROOT / "manage.py"))
DEMO: Final = (
    *("--users", "200", "--orders", "2000", "--seed", "7", "--speed", "240"),
    *("--strays", "7"),
)
"""Options of the sandbox in the demo: its number of people and its speed.

A day of the service takes six minutes, and something changes every second. At a higher speed,
visits would end before their hour and lists would change too fast to read.
"""

PROOFS: Final = {
    "bench": ("mirror", "inbox", "wearables", "commands", "workers", "pages", "demo"),
    "chaos": ("sync", "inbox", "outbox", "restore", "shutdown", "http", "power"),
}
WITH_OWN_SERVERS: Final = ("pages",)
WITHOUT_ARGUMENTS: Final = ("up",)
ANEW: Final = "--anew"
STOP: Final = "--stop"
READ_SETTINGS: Final = """
import sys
from django.core.exceptions import ImproperlyConfigured
try:
    import backoffice.settings
except ImproperlyConfigured as error:
    sys.exit(str(error))
"""


class StopRequested(BaseException):
    """Ctrl-C, SIGTERM or a closed terminal."""


class LauncherError(Exception):
    """An error for the person at the terminal; `code` is the exit code."""

    def __init__(self, words: str, code: int = 1) -> None:
        super().__init__(words)
        self.code = code


def main(arguments: list[str]) -> int:
    command, rest = arguments[0], arguments[1:]
    commands: dict[str, Callable[[list[str]], int]] = {
        "demo": demo,
        "up": up,
        "test": test,
        "check": check,
        "bench": lambda names: proofs("bench", names),
        "chaos": lambda names: proofs("chaos", names),
        "manage": manage,
        "messages": update_messages,
        "shots": shots,
    }
    try:
        if rest and command in WITHOUT_ARGUMENTS:
            raise LauncherError(f"./run {command} takes no further words: {' '.join(rest)}", code=2)
        return commands[command](rest)
    except LauncherError as error:
        say(str(error))
        return error.code
    except (ServersError, ChildError) as error:
        say(str(error))
        return 1


def say(words: str) -> None:
    print(words, flush=True)


# demo, up


def demo(words: list[str]) -> int:
    if words not in ([], [ANEW]):
        raise LauncherError(f"./run demo takes {ANEW} and no other word: {' '.join(words)}", code=2)
    return run_all(with_sandbox=True, anew=bool(words))


def up(_: list[str]) -> int:
    return run_all(with_sandbox=False)


def run_all(*, with_sandbox: bool, anew: bool = False, where: Path | None = None) -> int:
    """Run everything until it is stopped. `where` is the base folder of the servers."""
    base = where or embedded.home()
    with stop_on_signals():
        try:
            _run_all(base, with_sandbox, anew)
        except StopRequested:
            say("Stopped.")
        finally:
            running_demo.remove_running_environment(base)
    return 0


def _run_all(base: Path, with_sandbox: bool, anew: bool) -> None:
    port, sandbox_port = port_of("PORT", 8000), port_of("SANDBOX_PORT", 8100)
    if running_demo.running_environment(base):
        raise LauncherError("It is running already, from this folder: stop that one first.")
    if with_sandbox and port == sandbox_port:
        raise LauncherError(f"PORT and SANDBOX_PORT are both {port}: they must differ.")
    settled = resolve_service_settings(os.environ, sandbox_port if with_sandbox else None)
    check_settings({**settled, "PORT": str(port)})
    check_port_is_free(port, "PORT", 8001)
    if with_sandbox:
        check_port_is_free(sandbox_port, "SANDBOX_PORT", 8101)
    say("Starting PostgreSQL and Redis")
    with embedded.servers(base, borrow=False) as servers:
        if anew:
            discard_demo_data(servers)
        elif with_sandbox and has_earlier_tables(servers.database_url):
            raise LauncherError(
                "An earlier state of the project made this demo. Start a new one: ./run demo --anew"
            )
        environment = environment_for(servers, settled)
        environment["PORT"] = str(port)
        running_demo.write_running_environment(base, environment)
        supervisor = Supervisor(environment, ROOT / "var" / "log", say)
        try:
            first_sync = _start_all(
                supervisor, servers, port, sandbox_port if with_sandbox else None
            )
            say("Ctrl-C stops everything.")
            while True:
                servers.tend(say)
                supervisor.tend()
                first_sync.show(say)
                time.sleep(1)
        finally:
            _ignore_signals()
            say("Stopping")
            supervisor.stop()


def discard_demo_data(servers: Servers) -> None:
    """Delete the data of earlier demos."""
    if not servers.embedded:
        raise LauncherError(
            f"{ANEW} throws data away, and only what a demo here made up: DATABASE_URL names"
            " another PostgreSQL.",
            code=2,
        )
    if not is_empty(servers.database_url) and not is_demo_database(servers.database_url):
        raise LauncherError(
            f"{ANEW} throws data away, and only what a demo here made up: this database holds what"
            " ./run up brought from a configured service.",
            code=2,
        )
    say("Throwing away what was made up before")
    name = embedded.database_name(servers.database_url)
    for database in (name, f"{name}_sandbox"):
        servers.empty_database(database)


def _start_all(
    supervisor: Supervisor, servers: Servers, port: int, sandbox_port: int | None
) -> FirstSync:
    if sandbox_port is not None:
        name = embedded.database_name(servers.database_url)
        database = os.environ.get("SANDBOX_DATABASE_URL") or servers.database(f"{name}_sandbox")
        first = " (this first time it makes up its people)" if is_empty(database) else ""
        say(f"Starting the sandbox{first}")
        supervisor.start(
            "sandbox",
            *(PYTHON, "-m", "sandbox", "--port", str(sandbox_port), *DEMO),
            variables={
                "SANDBOX_DATABASE_URL": database,
                "SANDBOX_WEBHOOK_URL": f"http://127.0.0.1:{port}/webhooks/",
                "SANDBOX_RETRY_SPEED": "60",  # An hour's wait for a retry takes a minute.
            },
        )
    _make_static_folder()
    if supervisor.environment.get("LOCAL") != "1":
        supervisor.complete("static", *MANAGE, "collectstatic", "--noinput")
    say("Bringing the database up to date")
    supervisor.complete("migrate", *MANAGE, "migrate", "--noinput")
    if sandbox_port is None:
        check_team(supervisor.environment)
    first_sync = FirstSync(servers.database_url)
    # Start after the migrations: queries of missing tables would log errors.
    supervisor.start("web", PYTHON, *programs.web("127.0.0.1", str(port), kill_timeout="5s"))
    if sandbox_port is not None:
        status = f"http://127.0.0.1:{sandbox_port}/_control/status"
        supervisor.await_ready("sandbox", lambda: answers(status), seconds=300)
    say("Starting workers")
    _start_workers(supervisor)
    log_ins = ""
    if sandbox_port is not None:
        log_ins = supervisor.complete("users", *MANAGE, "demo_users", "--skip-checks")
        if not first_sync.nearly_over:
            supervisor.start("past", *MANAGE, "demo_past", "--skip-checks", ends=True)
    address = f"http://127.0.0.1:{port}"
    supervisor.await_ready("web", lambda: answers(f"{address}/health/ready"))
    say(f"\n  Back office  {address}/")
    if sandbox_port is not None:
        say(f"  Sandbox      http://127.0.0.1:{sandbox_port}/")
        say(f"\n  {'Sign in with':16} {'password':20} as")
        say("".join(f"  {line}\n" for line in log_ins.splitlines()))
    say(f"  Logs         {supervisor.logs}\n")
    return first_sync


def _start_workers(supervisor: Supervisor) -> None:
    # SIGKILL, because after SIGTERM they would wait forever for Redis, which stops at the same
    # time.
    orphan_signal = signal.SIGKILL
    checked = {"CELERY_SKIP_CHECKS": "1"}  # `migrate` has just run them.
    commands = {"beat": programs.beat(str(ROOT / "var" / "beat-schedule"))}
    commands |= {f"worker-{queue}": programs.worker(queue) for queue in programs.WORKERS}
    for name, command in commands.items():
        supervisor.start(name, PYTHON, *command, variables=checked, orphan_signal=orphan_signal)


def check_settings(environment: Mapping[str, str]) -> None:
    """Report invalid settings before anything starts.

    A separate process reads them, to save memory in this one.
    """
    child = local_by_default(environment, embedded_database=not environment.get("DATABASE_URL"))
    run_or_raise(2, child, PYTHON, "-c", READ_SETTINGS)


def check_team(environment: Mapping[str, str]) -> None:
    """Raise LauncherError when the service key belongs to another team than the stored records.

    It runs before any worker. The start continues when the service does not answer.
    """
    warning = run_or_raise(1, environment, *MANAGE, "checkservice", "--team", "--skip-checks")
    if warning:
        say(warning)


def run_or_raise(code: int, environment: Mapping[str, str], *command: str) -> str:
    """Run a command and return its stderr; raises LauncherError with it when the command fails."""
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False
    )
    words = done.stderr.strip()
    if done.returncode:
        raise LauncherError(words, code=code)
    return words


def port_of(name: str, default: int) -> int:
    text = os.environ.get(name, "") or str(default)
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise LauncherError(f"{name} must be a whole number from 1 to 65535.")
    return int(text)


def check_port_is_free(port: int, name: str, example: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except PermissionError:
            raise LauncherError(
                f"Port {port} needs root: choose another with {name}={example}."
            ) from None
        except OSError:
            raise LauncherError(
                f"Port {port} is in use by another program: stop that one, or choose another port, "
                f"for example {name}={example} ./run demo"
            ) from None


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


MAX_TEST_PROCESSES: Final = 4
"""The most test processes: each has its own sandboxes and about fifty connections."""


def _make_static_folder() -> None:
    """Create the static folder, because every Django process warns when it is missing."""
    (ROOT / "var" / "static").mkdir(parents=True, exist_ok=True)


# manage, test, bench, chaos


def manage(arguments: list[str]) -> int:
    for name, value in running_demo.running_environment(embedded.home()).items():
        os.environ.setdefault(name, value)
    check_settings(os.environ)
    with embedded.servers() as servers:
        return run_in_foreground([*MANAGE, *arguments], environment_for(servers, os.environ))


def test(arguments: list[str]) -> int:
    """Run the whole suite on several processors, or the named tests in one process."""
    if STOP in arguments:
        return stop_test_servers(arguments)
    _make_static_folder()
    if not any(not word.startswith("-") for word in arguments):
        # One more than processors: tests spend a third of their time waiting for servers and
        # browsers.
        processes = min((os.cpu_count() or 1) + 1, MAX_TEST_PROCESSES)
        parallel_options = ("-p", "tests.xdist_setup", "-n", str(processes))
        arguments = [*parallel_options, "--dist", "loadfile", "--no-loadscope-reorder", *arguments]
    with test_servers() as (servers, are_reused):
        environment = throwaway_environment(servers)
        if are_reused:
            environment["TEST_SERVERS"] = "reused"
        return run_in_foreground([PYTHON, "-m", "pytest", *arguments], environment)


@contextlib.contextmanager
def test_servers() -> Iterator[tuple[Servers, bool]]:
    """Yield servers for tests, and whether they keep running for the next call.

    They do not keep running in CI, when servers are configured, or while another call uses the ones
    that keep running.
    """
    configured = any(os.environ.get(name) for name in ("DATABASE_URL", "REDIS_URL", "CI"))
    with contextlib.ExitStack() as stack:
        reused = None
        if not configured:
            reused = stack.enter_context(background.background_servers(test_home()))
        if reused:
            yield reused, True
        else:
            yield stack.enter_context(embedded.throwaway_servers()), False


def stop_test_servers(arguments: list[str]) -> int:
    if arguments != [STOP]:
        raise LauncherError(f"./run test {STOP} takes no further words.", code=2)
    stopped = background.stop(test_home())
    say("The test servers are stopped." if stopped else "No test servers are running.")
    return 0


def test_home() -> Path:
    """Return the folder of the servers that `./run test` reuses."""
    return embedded.home() / "test"


def proofs(kind: str, names: list[str]) -> int:
    """Run each `tests/<kind>/<name>.py` in order and return the worst exit code."""
    all_names = PROOFS[kind]
    for name in names:
        if name not in all_names:
            raise LauncherError(f"There is no {kind} {name!r}; there are {', '.join(all_names)}.")
    worst = 0
    _make_static_folder()
    for name in names or all_names:
        if kind == "bench":
            (ROOT / "var" / "bench" / f"{name}.json").unlink(missing_ok=True)
        # Test data takes minutes to create, so the servers of this benchmark keep theirs.
        own_servers = (
            embedded.servers(embedded.home() / "bench") if name in WITH_OWN_SERVERS else None
        )
        with own_servers or embedded.throwaway_servers(durable=True) as servers:
            module = f"tests.{kind}.{name}"
            worst = max(
                worst, run_in_foreground([PYTHON, "-m", module], throwaway_environment(servers))
            )
    if kind == "bench" and len(names) != 1:
        run_in_foreground([PYTHON, "-m", "tests.bench.table", *(names or all_names)], os.environ)
    return worst


def shots(arguments: list[str]) -> int:
    """Take screenshots of every page on throw-away servers."""
    if len(arguments) > 1:
        raise LauncherError("./run shots takes one folder at most.", code=2)
    folder = [str(Path(arguments[0]).resolve())] if arguments else []
    _make_static_folder()
    with embedded.throwaway_servers() as servers:
        return run_in_foreground(
            [PYTHON, "-m", "tests.browser.shots", *folder], throwaway_environment(servers)
        )


def update_messages(arguments: list[str]) -> int:
    from backoffice.devtools.messages import messages  # Deployments have no Babel.

    return messages(arguments)


def run_in_foreground(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command on this terminal and wait until it ends; Ctrl-C reaches it directly."""
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command,
        cwd=ROOT,
        env=dict(environment),
        preexec_fn=embedded.dies_with_parent(signal.SIGTERM),
    )
    with stop_on_signals():
        stopped = 0
        while True:
            try:
                code = process.wait()
                return 128 - code if code < 0 else code
            except StopRequested as stop:
                stopped += 1
                signum = stop.args[0]
                if signum != signal.SIGINT or not sys.stdin.isatty() or stopped > 1:
                    process.send_signal(signum if stopped < 3 else signal.SIGKILL)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise StopRequested on the signals that end the launcher."""

    def request_stop(signum: int, frame: FrameType | None) -> None:
        raise StopRequested(signum)

    before = {
        s: signal.signal(s, request_stop) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _ignore_signals() -> None:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
