"""`make bench-decisions`: our rate of decisions beside that of the same transaction in plain SQL, in turn on one server."""

from bench.rounds import Entry, play
from bench.server import running_server
from bench.tables import line, title

OURS, PLAIN = "signalbox_decide", "plain_decide"


def main() -> None:
    """Print rates, their ratio, and the CPU of a decision on both sides."""
    with running_server() as server:
        for workers in (1, 4):
            title(f"Decisions, {workers} worker{'s' if workers > 1 else ''} (target: half of the plain rate)")
            played = play(server, [Entry(PLAIN), Entry(OURS)], workers=workers, rounds=3, seconds=0.6)
            for name in played.loads:
                rate, share = played.rate(name), played.ratio(name, PLAIN)
                line(name, f"{rate:8.1f} decisions/s", f"{share:5.2f} of plain SQL")
                line(
                    "", f"{played.client_ms(name):8.2f} ms CPU here", f"{played.server_ms(name):5.2f} ms on the server"
                )


if __name__ == "__main__":
    main()
