"""The checker notices each planted bug, by the invariant that the bug breaks; and nothing where no bug is planted."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from accounts.states import Role
from approvals.models import Wait
from tests.matrix.agents import Script
from tests.matrix.cells import undisturbed
from tests.matrix.doors import Person
from tests.matrix.history import History, Memory
from tests.matrix.inside import PLANTS as WANTED
from tests.matrix.invariants import check
from tests.matrix.operator import SENDING, TICK, Play
from tests.matrix.plants import PLANTS, UNGUARDED, Plant
from tests.matrix.play import Player
from tests.matrix.stage import Stage, running_stage, stack_on, strangers
from tests.matrix.turns import take_turns
from tests.services import TEMPLATE, Services, using_database

pytestmark = [pytest.mark.matrix]
DATABASE = "plants"
TRIES = 3  # of a scene
MOMENT = 1.0  # s in which what was let go writes what it has
ONCE: Script = [[("once", "subject", "ok")]]
AGAIN: Script = [[("again", "subject", "ok")]]
LOOK: Script = [[("look", "subject", "ok")]]
_never = threading.Event()


# ── scenes ───────────────────────────────────────────────────────────────────


def zombie(until: str, tool: str) -> Callable[[Player], Play[None]]:
    """A worker stands still with an answer in its hands until others have brought the run to a status."""

    def play(player: Player) -> Play[None]:
        held = player.stage.hold_at("after_response", tool, player.about)
        yield from player.start()
        pid = yield from player.taken(held, player.attend)
        assert pid is not None
        yield from player.until(lambda: player.status() == until, f"the run is {until}")
        player.stage.go_on(pid)
        yield from player.pause(MOMENT)

    return play


def asked_to(act: str) -> Callable[[Player], Play[None]]:
    """A stop or a pause is accepted while a worker stands still with the model's answer in its hands."""

    def play(player: Player) -> Play[None]:
        held = player.stage.hold_at("after_model_response", "", player.about)
        yield from player.start()
        pid = yield from player.taken(held, player.attend)
        assert pid is not None
        yield from player.act(f"runs/{player.played.run_id}/{act}/", {"reason": "not now"})
        player.stage.go_on(pid)
        yield from player.pause(MOMENT)
        yield from player.until(player.attend, "the run ends")

    return play


def killed_after_sending(player: Player) -> Play[None]:
    held = player.stage.hold_at(SENDING, "", player.about)
    yield from player.start()
    pid = yield from player.taken(held, player.attend)
    assert pid is not None
    player.stage.kill(pid, tree=False)
    yield from player.until(player.attend, "the run ends")


def undisturbed_run(player: Player) -> Play[None]:
    yield from player.start()
    yield from player.until(player.attend, "the run ends")


def decided(*verdicts: str, seen: str = "") -> Callable[[Player], Play[None]]:
    """The wait is decided so, one after the other, by somebody who saw what it is bound to, or another digest."""

    def play(player: Player) -> Play[None]:
        yield from player.start()
        yield from player.until(lambda: player.status() == "WAITING", "the run asks")
        wait = Wait.objects.get(run_id=player.id, status="OPEN")
        for verdict in verdicts:
            said = player.decision(wait) | {"verdict": verdict} | ({"digest": seen} if seen else {})
            asked = player.post(f"waits/{wait.id}/decide/", said)
            yield from player.until(asked.done, "it is answered")
        yield from player.pause(MOMENT)

    return play


def read_twice(player: Player) -> Play[None]:
    yield from player.start()
    yield from player.until(lambda: player.status() == "WAITING", "the run asks")
    yield from player.look()
    yield from player.until(player.attend, "the run ends")
    yield from player.look()


