"""A model provider on this machine that speaks the wire format of chat completions, or refuses to."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ChatServer:
    """What the server says to the next requests, and what it was asked. `status`: 0 drops, -1 never answers.

    `plays` may look at a request and set the answer before it is given.
    """

    url: str = ""
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    plays: Callable[[dict[str, Any]], None] | None = None
    keys: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def says(self, message: dict[str, Any], **rest: Any) -> None:
        """Answer with this assistant message."""
        self.status = 200
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "test-model",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 123, "completion_tokens": 45, "total_tokens": 168},
        }
        self.body = json.dumps(answer | rest).encode()

    def calls(self, *calls: tuple[str, str]) -> None:
        """Answer with tool calls, each given as name and arguments as the model wrote them."""
        self.says(
            {
                "content": None,
                "tool_calls": [
                    {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
                    for number, (name, arguments) in enumerate(calls)
                ],
            }
        )


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Serve until the block ends."""
    chat = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            chat.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            chat.keys.append(self.headers.get("Authorization", ""))
            if chat.plays is not None:
                chat.plays(chat.requests[-1])
            if chat.status == -1:
                chat.ended.wait()
            if chat.status <= 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(chat.status)
            self.send_header("Content-Type", "application/json")
            for name, value in chat.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(chat.body)))
            self.end_headers()
            self.wfile.write(chat.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield chat
        finally:
            chat.ended.set()
            server.shutdown()
            thread.join()
