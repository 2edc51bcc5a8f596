"""Many cells on one system and one thread: they play in turns."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from django.db import Error

from tests.matrix.cells import Cell, Fault
from tests.matrix.operator import Play
from tests.matrix.patience import Played
from tests.matrix.play import Batch, Player
from tests.matrix.stage import Stage

WIDTH = defaultdict(lambda: 8, {Fault.F2: 4, Fault.F5: 6})


def play_all(stage: Stage, cells: Sequence[Cell], tick: Callable[[], object]) -> list[Played]:
    """Play the cells, several at a time, fault after fault. `tick` waits a moment between two rounds."""
    played: list[Played] = []
    for fault in Fault:
        queue = [cell for cell in cells if cell.fault == fault]
        while queue:
            width = WIDTH[fault]
            # F5 strikes a whole batch at once; the others take a new cell as soon as one is over.
            now, queue = (queue[:width], queue[width:]) if fault == Fault.F5 else (queue, [])
            played += _play_batch(stage, now, width, tick)
    return played


def _play_batch(stage: Stage, cells: Sequence[Cell], width: int, tick: Callable[[], object]) -> list[Played]:
    batch = Batch(stage.lease, coming=len(cells))
    players = [Player(stage, cell, batch=batch) for cell in cells]
    try:
        take_turns(stage, [(player, player.play()) for player in players], width, tick)
    finally:
        stage.start_database()  # whoever has killed it may have got stuck before
    return [player.played for player in players]


def take_turns(
    stage: Stage, plays: Sequence[tuple[Player, Play[None]]], width: int, tick: Callable[[], object]
) -> list[Player]:
    """Play so many at a time, in turns. Returns those that got stuck; each says where."""
    waiting, playing, stuck = list(plays), list[tuple[Player, Play[None]]](), []
    while waiting or playing:
        while waiting and len(playing) < width:
            playing.append(waiting.pop(0))
        stage.tend()
        for player, play in list(playing):
            try:
                next(play)
            except StopIteration:
                playing.remove((player, play))
            except (AssertionError, Error) as error:
                player.played.wrong = str(error)
                player.batch.coming -= 1
                player.free()
                stuck.append(player)
                playing.remove((player, play))
        tick()
    return stuck
