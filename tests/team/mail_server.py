"""A mail server on a real socket that stores messages and can be made to misbehave."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message


@dataclass
class MailServer:
    port: int = 0
    taken: list[Message] = field(default_factory=list)
    refuse: str = ""
    """Its response to the recipient."""
    hold_response: threading.Event | None = None
    """If set, a message is accepted and the response waits for this event."""
    has_message: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        mail_server: MailServer = self.server.mail_server  # type: ignore[attr-defined]
        self._send("220 made-up mail server")
        for line in self.rfile:
            word = line[:4].upper().strip()
            if word in (b"EHLO", b"HELO"):
                self._send("250-at your service\r\n250 AUTH PLAIN")
            elif word == b"AUTH":
                self._send("235 welcome")
            elif word == b"RCPT" and mail_server.refuse:
                self._send(mail_server.refuse)
            elif word == b"DATA":
                self._send("354 go on")
                body = b""
                for part in self.rfile:
                    if part == b".\r\n":
                        break
                    body += part
                mail_server.taken.append(message_from_bytes(body))
                mail_server.has_message.set()
                if mail_server.hold_response is not None and not mail_server.hold_response.wait(30):
                    return
                with contextlib.suppress(OSError):
                    self._send("250 taken")
            elif word == b"QUIT":
                self._send("221 bye")
                return
            else:
                self._send("250 ok")

    def _send(self, line: str) -> None:
        self.wfile.write(line.encode() + b"\r\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextlib.contextmanager
def run_mail_server() -> Iterator[MailServer]:
    mail_server = MailServer()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.mail_server = mail_server  # type: ignore[attr-defined]
        mail_server.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield mail_server
        finally:
            server.shutdown()
