"""How figures are printed."""

import sys


def title(text: str) -> None:
    """Start a group of figures."""
    print(f"\n{text}")
    sys.stdout.flush()


def line(*columns: str) -> None:
    """One row of figures."""
    print("  " + "  ".join(column.ljust(28) for column in columns).rstrip())
    sys.stdout.flush()
