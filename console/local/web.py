"""`python -m console.local.web FD`: uvicorn on a listening socket inherited from the supervisor.

uvicorn's own `--fd` takes every socket for a Unix one, which loses the client's address.
"""

import socket
import sys

import uvicorn


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    config = uvicorn.Config(
        "console.asgi:application",
        lifespan="off",
        access_log=False,
        timeout_graceful_shutdown=3,
        ws_max_size=64 * 1024,  # four times what is read of a message; without a bound 16 MB of each are kept first
        ws_per_message_deflate=False,  # a hint is shorter than what packing it would add, for each of its readers
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
