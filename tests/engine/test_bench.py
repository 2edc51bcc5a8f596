"""The save that `make bench` measures is the product's: what it stores is read back as any revision is."""

from bench.contenders.ours import LARGE, SMALL
from bench.saving import Saver
from checkpoints.selectors import load_head
from runs.canonical import canonical
from tests.engine.engine import Engine, run_now
from tests.engine.revisions import rows


def test_the_saves_that_are_measured_are_revisions_of_the_size_they_are_said_to_have(engine: Engine) -> None:
    for sizes, least, most in ((SMALL, 1_500, 3_500), (LARGE, 480_000, 520_000)):
        saver = Saver(engine.start(), *sizes)
        try:
            for _ in range(3):
                saver.save()
        finally:
            saver.heartbeat.__exit__(None, None, None)
        run = run_now(saver.holding.run_id)
        head = load_head(run)
        assert [row.encoding for row in rows(run.id)] == ["FULL", *["DELTA"] * 3]
        assert head.revision == 4
        assert least < len(canonical(head.snapshot.model_dump(mode="json"))) < most
