"""Folders and accounts of the servers of this checkout."""

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
"""The longest socket path in bytes.

The kernel accepts 108 on Linux and 104 elsewhere, with the final zero byte.
"""


class ServersError(Exception):
    """A server could not be started; the message is for the person at the terminal."""


@dataclass(frozen=True)
class Account:
    """The account that runs the servers, when it is not the current user."""

    uid: int
    gid: int


def account() -> Account | None:
    """Return the account `nobody` for root, and None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    for name in ("nobody", "postgres"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise ServersError("PostgreSQL refuses to run as root, and there is no user nobody to run as.")


def home() -> Path:
    """Return the base folder of this checkout; it may not exist yet."""
    var = ROOT / "var"
    if os.geteuid() != 0 or _is_traversable(ROOT):
        return var
    digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
    return Path("/var/tmp") / f"backoffice-{digest}"  # noqa: S108 - owner is checked before use


def make_home(base: Path, owner: Account | None) -> None:
    """Create the folders in a base folder, each owned by the account that writes it."""
    if base.is_symlink() or (base.exists() and base.stat().st_uid != os.geteuid()):
        raise ServersError(f"{base} belongs to another user. Move it away, or set DATABASE_URL.")
    try:
        base.mkdir(mode=0o711, parents=True, exist_ok=True)
        base.chmod(0o711 if owner else 0o700)
        folder(base / "log", 0o700, None)
        if not (base / "postgres").exists():
            folder(base / "postgres", 0o700, owner)
        folder(base / "valkey", 0o700, owner)
        folder(sockets_of(base), 0o700, owner)
    except OSError as error:
        raise ServersError(f"{base} cannot be written: {error.strerror}.") from error


def folder(path: Path, mode: int, owner: Account | None) -> None:
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    path.chmod(mode)
    if owner:
        os.chown(path, owner.uid, owner.gid)


def sockets_of(base: Path) -> Path:
    """Return the folder of the sockets.

    It is in `base`, or in the system's temporary folder when that path would be too long.
    """
    inside = base / "sockets"
    if len(os.fsencode(inside / ".s.PGSQL.65535.lock")) < SOCKET_PATH_MAX:
        return inside
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:12]
    return Path("/tmp") / f"backoffice-{os.geteuid()}-{digest}"  # noqa: S108 - 0700, ours


def _is_traversable(path: Path) -> bool:
    """Return whether any user can enter `path`, through all its parents."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def let_all_read(top: Path) -> None:
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
