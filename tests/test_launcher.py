"""The launcher: its messages, and that its children end with it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from backoffice.devtools import demo_data, embedded, environments, launcher, running_demo
from backoffice.devtools.embedded import Servers, free_port
from backoffice.devtools.supervisor import ChildError, Supervisor
from tests import databases
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
BASE_PYTHON = os.path.realpath(sys.executable)
REASON_FIELD = "SERVICE_ORDER_REASON_FIELD"
START_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "a").write(f"{child.pid}\\n")
time.sleep(float(sys.argv[2]))
"""


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, messages: list[str]) -> Supervisor:
    return Supervisor(dict(os.environ), tmp_path, messages.append)


def test_killed_child_is_restarted_without_orphans(
    supervisor: Supervisor, messages: list[str], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    supervisor.start(
        "family", sys.executable, "-c", START_CHILD, str(pids), "600", ready=pids.exists
    )
    wait_until(pids.read_text, 60, "its child to start")
    first = supervisor.children[0].process
    orphan = int(pids.read_text().split()[0])
    first.kill()
    first.wait()
    supervisor.tend()
    wait_until(lambda: not is_alive(orphan), 60, "the orphan to end")
    assert messages == [
        f"family ended (SIGKILL), restarting in 1 s. {tmp_path}/family.log has its last output."
    ]

    def is_restarted() -> bool:
        supervisor.tend()
        return len(pids.read_text().split()) == 2

    wait_until(is_restarted, 60, "the restart")
    supervisor.stop()
    family = [int(pid) for pid in pids.read_text().split()]
    wait_until(lambda: not any(map(is_alive, family)), 60, "all of the family to end")
    assert supervisor.children == []


def test_finite_child_is_restarted_only_until_it_succeeds(
    supervisor: Supervisor, messages: list[str], tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    code = f"import sys; open({str(tries)!r}, 'a').write('x')"
    code += f"; sys.exit(open({str(tries)!r}).read() != 'xx')"
    supervisor.start("past", sys.executable, "-c", code, ends=True)

    def done() -> bool:
        supervisor.tend()
        return not supervisor.children

    wait_until(done, 60, "the second try")
    assert tries.read_text() == "xx"
    assert len(messages) == 1, "only the failure is reported"


def test_child_that_ignores_sigterm_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.stop_seconds = 0.5
    started = tmp_path / "started"
    code = f"""
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(started)!r}, "w")
time.sleep(600)
"""
    supervisor.start("deaf", sys.executable, "-c", code, ready=started.exists)
    pid = supervisor.children[0].process.pid
    supervisor.stop()
    assert not is_alive(pid)


def test_failed_child_is_reported_with_its_last_output(supervisor: Supervisor) -> None:
    with pytest.raises(ChildError, match=r"web did not start.[\s\S]*web \| no such thing"):
        supervisor.start(
            "web",
            *(sys.executable, "-c", "import sys; sys.exit('no such thing')"),
            ready=lambda: False,
        )
    supervisor.stop()


def test_failed_step_is_reported_with_its_last_output(supervisor: Supervisor) -> None:
    assert supervisor.complete("step", sys.executable, "-c", "print('fine')") == "fine\n"
    with pytest.raises(ChildError, match=r"step failed.[\s\S]*step \| broken"):
        supervisor.complete("step", sys.executable, "-c", "import sys; sys.exit('broken')")


def test_child_variables_are_not_on_command_line(supervisor: Supervisor, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import os; open({str(out)!r}, 'w').write(os.environ['TOLD'] + str(sys.argv))"
    supervisor.start(
        "child",
        *(sys.executable, "-c", f"import sys; {code}"),
        variables={"TOLD": "CANARY"},
        ready=lambda: out.exists() and bool(out.read_text()),
    )
    assert out.read_text() == "CANARY['-c']"
    assert "CANARY" not in repr(supervisor.children)
    supervisor.stop()


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "backoffice.devtools.launcher", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_used_port_is_reported() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(
            launcher.LauncherError, match=f"Port {port} is in use by another program"
        ):
            launcher.check_port_is_free(port, "PORT", 8001)
    launcher.check_port_is_free(free_port(), "PORT", 8001)


def test_only_owner_removes_running_environment(tmp_path: Path) -> None:
    running_file = tmp_path / "running.json"
    running_demo.remove_running_environment(tmp_path)
    running_file.write_text(json.dumps({"pid": os.getppid(), "environment": {}}))
    running_demo.remove_running_environment(tmp_path)
    assert running_file.exists()
    running_demo.write_running_environment(tmp_path, {"PORT": "8000"})
    running_demo.remove_running_environment(tmp_path)
    assert not running_file.exists()


def test_reused_process_number_is_not_the_launcher(tmp_path: Path) -> None:
    code = f"""
import json, os
from pathlib import Path
from backoffice.devtools import running_demo
base = Path({str(tmp_path)!r})
left = {{"pid": os.getpid(), "environment": {{"PORT": "8000"}}}}
(base / "running.json").write_text(json.dumps(left))
assert running_demo._is_launcher(os.getpid())
assert running_demo.running_environment(base) == {{}}
"""
    command = [sys.executable, "-c", code, "backoffice.devtools.launcher"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_second_start_does_not_change_the_first(tmp_path: Path) -> None:
    code = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, "backoffice.devtools.launcher"]) as first:
        running_file = tmp_path / "running.json"
        running_file.write_text(json.dumps({"pid": first.pid, "environment": {"PORT": "8000"}}))
        try:
            wait_until(
                lambda: running_demo.running_environment(tmp_path),
                60,
                "the process has its name",
            )
            with pytest.raises(launcher.LauncherError, match="already running"):
                launcher.run_all(with_sandbox=True, where=tmp_path)
            assert running_demo.running_environment(tmp_path) == {"PORT": "8000"}
        finally:
            first.kill()


def test_equal_ports_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = str(free_port())
    monkeypatch.setenv("PORT", port)
    monkeypatch.setenv("SANDBOX_PORT", port)
    with pytest.raises(launcher.LauncherError, match=f"PORT and SANDBOX_PORT are both {port}"):
        launcher.run_all(with_sandbox=True, where=tmp_path)


@pytest.mark.parametrize("command", ["demo", "up"])
def test_extra_arguments_are_refused(command: str) -> None:
    done = run(command, "nonsense")
    assert done.returncode == 2
    message = "takes only --anew" if command == "demo" else "takes no arguments"
    assert done.stdout == f"./run {command} {message}: nonsense\n"


def test_unknown_check_is_refused() -> None:
    done = run("check", "nonsense")
    assert done.returncode == 2
    assert "No check is named nonsense. The checks are: lint, format, types" in done.stdout


def test_demo_discards_only_its_own_data() -> None:
    server = os.environ["DATABASE_URL"]
    url = databases.migrated_database(server)
    name = urlsplit(url).path.lstrip("/")
    ours = Servers(url, "unix:///nowhere", embedded=True)

    def set_environment(environment: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE core_installation SET environment = %s", [environment])

    def assert_refused(servers: Servers, words: str) -> None:
        with pytest.raises(launcher.LauncherError, match=words):
            launcher.discard_demo_data(servers)
        assert not demo_data.is_empty(url)

    try:
        assert_refused(Servers(url, "unix:///nowhere", embedded=False), "names another PostgreSQL")
        assert_refused(
            ours, "from a configured service"
        )  # There was no demo, because no sandbox database is beside it.
        ours.database(f"{name}_sandbox")
        set_environment("production us")
        assert_refused(ours, "from a configured service")
        set_environment("sandbox us")
        assert not demo_data.has_earlier_tables(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE backoffice_installation (environment text)")
            connection.execute("INSERT INTO backoffice_installation VALUES ('production us')")
        assert demo_data.has_earlier_tables(url)
        assert_refused(ours, "from a configured service")
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE backoffice_installation SET environment = 'sandbox us'")
        for _ in range(2):
            launcher.discard_demo_data(ours)
            assert demo_data.is_empty(url)
    finally:
        databases.drop(url)
        embedded.postgres.drop_database(server, f"{name}_sandbox")


def test_wrong_setting_is_reported_first_in_one_sentence() -> None:
    sentence = "SYNC_ORDERS_SECONDS must be a whole number"
    done = run("manage", "check", SYNC_ORDERS_SECONDS="abc")
    assert done.returncode == 2
    assert done.stdout.startswith(sentence)
    assert len(done.stdout.splitlines()) == 1
    with pytest.raises(launcher.LauncherError, match=sentence):
        launcher.check_settings({**os.environ, "SYNC_ORDERS_SECONDS": "abc"})
    launcher.check_settings(os.environ)
    direct = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, "SYNC_ORDERS_SECONDS": "abc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert direct.returncode == 2
    assert direct.stderr.startswith(sentence)
    assert len(direct.stderr.splitlines()) == 1


@pytest.mark.parametrize("printed", ["", "0", "65536", "http", "-1", "٨٠"])
def test_port_must_be_a_number(printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", printed)
    if printed:
        with pytest.raises(launcher.LauncherError, match="PORT must be a whole number"):
            launcher.port_of("PORT", 8000)
    else:
        assert launcher.port_of("PORT", 8000) == 8000


@pytest.mark.parametrize("kind", ["bench", "chaos"])
def test_unknown_proof_is_refused(kind: str) -> None:
    done = run(kind, "nonsense")
    assert done.returncode == 1
    assert "There is no" in done.stdout
    assert all(name in done.stdout for name in launcher.PROOFS[kind])


def test_test_environment_has_no_configured_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "pk_us_real")
    monkeypatch.setenv("MANAGEMENT_ENV", "production")
    environment = environments.throwaway_environment(
        Servers("postgres://x/y", "redis://z", embedded=True)
    )
    assert "pk_us_real" not in environment.values()
    assert "MANAGEMENT_ENV" not in environment
    assert environment["LOCAL"] == "1"


def test_exit_codes_and_signals_pass_through() -> None:
    code = "import sys; sys.exit(5)"
    assert launcher.run_in_foreground([sys.executable, "-c", code], os.environ) == 5
    kill = f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})"
    assert (
        launcher.run_in_foreground([sys.executable, "-c", kill], os.environ) == 128 + signal.SIGTERM
    )


def test_run_prints_help_without_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    for command in ("demo", "up", "test", "check", "bench", "chaos", "manage", "setup"):
        assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE)
    wrong = subprocess.run([str(ROOT / "run"), "nonsense"], capture_output=True, check=False)
    assert wrong.returncode == 2
    assert (ROOT / "run").stat().st_mode & stat.S_IXOTH


def test_lock_pins_all_packages_without_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index" not in lock
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[^ ]+", entry), entry
        assert "--hash=sha256:" in entry


def test_setup_installs_only_required_locks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entry = runpy.run_path(str(ROOT / "run"))
    run_globals = entry["set_up"].__globals__
    done: list[tuple[str, ...]] = []
    for name, value in {
        "ROOT": tmp_path,
        "STAMP": tmp_path / ".installed",
        "PYTHON": Path(sys.executable),
        "install": lambda locks: done.append(tuple(lock.name for lock in locks)),
    }.items():
        monkeypatch.setitem(run_globals, name, value)
    runtime = tuple(tmp_path / name for name in ("production", "embedded"))
    everything = (tmp_path / "all", *runtime)
    for lock in everything:
        lock.write_text(f"{lock.name}==1")
    for wanted in (runtime, runtime, everything, runtime, everything):
        entry["set_up"](wanted)
    assert done == [("production", "embedded"), ("all", "production", "embedded")]

    runtime[0].write_text("production==2")
    monkeypatch.setitem(run_globals, "install", lambda locks: sys.exit("no network"))
    with pytest.raises(SystemExit):
        entry["set_up"](runtime)
    assert not (tmp_path / ".installed").exists(), "an interrupted installation is repeated"


def pythons() -> list[str]:
    """Return this Python, and one of each other supported release that is installed."""
    found = [BASE_PYTHON]
    for minor in {11, 12, 13, 14} - {sys.version_info[1]}:
        path = shutil.which(f"python3.{minor}")
        # A version manager may know a name without an installed Python behind it.
        if (
            path
            and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            found.append(path)
    return [*found, BASE_PYTHON]


def describe(python: str) -> list[str]:
    words = "import sys; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])"
    return subprocess.check_output([python, "-c", words], text=True).split()


def test_run_uses_python_that_started_it(tmp_path: Path) -> None:
    """Runs in a separate checkout with empty locks."""
    shutil.copy(ROOT / "run", tmp_path / "run")
    for lock in ("requirements.lock", "deploy/requirements.lock"):
        (tmp_path / lock).parent.mkdir(exist_ok=True)
        (tmp_path / lock).touch()
    (tmp_path / "backoffice" / "devtools" / "embedded").mkdir(parents=True)
    (tmp_path / "backoffice" / "devtools" / "embedded" / "requirements.lock").touch()
    venv_python = tmp_path / ".venv" / "bin" / "python"

    def set_up(python: str) -> str:
        command = [python, str(tmp_path / "run"), "setup"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert describe(str(venv_python)) == describe(python)
        return done.stderr

    for n, python in enumerate(pythons()):
        words = "Recreating .venv with" if n else "Creating .venv with"
        if n == 0 or describe(python) != describe(str(venv_python)):
            assert f"{words} Python {describe(python)[1]} (" in set_up(python)
        assert ".venv with" not in set_up(python)
    venv_python.unlink()
    venv_python.write_text("#!/bin/sh\nexit 1\n")  # a Python of another release answers this way
    venv_python.chmod(0o755)
    assert f"Recreating .venv with Python {describe(BASE_PYTHON)[1]} (" in set_up(BASE_PYTHON)


@pytest.mark.parametrize(
    "proof", [(kind, name) for kind, names in launcher.PROOFS.items() for name in names]
)
def test_every_proof_and_benchmark_can_be_imported(proof: tuple[str, str]) -> None:
    """They are rarely run, so an import error would be found late."""
    kind, name = proof
    environment = {key: value for key, value in os.environ.items() if "SETTINGS" not in key}
    command = [sys.executable, "-c", f"import tests.{kind}.{name}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-500:]


def test_demo_uses_reason_field_of_its_sandbox() -> None:
    settings = {REASON_FIELD: "of_the_service"}
    assert environments.resolve_service_settings(settings, None) == settings
    assert REASON_FIELD not in environments.resolve_service_settings(settings, 8100)
    settings |= {"SANDBOX_ORDER_REASON_FIELD": "of_the_sandbox"}
    assert environments.resolve_service_settings(settings, 8100)[REASON_FIELD] == "of_the_sandbox"
