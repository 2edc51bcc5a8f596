"""`python -m tests.cases`: serve the cases until Ctrl-C. With `judge`: what came of those that are being served."""

import json
import os
import sys

import django


def main(arguments: list[str]) -> None:
    """Set Django up for the tests' own servers, or for the database that is being served."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings_test")
    django.setup()
    from django.db import connections  # noqa: PLC0415 - Django has to be set up first

    from tests.cases import serve  # noqa: PLC0415

    if arguments == ["judge"]:
        kept = json.loads((serve.FOLDER / "made.json").read_text())
        connections.settings["default"] |= served(kept["database"])
        sys.stdout.write(serve.judged() + "\n")
    elif not arguments:
        serve.serve()
    else:
        sys.exit("usage: python -m tests.cases [judge]")


def served(url: str) -> dict[str, object]:
    """The address of the served database, as Django's settings have it."""
    from console.environment import database  # noqa: PLC0415

    return {
        name: value
        for name, value in database(url, pool=False).items()
        if name in ("NAME", "USER", "HOST", "PORT", "PASSWORD")
    }


if __name__ == "__main__":
    main(sys.argv[1:])
