"""Wrong passwords: how often one may be tried, counted in the database, so that neither many processes nor many tries get past."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from accounts.errors import TooManyTries, WrongPassword
from accounts.models import AuditEvent, PasswordTry, User
from accounts.services import Device, actor_confirm, member_set, sign_in_counters, try_begin, try_worked
from accounts.states import Actor, Role
from console.pages.entry import DEVICE
from tests.engine.engine import Engine, sql
from tests.engine.races import together

PASSWORD = "a long enough word"
HOME, ELSEWHERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture
def ida(engine: Engine) -> Iterator[str]:
    """Somebody with a password."""
    yield member_set(
        tenant=engine.tenant, username="ida", password=PASSWORD, roles=frozenset({Role.APPROVER})
    ).user.username
    PasswordTry.objects.all().delete()


def counters(name: str = "ida", address: str = HOME, device: Device | None = None) -> Any:
    return sign_in_counters(name=name, address=address, device=device)


def tries(count: int, *args: Any, **kwargs: Any) -> list[bool]:
    """Whether each of so many tries may be made."""
    return [try_begin(counters(*args, **kwargs)) is None for _ in range(count)]


def later(seconds: int) -> None:
    """Let so many seconds pass, by the database's clock."""
    sql("UPDATE accounts_passwordtry SET last_at = last_at - make_interval(secs => %s), "
        "next_at = next_at - make_interval(secs => %s)", seconds, seconds)  # fmt: skip


# ── counted ──────────────────────────────────────────────────────────────────


def test_the_fifth_wrong_try_has_the_next_one_wait_and_each_after_it_longer(ida: str) -> None:
    assert tries(6) == [True] * 5 + [False]
    waits = []
    for _ in range(8):
        refused = try_begin(counters())
        assert isinstance(refused, TooManyTries) and refused.status == 429
        waits.append(refused.facts["seconds"])
        later(refused.facts["seconds"])
        assert tries(1) == [True]
    assert waits == [15, 30, 60, 120, 240, 480, 900, 900]


def test_an_hour_without_any_starts_anew(ida: str) -> None:
    assert not all(tries(6))
    later(3601)
    assert tries(6) == [True] * 5 + [False]


def test_a_right_password_forgets_the_wrong_ones_before_it(ida: str) -> None:
    tries(4)
    assert tries(1) == [True]
    try_worked(counters())
    assert tries(6) == [True] * 5 + [False]


def test_of_many_tries_at_once_as_many_get_through_as_one_after_the_other(ida: str) -> None:
    outcomes = together(*[partial(try_begin, counters())] * 24)
    assert len([one for one in outcomes if one is None]) == 5


def test_the_database_counts_nothing_below_zero(ida: str) -> None:
    tries(1)
    with pytest.raises(DatabaseError, match="tries_not_negative"):
        sql("UPDATE accounts_passwordtry SET wrong = -1")


def test_what_is_counted_names_nobody_and_goes_after_a_day(ida: str) -> None:
    """A password that was typed in the place of the name is read by nobody either."""
    tries(1, name="my very secret password")
    stored = str(sql("SELECT t::text FROM accounts_passwordtry t"))
    assert "secret" not in stored and HOME not in stored
    before = set(PasswordTry.objects.values_list("key", flat=True))
    later(24 * 3600 + 1)
    tries(1, name="another", address=ELSEWHERE)
    assert not before & set(PasswordTry.objects.values_list("key", flat=True))


# ── nobody keeps anybody out ─────────────────────────────────────────────────


def test_tries_from_elsewhere_do_not_keep_somebody_out_at_home(ida: str) -> None:
    assert not all(tries(20, address=ELSEWHERE))
    assert tries(1, address=HOME) == [True]


def test_a_browser_that_is_known_waits_for_nobody_elses_tries(ida: str) -> None:
    """Not even where the whole world tries this name, or everybody behind this address does."""
    for number in range(60):
        try_begin(counters(address=f"203.0.113.{number}"))
    assert tries(1, address="203.0.113.200") == [False]
    known = Device(ida, "nonce")
    assert tries(1, device=known) == [True]
    assert not all(tries(20, address=HOME, device=known))
    assert tries(1, address=HOME, device=Device(ida, "another")) == [True]


def test_a_known_browser_is_known_for_its_person_only(ida: str) -> None:
    tries(6)
    assert tries(1, device=Device("otto", "nonce")) == [False]


