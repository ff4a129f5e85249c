"""A mail server on a real socket, that keeps what it takes and can be told to misbehave."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message


@dataclass
class Post:
    port: int = 0
    taken: list[Message] = field(default_factory=list)
    refuse: str = ""
    """Its answer to who the mail is for."""
    hold: threading.Event | None = None
    """Set: a message is taken, and the answer waits for this."""
    got: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"


class _Talk(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        post: Post = self.server.post  # type: ignore[attr-defined]
        self._say("220 made-up mail server")
        for line in self.rfile:
            word = line[:4].upper().strip()
            if word in (b"EHLO", b"HELO"):
                self._say("250-at your service\r\n250 AUTH PLAIN")
            elif word == b"AUTH":
                self._say("235 welcome")
            elif word == b"RCPT" and post.refuse:
                self._say(post.refuse)
            elif word == b"DATA":
                self._say("354 go on")
                body = b""
                for part in self.rfile:
                    if part == b".\r\n":
                        break
                    body += part
                post.taken.append(message_from_bytes(body))
                post.got.set()
                if post.hold is not None and not post.hold.wait(30):
                    return
                with contextlib.suppress(OSError):
                    self._say("250 taken")
            elif word == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, words: str) -> None:
        self.wfile.write(words.encode() + b"\r\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextlib.contextmanager
def posting() -> Iterator[Post]:
    post = Post()
    with _Server(("127.0.0.1", 0), _Talk) as server:
        server.post = post  # type: ignore[attr-defined]
        post.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield post
        finally:
            server.shutdown()