SCENES: dict[str, tuple[Script, Callable[[Player], Play[None]]]] = {
    "old-fence": (ONCE, zombie("HELD", "once")),
    "late-result": (ONCE, zombie("HELD", "once")),
    "fork": (LOOK, zombie("COMPLETED", "look")),
    "after-stop": (LOOK, asked_to("stop")),
    "after-pause": (LOOK, asked_to("pause")),
    "repeats-unknown": (ONCE, killed_after_sending),
    "unknown-is-failed": (ONCE, killed_after_sending),
    "sends-first": (ONCE, killed_after_sending),
    "another-key": (AGAIN, killed_after_sending),
    "asks-nobody": (ONCE, undisturbed_run),
    "unseen": (ONCE, decided("APPROVE", seen="0" * 64)),
    "decides-twice": (ONCE, decided("APPROVE", "REJECT")),
    "wakes-nobody": (ONCE, decided("APPROVE")),
    "rewrites-audit": (ONCE, undisturbed_run),
    "leaves-out-audit": (ONCE, undisturbed_run),
    "any-tenant": (ONCE, read_twice),
    "stale-view": (ONCE, read_twice),
    "stale-receipt": (ONCE, read_twice),
    "same-fence": (ONCE, undisturbed_run),
    "no-effect-row": (ONCE, undisturbed_run),
    "sends-twice": (LOOK, undisturbed_run),
    "mixes-up": (ONCE, undisturbed_run),
    "another-name": (ONCE, undisturbed_run),
    "anybody-decides": (ONCE, decided("APPROVE")),
}


# ── played once, all of them side by side, each in tenants of its own ────────


@pytest.fixture(scope="module")
def unguarded_stage(
    services: Services, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Stage]:
    services.cluster.create_database(DATABASE, template=TEMPLATE)
    folder: Path = tmp_path_factory.mktemp("plants")
    stack = stack_on(services, DATABASE, folder, least=6.0)  # people act while a worker stands still
    stack.environment[WANTED] = "1"
    told = override_settings(AGENTS=[*settings.AGENTS, "tests.matrix.agents.Matrix"])
    try:
        with told, using_database(DATABASE), django_db_blocker.unblock():
            with connection.cursor() as cursor:
                cursor.execute(UNGUARDED)
            with running_stage(stack) as running:
                yield running
    finally:
        stack.close()
        services.drop(DATABASE)


Broken = dict[tuple[str, bool], dict[str, list[str]]]


@pytest.fixture(scope="module")
def broken(unguarded_stage: Stage) -> Broken:
    """What the checker finds for each scene, with and without its bug.

    A scene that a slow machine has not brought about (a lease was over before the bug could strike) is played again.
    """
    every = [(plant.name, planted) for plant in PLANTS for planted in (True, False)]
    found = played(unguarded_stage, every)
    caught_by = {plant.name: plant.caught_by for plant in PLANTS}
    for _ in range(TRIES - 1):
        missed = [(name, planted) for name, planted in every if planted and caught_by[name] not in found[name, True]]
        found |= played(unguarded_stage, missed)
    return found


def played(stage: Stage, chosen: Sequence[tuple[str, bool]]) -> Broken:
    """Play scenes side by side, each in tenants of its own, and check what each has left."""
    people: dict[tuple[str, bool], tuple[Person, Person]] = {}
    players: list[tuple[Player, Play[None]]] = []
    for name, planted in chosen:
        script, scene = SCENES[name]
        people[name, planted] = strangers({Role.OPERATOR}) if name == "anybody-decides" else strangers()
        player = Player(stage, undisturbed(script), people=people[name, planted])
        if planted:
            stage.plant(name, player.about, player.at_the_web)
        players.append((player, scene(player)))
    stuck = take_turns(stage, players, width=6, tick=lambda: _never.wait(TICK))
    unplanted = [pair for (_, planted), pair in people.items() if not planted]
    assert not [player.played.wrong for player in stuck if people_of(player) in unplanted]
    stage.wait_idle()
    return {of: check(history(stage, pair)) for of, pair in people.items()}


def people_of(player: Player) -> tuple[Person, Person]:
    return player.person, player.other


def history(stage: Stage, people: tuple[Person, Person]) -> History:
    return stage.history_of(people, Memory())


def test_at_least_twelve_bugs_are_planted() -> None:
    assert len(PLANTS) >= 12
    assert {plant.name for plant in PLANTS} == set(SCENES)


def test_every_invariant_is_broken_by_a_plant() -> None:
    assert {plant.caught_by for plant in PLANTS} == {f"I{number}" for number in range(1, 13)}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_checker_notices(broken: Broken, plant: Plant) -> None:
    assert plant.caught_by in broken[plant.name, True], (plant.says, broken[plant.name, True])


@pytest.mark.parametrize("name", SCENES)
def test_without_the_bug_the_same_scene_is_right(broken: Broken, name: str) -> None:
    assert broken[name, False] == {}
