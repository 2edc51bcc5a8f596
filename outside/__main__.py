"""`python -m outside --port N --store PATH [--host ADDRESS] [--ready-file PATH]`. Port 0 takes a free one."""

import argparse
import json
import signal
import threading
from pathlib import Path
from types import FrameType

from outside.server import OutsideServer


def main() -> None:
    """Serve until SIGTERM or SIGINT. The ready file holds {"url"} and appears when requests are answered."""
    parser = argparse.ArgumentParser(prog="outside", description="The outside world of the tour and the tests.")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one")
    parser.add_argument("--store", type=Path, required=True, help="SQLite file; made if it is not there")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--ready-file", type=Path)
    given = parser.parse_args()
    server = OutsideServer(given.host, given.port, given.store)

    def stop(signum: int, frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()  # it waits for the loop, which runs in this thread

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if given.ready_file:
        _write_ready(given.ready_file, server.url)
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
        server.store.close()


def _write_ready(path: Path, url: str) -> None:
    """The socket listens already, so a request sent from now on is answered. Written whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"url": url}))
    partial.replace(path)


if __name__ == "__main__":
    main()
