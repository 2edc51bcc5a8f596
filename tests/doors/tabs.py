"""A running web server, and sockets as browser tabs open them."""

import json
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from accounts.models import Membership, Tenant, User
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from runs.models import Run
from runtime.services import Started, StartRequest, Upload, run_start
from tests.doors.world import ALDER, ALL, BIRCH
from tests.waiting import wait_until

SECONDS = 10


class Tab:
    """A browser tab: its socket, and what came in."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.sequence = 0

    def receive(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The next message. Hints must be numbered without a gap."""
        message: dict[str, Any] = json.loads(self.socket.recv(timeout=seconds))
        if "kind" in message:
            self.sequence += 1
            assert message["seq"] == self.sequence, message
        return message

    def hears(self, topic: str) -> bool:
        """Whether the topic is among what comes in within a moment."""
        try:
            return self.topic(0.2) == topic
        except TimeoutError:
            return False

    def topic(self, seconds: float = SECONDS) -> str:
        """The next topic that is hinted; a young hub may ask to be asked again in between."""
        while (message := self.receive(seconds)).get("kind") == "resync":
            pass
        return f"{message['kind']}:{message['id']}" if "id" in message else str(message["kind"])

    def subscribe(self, *topics: str) -> dict[str, Any]:
        self.socket.send(json.dumps({"subscribe": topics, "since": 0}))
        while "subscribed" not in (message := self.receive()):
            pass
        return message

    def closed(self) -> int:
        """Read until the server has closed; the code."""
        while True:
            try:
                self.receive()
            except ConnectionClosed as end:
                return end.rcvd.code if end.rcvd else 1006


class Site:
    """A running web server, a tenant with one person, and sockets as that person's browser opens them."""

    def __init__(self, url: str, opened: ExitStack) -> None:
        self.url, self.opened = url, opened
        name = f"live-{uuid4().hex}"
        self.tenant: Tenant = tenant_create(slug=name, name="Live")
        self.person = self.member(ALL)

    def member(self, roles: frozenset[Role]) -> Membership:
        return member_set(tenant=self.tenant, username=uuid4().hex, password=None, roles=roles)

    def warm_up(self) -> None:
        """Open a first tab, and wait until a hint reaches it."""
        run, tab = self.run(), self.open()
        tab.subscribe(f"run:{run.id}")

        def heard() -> bool:
            notify(run)
            return tab.hears(f"run:{run.id}")

        wait_until(heard, "the web server listens")
        tab.socket.close()

    def cookie(self, user: User | None = None) -> str:
        """The session cookie of a person who has just signed in."""
        browser = Client()
        browser.force_login(User.objects.get(id=(user or self.person.user).id))
        return browser.cookies["sessionid"].value

    def open(self, cookie: str | None = None) -> Tab:
        held = self.cookie() if cookie is None else cookie
        return Tab(self.opened.enter_context(self.connect(held, self.url.rstrip("/"))))

    def connect(self, cookie: str, origin: str | None) -> ClientConnection:
        """A socket as a browser with this cookie opens it from a page of this origin."""
        return connect(
            self.url.replace("http://", "ws://") + "ws/live/",
            additional_headers={"Cookie": f"sessionid={cookie}"} if cookie else {},
            origin=Origin(origin) if origin else None,
            proxy=None,
            close_timeout=0.2,
        )

    def run(self, membership: Membership | None = None) -> Run:
        member = membership or self.person
        actor = Actor(member.tenant_id, member.user.username, frozenset(member.roles))
        inputs = {"a": Upload("alder.csv", ALDER.encode()), "b": Upload("birch.csv", BIRCH.encode())}
        outcome = run_start(actor=actor, wanted=StartRequest("fund_comparison", inputs))
        assert isinstance(outcome, Started)
        return Run.objects.get(id=outcome.run_id)


def notify(run: Run) -> None:
    """A hint as the workers send it."""
    with connection.cursor() as cursor:
        payload = json.dumps({"tenant": str(run.tenant_id), "run": str(run.id)})
        cursor.execute("SELECT pg_notify('signalbox', %s)", [payload])
