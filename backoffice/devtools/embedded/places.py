"""Folders and accounts: where the servers of this checkout live, and whom they run as."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
SOCKET_PATH_MAX: Final = 100
"""Bytes. The kernel takes 108 on Linux and 104 elsewhere, its closing zero included."""


class ServersError(Exception):
    """A server could not be started. The text is a sentence for the person at the terminal."""


@dataclass(frozen=True)
class Account:
    """Whom servers run as, when that is not who we are."""

    uid: int
    gid: int


def account() -> Account | None:
    """`nobody` under root, None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    for name in ("nobody", "postgres"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise ServersError("PostgreSQL refuses to run as root, and there is no user nobody to run as.")


def home() -> Path:
    """Folder of this checkout's servers. Not made by asking."""
    var = ROOT / "var"
    if os.geteuid() != 0 or _open_to_all(ROOT):
        return var
    digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
    return Path("/var/tmp") / f"backoffice-{digest}"  # noqa: S108 - owner is checked before use


def make_home(base: Path, who: Account | None) -> None:
    """Make the folders of a home, each owned by who writes it."""
    if base.is_symlink() or (base.exists() and base.stat().st_uid != os.geteuid()):
        raise ServersError(f"{base} belongs to somebody else: move it away, or set DATABASE_URL.")
    try:
        base.mkdir(mode=0o711, parents=True, exist_ok=True)
        base.chmod(0o711 if who else 0o700)
        folder(base / "log", 0o700, None)
        if not (base / "postgres").exists():
            folder(base / "postgres", 0o700, who)
        folder(base / "valkey", 0o700, who)
        folder(sockets_of(base), 0o700, who)
    except OSError as error:
        raise ServersError(f"{base} cannot be written: {error.strerror}.") from error


def folder(path: Path, mode: int, who: Account | None) -> None:
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    path.chmod(mode)
    if who:
        os.chown(path, who.uid, who.gid)


def sockets_of(base: Path) -> Path:
    """Folder of the sockets: in `base`, or in the system's temporary one when that is too long."""
    inside = base / "sockets"
    if len(os.fsencode(inside / ".s.PGSQL.65535.lock")) < SOCKET_PATH_MAX:
        return inside
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:12]
    return Path("/tmp") / f"backoffice-{os.geteuid()}-{digest}"  # noqa: S108 - 0700, ours


def _open_to_all(path: Path) -> bool:
    """Whether any user may enter `path`, through all its parents."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def let_all_read(top: Path) -> None:
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
