"""One record of a file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One record: the line it starts on (from 1) and its cells without surrounding space."""

    line: int
    cells: tuple[str, ...]

    def cell(self, index: int | None) -> str:
        """The cell of a column; "" where the row is too short or the file has no such column."""
        return self.cells[index] if index is not None and index < len(self.cells) else ""

    @property
    def filled(self) -> tuple[str, ...]:
        return tuple(cell for cell in self.cells if cell)
