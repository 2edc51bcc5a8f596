"""How often a password may be tried: counted in the database before it is looked at, so that any number of processes agree.

Each key counts by itself. After some tries that are free each wrong one has the next wait, longer and longer up to a limit, and
an hour without any starts anew. Nobody is locked out: whoever waits may try again at a time that is said.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from accounts.errors import TooManyTries
from accounts.statements import fetch
from accounts.states import Actor


@dataclass(frozen=True)
class Counter:
    """What tries are counted by. `free` wrong ones cost nothing; then each waits, at most `longest` seconds."""

    key: str
    free: int
    longest: int


@dataclass(frozen=True)
class Device:
    """A browser on which somebody has signed in before."""

    username: str
    nonce: str


# A wrong name may be a password that was typed into the wrong field, so nobody can read what was tried.
def _key(*parts: str) -> str:
    return hmac.digest(settings.SECRET_KEY.encode(), "\0".join(parts).encode(), "sha256").hex()


def sign_in_counters(*, name: str, address: str, device: Device | None) -> list[Counter]:
    """What a try to sign in counts by: of a browser on which this person has signed in before, that browser alone, so that
    nobody else's tries keep them out. Else this name from this address, this name from anywhere, and this address.
    """
    if device is not None and hmac.compare_digest(device.username.encode(), name.encode()):
        return [Counter(_key("device", name, device.nonce), 10, 900)]
    return [
        Counter(_key("here", name, address), 5, 900),
        Counter(_key("name", name), 50, 60),
        Counter(_key("address", address), 100, 60),
    ]


def confirm_counters(actor: Actor) -> list[Counter]:
    """What a try to confirm counts by: only who has signed in, or holds a token, tries here, each on their own door."""
    return [Counter(_key("confirm", str(actor.tenant_id), actor.door, actor.name), 5, 900)]


# The try is counted as wrong before anybody knows. The condition is asked again once the row is locked.
_TAKE = """
WITH old AS (
    DELETE FROM accounts_passwordtry WHERE key IN (
        SELECT key FROM accounts_passwordtry WHERE last_at < clock_timestamp() - interval '1 day' AND key <> %(key)s::text
        ORDER BY last_at LIMIT 20 FOR UPDATE SKIP LOCKED))
INSERT INTO accounts_passwordtry AS t (key, wrong, last_at, next_at)
VALUES (%(key)s::text, 1, clock_timestamp(), clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
    wrong = CASE WHEN t.last_at < clock_timestamp() - interval '1 hour' THEN 1 ELSE t.wrong + 1 END,
    last_at = clock_timestamp(),
    next_at = clock_timestamp() + make_interval(secs => CASE
        WHEN t.last_at < clock_timestamp() - interval '1 hour' OR t.wrong + 1 < %(free)s::int THEN 0
        ELSE least(%(longest)s::float8, 15 * 2.0 ^ least(t.wrong + 1 - %(free)s::int, 12)) END)
WHERE t.next_at <= clock_timestamp()
RETURNING t.wrong"""

_WHEN = """
SELECT next_at, ceil(extract(epoch FROM next_at - clock_timestamp()))::int FROM accounts_passwordtry
WHERE key = %(key)s::text AND next_at > clock_timestamp()"""

_BACK = """
UPDATE accounts_passwordtry SET wrong = greatest(wrong - 1, 0),
    next_at = CASE WHEN wrong - 1 < %(free)s::int THEN clock_timestamp() ELSE next_at END
WHERE key = %(key)s::text RETURNING key"""

_FORGET = "DELETE FROM accounts_passwordtry WHERE key = %(key)s::text RETURNING key"


class _Waits(Exception):
    """One of the counters has this try wait."""

    def __init__(self, counter: Counter) -> None:
        super().__init__(counter.key)
        self.counter = counter


def try_begin(counters: Sequence[Counter]) -> TooManyTries | None:
    """Count a try, as a wrong one, with every counter, or with none and say when the next one may be made. Called before the
    password is looked at; outside any transaction.
    """
    try:
        with transaction.atomic():
            for counter in sorted(counters, key=lambda one: one.key):
                if not fetch(_TAKE, vars(counter)):
                    raise _Waits(counter)
    except _Waits as waits:
        for next_at, seconds in fetch(_WHEN, {"key": waits.counter.key}):
            return _too_many(next_at, seconds)
        return try_begin(counters)  # the time was over in this very moment
    return None


def _too_many(next_at: datetime, seconds: int) -> TooManyTries:
    return TooManyTries({"at": f"{next_at:%H:%M:%S} UTC", "seconds": max(1, seconds)})


def try_worked(counters: Sequence[Counter]) -> None:
    """Take a try back that was right: the first counter, which is this person's own, is forgotten, the others have it back."""
    own = counters[0]
    with transaction.atomic():
        for counter in sorted(counters, key=lambda one: one.key):
            if counter == own:
                fetch(_FORGET, {"key": own.key})
            else:
                fetch(_BACK, {"key": counter.key, "free": counter.free})


def wrong_so_far(counters: Sequence[Counter]) -> int:
    """How many wrong tries the person's own counter has now."""
    found = fetch("SELECT wrong FROM accounts_passwordtry WHERE key = %(key)s::text", {"key": counters[0].key})
    return int(found[0][0]) if found else 0
