"""Who may do what, as a table; and every act that has several doors, tried through each of them by each role: one answer.

The acts are paired here by what they do. A route or a verb that acts and stands neither in a pair nor alone fails the suite.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from accounts.states import GRANTS, Permission, Role
from approvals.models import Wait
from tests.doors.routes import ROUTES, VERBS, Verb
from tests.doors.test_access import ask, browser, methods
from tests.doors.test_same_answer import CODE, DOORS, Said
from tests.doors.things import Things
from tests.doors.world import OPERATOR, STRANGER, Doors, manage
from tests.engine.engine import demand

# What is promised of each role. The product's own table (accounts.states.GRANTS) is held against it.
TABLE = """
             viewer  operator  approver  reconciler  auditor  governance
read           x        x         x          x          .         x
start          .        x         .          .          .         .
stop           .        x         .          .          .         .
pause          .        x         .          .          .         .
resume         .        x         .          .          .         .
settle         .        x         .          .          .         .
revise         .        x         .          .          .         .
budget         .        x         .          .          .         .
decide         .        .         x          .          .         .
reconcile      .        .         .          x          .         .
release        .        .         x          x          .         .
audit          .        .         .          .          x         .
retain         .        .         .          .          .         x
govern         .        .         .          .          .         x
notify         .        x         .          .          .         .
"""


def promised() -> dict[tuple[str, str], bool]:
    """(permission, role) to whether it is promised."""
    head, *rows = TABLE.strip().splitlines()
    cells = [row.split() for row in rows]
    return {(name, role): mark == "x" for name, *marks in cells for role, mark in zip(head.split(), marks, strict=True)}


PROMISED = promised()


def test_every_role_may_exactly_what_the_table_says() -> None:
    granted = {(str(one), str(role)): one in GRANTS[role] for one in Permission for role in Role}
    assert granted == PROMISED


# ── the acts, by their doors ──


@dataclass(frozen=True)
class Ways:
    """The doors of one act: a page's route (with what tells it from the other acts of that page), an API route, a verb."""

    page: str = ""
    api: str = ""
    verb: tuple[str, ...] = ()
    fields: tuple[tuple[str, Any], ...] = ()

    @property
    def permission(self) -> Permission:
        verb = VERBS.get(self.verb)
        if isinstance(verb, Verb):
            return verb.permission
        act = ROUTES[self.page or self.api].act
        assert act is not None
        return act.permission


def _ways(text: str) -> Iterator[Ways]:
    for line in text.strip().splitlines():
        page, api, verb, *fields = (part.strip() for part in line.split("|"))
        pairs = tuple((name, value) for name, _, value in (field.partition("=") for field in fields))
        yield Ways(page, f"api:{api}" if api else "", tuple(verb.split()), pairs)


ACTS = list(
    _ways("""
        wait                | wait-decide         | waits decide        | verdict=APPROVE
        wait                | wait-answer         | waits answer        | verdict=ANSWER
        wait                | wait-decline        | waits decline       | verdict=DECLINE
        wait-withdraw       | wait-withdraw       | waits withdraw
        wait-look           | wait-claim          | waits claim         | act=claim
        wait-look           | wait-release        | waits release       | act=release
        wait-assign         | wait-assign         | waits assign
        wait-amend          | wait-amend          | waits amend
        inbox-batch         | waits-decide        | waits decide-many
        delegations         | delegations         | delegations give
        delegation-end      | delegation-end      | delegations end
        call                | call-reconcile      | calls reconcile
        call                | call-probe          | calls probe         | how=probe | attempts=99
        call                | call-attach         | calls attach        | how=attach
        call-contradict     | call-contradict     | calls contradict
        call-repeat         | call-repeat         | calls repeat
        contradiction-close | contradiction-close | contradictions close
        run-new             | runs                | runs start
        stop                | run-stop            | runs stop
        stop                | run-abort           | runs abort          | how=abort
        run-pause           | run-pause           | runs pause
        run-retry           | run-resume          | runs resume
        run-settle          | run-settle          | runs settle
        run-bind            | run-terms           | runs bind
        run-goal            | run-goal            | runs revise-goal
        run-tags            | run-tags            | runs tag
        run-budget          | run-budget          | runs raise-cap
        run-continue        | run-continue        | runs continue
        checkpoint-fork     | checkpoint-fork     | runs fork
        run-migrate         | run-migrate         | runs migrate
        run-repin           | run-repin           | runs repin
        commitment-withdraw | commitment-withdraw | commitments withdraw
        obligation-release  | obligation-release  | obligations release
        scope-new           | scopes              | scopes stop         | act=stop
        scope-new           | scopes              | scopes pause        | act=pause
        scope-new           | scopes              | scopes abort        | act=abort
        scope               | scope-abort         | scopes abort-on     | how=abort
        scope               | scope-lift          | scopes lift
        grants              | grants              | grants give
        grant               | grant-revoke        | grants revoke
        policy-new          | policies            | policies save       | do=save
        policy-new          | policy-try          | policies try
        policy              | policy-activate     | policies activate
        notifications       | endpoints           | endpoints add
        notification-remove | endpoint-remove     | endpoints remove
        notification        | endpoint-change     | endpoints change    | how=change | name=walked | hears=OPENED | version=1
        notification        | endpoint-pause      | endpoints pause     | how=pause
        notification        | endpoint-resume     | endpoints resume    | how=resume
        notification        | endpoint-test       | endpoints test      | how=test
        notifications       | notices-purge       | endpoints purge     | how=purge
        bulk-new            | bulks               | bulks act
        views               | views               | views save
        view-remove         | view-remove         | views remove
    """)
)
BY_NAME = {f"{way.verb[0]} {way.verb[-1]}": way for way in ACTS}


