"""Contenders interleaved round by round on one server; the ratio of two is the median of the ratios of their rounds."""

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.closed_loop import Load
from bench.contender import CONTENDERS
from bench.growing import Grown, weight
from bench.server import Server

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Entry:
    """A contender, and the Python that it runs in."""

    name: str
    python: str = sys.executable


@dataclass
class Rounds:
    """The loads of every contender, in the order of the rounds."""

    loads: dict[str, list[Load]] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        return statistics.median(load.per_second for load in self.loads[name])

    def client_ms(self, name: str) -> float:
        return statistics.median(load.client_ms for load in self.loads[name])

    def server_ms(self, name: str) -> float:
        return statistics.median(load.server_ms for load in self.loads[name])

    def ratio(self, name: str, base: str) -> float:
        pairs = zip(self.loads[name], self.loads[base], strict=True)
        return statistics.median(one.per_second / other.per_second for one, other in pairs)


@dataclass(frozen=True)
class Weighed:
    """How a contender went through the growth, and what its database gained by it, by table."""

    grown: Grown
    before: dict[str, int]
    after: dict[str, int]

    def bytes_each(self, *names: str) -> float:
        """Bytes a checkpoint of the tables whose names begin with one of these; of all of them where none is given."""
        return weight(self.before, self.after, names or ("",)) / self.grown.checkpoints


def weigh(server: Server, entry: Entry) -> Weighed:
    """Let a contender go through the growth in a database of its own."""
    database, dsn = f"bench_{entry.name}", _database(server, entry)
    before = server.sizes(database)
    said = _call(entry, "grow", dsn)
    return Weighed(Grown(**json.loads(said.splitlines()[-1])), before, server.sizes(database))


def play(server: Server, entries: list[Entry], *, workers: int, rounds: int, seconds: float) -> Rounds:
    """Prepare a database for each contender, then run them in turn."""
    urls = {entry.name: _database(server, entry) for entry in entries}
    played = Rounds({entry.name: [] for entry in entries})
    for _ in range(rounds):
        for entry in entries:
            arguments = ("--workers", str(workers), "--seconds", str(seconds), "--postmaster", str(server.postmaster))
            said = _call(entry, "run", urls[entry.name], *arguments)
            played.loads[entry.name].append(Load(**json.loads(said.splitlines()[-1])))
    return played


def _database(server: Server, entry: Entry) -> str:
    """A database of the contender's own, as its module prepares one."""
    module, _ = CONTENDERS[entry.name]
    return server.copy(f"bench_{entry.name}", module, lambda dsn: _call(entry, "prepare", dsn))


def _call(entry: Entry, act: str, dsn: str, *arguments: str) -> str:
    done = subprocess.run(
        [entry.python, "-m", "bench.contender", entry.name, act, "--dsn", dsn, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{entry.name} {act} gave {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout
