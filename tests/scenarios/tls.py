"""A server that speaks TLS before the database: the client's half of every session is real."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.certificates import certificate

WANTS_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # libpq's SSLRequest


class TlsFront:
    """Takes libpq's connections, answers its wish for TLS, and hands on to the server whose socket is in a folder."""

    def __init__(self, socket_dir: Path, folder: Path) -> None:
        self._database = str(socket_dir / ".s.PGSQL.5432")
        self._context = certificate(folder, "localhost").context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.broken: list[str] = []
        self.sessions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Take nobody any more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(ConnectionError):
            if client.recv(8) != WANTS_TLS:
                self.broken.append("a client that wants no TLS")
                client.close()
                return
            client.sendall(b"S")
            try:
                secured = self._context.wrap_socket(client, server_side=True)
            except OSError as error:
                self.broken.append(str(error))
                return
            self.sessions += 1
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._database)
            threading.Thread(target=self._pump, args=(server, secured), daemon=True).start()
            self._pump(secured, server)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        """Until one side ends. A record that can't be deciphered is what two processes on one session would cause."""
        try:
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
        except OSError as error:
            if "MAC" in str(error).upper() or "DECRYPT" in str(error).upper():
                self.broken.append(str(error))
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def tls_front(socket_dir: Path, folder: Path) -> Iterator[TlsFront]:
    """A front before the server whose socket is in `socket_dir`."""
    front = TlsFront(socket_dir, folder)
    try:
        yield front
    finally:
        front.close()