def test_every_act_stands_in_the_table_with_all_of_its_doors() -> None:
    acting = {name for name, route in ROUTES.items() if route.act}
    assert acting - {name for way in ACTS for name in (way.page, way.api)} == {"api:run-retain"}
    verbs = {name for name, verb in VERBS.items() if isinstance(verb, Verb) and verb.permission != Permission.READ}
    assert verbs - {way.verb for way in ACTS} == {("audit", "verify"), ("retain",)}


# ── what a door says ──


def page_code(doors: Doors, things: Things, way: Ways, by: str) -> str:
    act = ROUTES[way.page].act
    assert act is not None
    answer = browser(by).post(things.path(way.page), act.body | dict(way.fields))
    found = CODE.search(answer.content.decode())
    return found[1] if found else {302: "", 404: "NOT_FOUND"}.get(answer.status_code, str(answer.status_code))


def api_code(doors: Doors, things: Things, way: Ways, by: str) -> str:
    answer = ask(doors, things, way.api, "POST", by)
    return str(answer.json()["code"]) if answer.status_code >= 400 else ""


def verb_code(doors: Doors, things: Things, way: Ways, by: str) -> str:
    verb = VERBS[way.verb]
    assert isinstance(verb, Verb)
    ran = manage(*way.verb, *things.arguments(verb.named), *verb.rest, "--as", by, "--json")
    return str(ran.json["error"]["code"]) if ran.code else ""


Code = Callable[[Doors, Things, Ways, str], str]


def codes(doors: Doors, things: Things, way: Ways, by: str) -> dict[str, str]:
    """What each door of an act says to somebody."""
    asked: list[tuple[str, object, Code]] = [
        ("page", way.page, page_code),
        ("api", way.api, api_code),
        ("command", way.verb, verb_code),
    ]
    return {name: code(doors, things, way, by) for name, there, code in asked if there}


def tried() -> Iterator[Any]:
    """Each act by each role: by those who may, by one that may only read and by one that may not even that; the rest where
    there is time.
    """
    for name, way in BY_NAME.items():
        for role in Role:
            soon = PROMISED[way.permission, role] or role in (Role.VIEWER, Role.AUDITOR)
            yield pytest.param(name, role, marks=() if soon else pytest.mark.matrix)


@pytest.mark.parametrize(("name", "role"), list(tried()))
def test_an_act_is_answered_alike_at_each_of_its_doors(doors: Doors, things: Things, name: str, role: Role) -> None:
    way, before = BY_NAME[name], things.state()
    said = codes(doors, things, way, f"only-{role}")
    if PROMISED[way.permission, role]:
        assert not {"", "NOT_ALLOWED"} & set(said.values()), said
    elif PROMISED["read", role] or not named(way):
        assert set(said.values()) == {"NOT_ALLOWED"}, said
    else:
        assert set(said.values()) == {"NOT_FOUND"}, said
    assert things.state() == before


def named(way: Ways) -> str:
    return ROUTES[way.page or way.api].named


@pytest.mark.parametrize("name", [name for name, way in BY_NAME.items() if named(way)])
def test_an_act_on_what_is_foreign_finds_nothing_at_any_door(doors: Doors, things: Things, name: str) -> None:
    before = things.state()
    assert set(codes(doors, things, BY_NAME[name], STRANGER).values()) == {"NOT_FOUND"}
    assert things.state() == before


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_many_at_once_and_one_alone_are_answered_alike_to_every_role(
    doors: Doors, waiting: Wait, things: Things, verdict: str
) -> None:
    demand(waiting, batchable=True)
    before = things.state()
    for role in Role:
        said = Said(waiting, f"only-{role}", verdict, revision=1)
        told = {door(doors, said) for door in DOORS}
        if PROMISED["read", role]:
            assert told == {"STALE_REVISION" if PROMISED["decide", role] else "NOT_ALLOWED"}, role
        else:
            assert told <= {"404", "NOT_FOUND", "NOT_ALLOWED"}, role
    assert {door(doors, Said(waiting, STRANGER, verdict)) for door in DOORS} == {"404", "NOT_FOUND"}
    assert things.state() == before


@pytest.mark.parametrize("name", BY_NAME)
def test_a_link_that_says_the_act_does_nothing(doors: Doors, things: Things, name: str) -> None:
    """What the form would send, as a link: followed by somebody who may, by GET and by HEAD."""
    way = BY_NAME[name]
    act, before = ROUTES[way.page].act, things.state()
    assert act is not None
    for ask_by in (browser(OPERATOR).get, browser(OPERATOR).head, browser("only-governance").get):
        assert ask_by(things.path(way.page), act.body | dict(way.fields)).status_code in {200, 403, 404}
    assert things.state() == before


# ── reading ──

# Whoever may start nothing gets no form for it.
OTHERWISE = {"run-new": {200, 403}}
READING = [name for name, route in ROUTES.items() if route.door != "open" and route.reads]


@pytest.mark.parametrize(
    "role", [pytest.param(role, marks=() if role == Role.VIEWER else pytest.mark.matrix) for role in Role]
)
def test_each_role_reads_what_the_table_says(doors: Doors, things: Things, role: Role) -> None:
    before = things.state()
    for name in READING:
        if "GET" not in methods(name) or name == "api:missing":
            continue
        answer = ask(doors, things, name, "GET", f"only-{role}")
        found = OTHERWISE.get(name, {200})
        led = {302} if name == "overview" else set()  # an auditor is led to the audit chain
        expected = found if PROMISED["read", role] else {404} if ROUTES[name].named else found | led | {403, 404}
        assert answer.status_code in expected, (name, answer.status_code)
        shown = answer.content.decode(errors="replace")  # a PDF is no text
        assert PROMISED["read", role] or not [id for id in things.ids if id in shown], name
    assert things.state() == before
