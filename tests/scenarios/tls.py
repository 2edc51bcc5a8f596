"""A server that speaks TLS before the database: the client's half of every session is real."""

import select
import socket
import ssl
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
        with client, suppress(ConnectionError):
            if client.recv(8) != WANTS_TLS:
                self.broken.append("a client that wants no TLS")
                return
            client.sendall(b"S")
            try:
                with self._context.wrap_socket(client, server_side=True) as secured:
                    self.sessions += 1
                    self._carry(secured)
            except ssl.SSLError as error:
                # What two processes on one session would cause: a record that can't be deciphered. Killed ones say no goodbye.
                if "EOF" not in str(error):
                    self.broken.append(str(error))

    def _carry(self, secured: ssl.SSLSocket) -> None:
        """To the database and back, until one side ends. In one thread: a TLS session is not for two."""
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self._database)
            others: dict[socket.socket, socket.socket] = {secured: server, server: secured}
            while True:
                ready = [secured] if secured.pending() else select.select(list(others), [], [])[0]
                for source in ready:
                    chunk = source.recv(1 << 16)
                    if not chunk:
                        return
                    others[source].sendall(chunk)


@contextmanager
def tls_front(socket_dir: Path, folder: Path) -> Iterator[TlsFront]:
    """A front before the server whose socket is in `socket_dir`."""
    front = TlsFront(socket_dir, folder)
    try:
        yield front
    finally:
        front.close()
