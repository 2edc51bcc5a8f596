"""The live socket. The browser names topics and gets hints; the content it fetches over HTTP, under all of HTTP's rules.

From the browser: {"subscribe": [topic, …]}, which replaces the topics. Topics are `runs`, `inbox` and `run:ID`. And
{"probe": true}, to see that somebody answers; it costs no query.
To the browser: {"subscribed": […], "refused": […]} or {"heard": seq, "hears": bool} after each of those, {"kind", "id"?, "seq"}
when a topic changed, and {"kind": "resync", "seq", "hears"} when hints may have been lost, or are being lost while `hears` is
false. `seq` counts on this connection (ruling 20); `heard` is the last one sent.
"""

import asyncio
import json
from functools import lru_cache
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from channels.consumer import get_handler_name
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from accounts.selectors import signed_in
from accounts.states import Actor, Permission
from runs.canonical import NotCanonical, parse
from runs.consumers.hub import SESSION_ENDED, hub
from runs.selectors import runs_visible

UNREADABLE = 4400
MAX_MESSAGE_BYTES = 16 * 1024
MAX_TOPICS = 50
LISTS = frozenset({"runs", "inbox"})
RESYNC = "resync"
PROBE = {"probe": True}

# All sockets of a process ask the database in one thread. One session has one question there at a time, so that many sockets of it
# that ask without end wait for each other, and delay nobody else's.
_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def _turn(session_key: str) -> asyncio.Lock:
    return _turns.setdefault(session_key, asyncio.Lock())


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """One browser tab. What waits to be sent is a set of topics, so a slow reader delays nobody and fills nothing."""

    session_key: str
    actor: Actor

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Handle what comes in. Channels would first look at old connections in the one thread, and so keep each message, a probe as
        well, behind what is asked there; whoever asks the database here has them looked at by itself.
        """
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        """Accept a member's session; refuse everybody else before the handshake ends."""
        self.topics: frozenset[str] = frozenset()
        self.sequence = 0
        self.waiting: dict[str, None] = {}
        self.wake = asyncio.Event()
        self.closing: int | None = None
        self.sender: asyncio.Task[None] | None = None
        self.session_key = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        async with _turn(self.session_key):
            person = (await database_sync_to_async(signed_in)([self.session_key])).get(self.session_key)
        if person is None:
            await self.close(SESSION_ENDED)
            return
        self.actor = person
        await self.accept()
        hub().join(self)
        self.sender = asyncio.create_task(self._send_waiting())

    async def disconnect(self, code: int) -> None:
        """The other side is gone, or we have closed."""
        if self.sender is not None:
            hub().leave(self)
            self.sender.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer a probe, or replace the topics."""
        message = _read(text_data or "")
        asked = _asked_topics(message)
        if message == PROBE:
            await self.send(text_data=json.dumps({"heard": self.sequence, "hears": hub().hears}))
        elif asked is None:
            self.end(UNREADABLE)
        else:
            await self._subscribe(asked)

    async def _subscribe(self, asked: frozenset[str]) -> None:
        """Have those of the topics that the person may see; a foreign run is refused like a missing one."""
        granted = self.topics & asked
        granted |= asked & LISTS if self.actor.may(Permission.READ) else frozenset()
        if new := asked - granted:
            async with _turn(self.session_key):
                if self.closing is None:
                    granted |= await database_sync_to_async(_granted)(self.actor, new)
        if self.closing is not None:
            return
        added, self.topics = granted - self.topics, granted
        answer = {"subscribed": sorted(granted), "refused": sorted(asked - granted)}
        await self.send(text_data=json.dumps(answer))
        self._tell_missed(added)

    def _tell_missed(self, added: frozenset[str]) -> None:
        """What changed between the drawing of the page and this moment would otherwise never be heard."""
        if not added:
            return
        recent = hub().recent(self.actor)
        if recent is None:
            self.ask_again()
        else:
            self._hint(added & {topic for run_id in recent for topic in _topics_of(run_id)})

    # ── what the hub calls ──

    def changed(self, run_id: str) -> None:
        self._hint(self.topics & _topics_of(run_id))

    def ask_again(self) -> None:
        self._hint(frozenset({RESYNC}))

    def end(self, code: int) -> None:
        self.closing = code
        self.topics = frozenset()
        self.wake.set()

    # ── sending ──

    def _hint(self, topics: frozenset[str]) -> None:
        self.waiting |= dict.fromkeys(sorted(topics))
        self.wake.set()

    async def _send_waiting(self) -> None:
        """The only task that sends hints. It waits for this one reader; meanwhile topics gather, each once."""
        try:
            while self.closing is None:
                await self.wake.wait()
                self.wake.clear()
                while self.waiting and self.closing is None:
                    topic = next(iter(self.waiting))
                    del self.waiting[topic]
                    number = self.sequence + 1
                    await self.send(text_data=json.dumps(_said(topic) | {"seq": number}))
                    self.sequence = number
            await self.close(self.closing)
        except OSError:
            return  # the other side is gone; disconnect() follows


@lru_cache  # a change is asked about by each of its viewers
def _topics_of(run_id: str) -> frozenset[str]:
    """The topics that a change of a run is about: whatever changes in a run may change both lists."""
    return LISTS | {f"run:{run_id}"}


def _said(topic: str) -> dict[str, Any]:
    """A topic as the browser reads it."""
    kind, _, run_id = topic.partition(":")
    if kind == RESYNC:
        return {"kind": kind, "hears": hub().hears}
    return {"kind": kind, "id": run_id} if run_id else {"kind": kind}


def _read(text: str) -> Any:
    """What a message says; None for one that can't be read."""
    try:
        return parse(text, max_bytes=MAX_MESSAGE_BYTES)
    except NotCanonical:
        return None


def _asked_topics(message: Any) -> frozenset[str] | None:
    """The topics that a message names, or None for a message that is not understood."""
    topics = message.get("subscribe") if isinstance(message, dict) else None
    if not isinstance(topics, list) or len(topics) > MAX_TOPICS or not all(isinstance(one, str) for one in topics):
        return None
    return frozenset(topics)


def _granted(actor: Actor, topics: frozenset[str]) -> frozenset[str]:
    """Those of the topics that are runs which the person may see, in one query."""
    ids = [
        run_id for topic in topics if (run_id := _run_id(topic)) and topic == f"run:{run_id}"
    ]  # one way to write each
    return frozenset(f"run:{found}" for found in runs_visible(actor).filter(id__in=ids).values_list("id", flat=True))


def _run_id(topic: str) -> UUID | None:
    kind, _, named = topic.partition(":")
    try:
        return UUID(named) if kind == "run" else None
    except ValueError:
        return None
