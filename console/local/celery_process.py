"""`python -m console.local.celery_process worker NODE CONCURRENCY [QUEUE]` or `… beat`: what `celery worker` and `celery beat` run.

The `celery` command itself loads a terminal tool kit first, which takes longer than all the rest of a worker's start.
"""

import sys

from console.celery import app


def worker(node: str, concurrency: str, queue: str | None = None) -> int:
    """Run a worker of that Celery node name until it is told to stop; its exit code. Without a queue it takes runs."""
    controller = app.Worker(
        hostname=node,
        concurrency=int(concurrency),
        pool="prefork",
        queues=queue,
        without_gossip=True,
        without_mingle=True,
    )
    controller.start()
    return int(controller.exitcode or 0)


def beat() -> int:
    """Run the clock. It keeps no schedule between starts: the first sweep comes one interval after the start."""
    app.Beat(scheduler_cls="celery.beat:Scheduler").run()
    return 0


if __name__ == "__main__":
    sys.exit(beat() if sys.argv[1] == "beat" else worker(*sys.argv[2:]))