def test_one_name_from_many_addresses_is_slowed_down_and_never_for_longer_than_a_minute(ida: str) -> None:
    waits = []
    for number in range(120):
        refused = try_begin(counters(address=f"203.0.113.{number}"))
        if refused is not None:
            waits.append(refused.facts["seconds"])
            later(refused.facts["seconds"])
    assert waits and max(waits) <= 60


def test_many_names_from_one_address_are_slowed_down(ida: str) -> None:
    allowed = [try_begin(counters(name=f"user{number}")) is None for number in range(120)]
    assert allowed[:100] == [True] * 100 and not all(allowed)


# ── at the door ──────────────────────────────────────────────────────────────


def sign_in(client: Client, password: str, address: str = HOME) -> Any:
    return client.post("/sign-in/", {"username": "ida", "password": password}, REMOTE_ADDR=address)


def test_signing_in_says_when_one_may_try_again_and_takes_no_right_password_before(engine: Engine, ida: str) -> None:
    client = Client()
    for _ in range(5):
        answer = sign_in(client, "guessed")
        assert answer.status_code == 200 and "do not belong together" in answer.content.decode()
    waiting = sign_in(client, PASSWORD)
    assert waiting.status_code == 429 and 1 <= int(waiting["Retry-After"]) <= 15
    assert "Too many wrong passwords were given. Try again in" in waiting.content.decode()
    assert "_auth_user_id" not in client.session
    later(15)
    assert sign_in(client, PASSWORD).status_code == 302
    assert client.cookies[DEVICE]["httponly"] and client.cookies[DEVICE]["samesite"] == "Lax"


def test_wrong_passwords_are_audited_and_what_the_limit_refuses_is_not(engine: Engine, ida: str) -> None:
    for _ in range(9):
        sign_in(Client(), "guessed")
    rows = AuditEvent.objects.filter(tenant=engine.tenant, action="sign_in.refused").order_by("seq")
    assert [row.detail["wrong"] for row in rows] == [1, 2, 3, 4, 5]
    assert {(row.actor, row.detail["person"]) for row in rows} == {(f"address:{HOME}", "ida")}
    assert "guessed" not in str(list(rows.values()))


def test_a_name_that_nobody_has_is_answered_alike_and_fills_no_chain(engine: Engine, ida: str) -> None:
    before = AuditEvent.objects.count()
    answers = [
        Client().post("/sign-in/", {"username": "nobody", "password": "x"}, REMOTE_ADDR=ELSEWHERE) for _ in range(6)
    ]
    assert [one.status_code for one in answers] == [200] * 5 + [429]
    assert AuditEvent.objects.count() == before


def test_a_browser_on_which_somebody_signed_in_is_known_by_a_cookie_that_nobody_else_can_make(ida: str) -> None:
    known = Client()
    sign_in(known, PASSWORD)
    for _ in range(6):
        sign_in(Client(), "guessed")
    stranger = Client()
    stranger.cookies[DEVICE] = "ida:nonce:forged"
    assert sign_in(stranger, PASSWORD).status_code == 429
    known.post("/sign-out/")
    assert sign_in(known, PASSWORD).status_code == 302


def test_a_person_who_is_switched_off_is_not_told_apart(engine: Engine, ida: str) -> None:
    User.objects.filter(username=ida).update(is_active=False)
    try:
        assert "do not belong together" in sign_in(Client(), PASSWORD).content.decode()
    finally:
        User.objects.filter(username=ida).update(is_active=True)


# ── confirming ───────────────────────────────────────────────────────────────


def test_confirming_a_decision_has_the_same_limit_each_door_by_itself(engine: Engine, ida: str) -> None:
    page = Actor(engine.tenant.id, ida, frozenset({"approver"}))
    token = Actor(engine.tenant.id, ida, frozenset({"approver"}), door="api")
    outcomes = [actor_confirm(actor=token, password="guessed") for _ in range(7)]
    assert [type(one) for one in outcomes] == [WrongPassword] * 5 + [TooManyTries] * 2
    assert isinstance(actor_confirm(actor=token, password=PASSWORD), TooManyTries)
    assert isinstance(actor_confirm(actor=page, password=PASSWORD), Actor)
    codes = [row.detail["code"] for row in AuditEvent.objects.filter(action="password.confirm.refused")]
    assert codes == ["WRONG_PASSWORD"] * 5 + ["TOO_MANY_TRIES"] * 3
