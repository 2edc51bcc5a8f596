"""One POST to an address that was checked just now: no redirects, no proxies of the surroundings, bounded in time and size."""

import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpcore

from runtime.gateways.addresses import Ip, Target

MAX_ANSWER_BYTES = 64 * 1024


class NotTaken(Exception):
    """The other side did not take it. `again`: it may, at another time. The message names no address."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


def post(target: Target, body: bytes, *, headers: Mapping[str, str], seconds: float) -> None:
    """Send the body to the IP address that was checked, under the name that it was checked for: the certificate must be
    that name's. The limit holds for everything together. Raises NotTaken.
    """
    wanted = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
    try:
        with (
            httpcore.ConnectionPool(network_backend=_Pinned(target.ip, seconds)) as pool,
            pool.stream(
                "POST", wanted, headers=list({"Host": target.authority, **headers}.items()), content=body
            ) as got,
        ):
            _read(got.iter_stream())
            status = got.status
    except httpcore.TimeoutException as error:
        raise NotTaken(f"It did not answer in full within {seconds:g} s.", again=True) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError) as error:
        raise NotTaken(f"The connection failed ({type(error).__name__}).", again=True) from error
    if 300 <= status < 400:
        raise NotTaken(f"It answered {status}, and leads elsewhere. Nobody follows.", again=False)
    if not 200 <= status < 300:
        raise NotTaken(f"It answered {status}.", again=status in (408, 425, 429) or status >= 500)


def _read(pieces: Iterable[bytes]) -> None:
    """Take the answer in, as far as anybody needs it."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            return


class _Pinned(httpcore.NetworkBackend):
    """Connects to one IP address, whatever name it is asked for, and gives everything on the wire one deadline."""

    def __init__(self, ip: Ip, seconds: float) -> None:
        self._ip = str(ip)
        self._deadline = time.monotonic() + seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        stream = httpcore.SyncBackend().connect_tcp(self._ip, port, timeout=_left(self._deadline))
        return _Bounded(stream, self._deadline)


class _Bounded(httpcore.NetworkStream):
    """A stream whose reads and writes end at the deadline. A plain timeout starts anew with every piece."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, _left(self._deadline))
        return _Bounded(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float) -> float:
    """The seconds that are left. Raises ReadTimeout when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout
    return left
