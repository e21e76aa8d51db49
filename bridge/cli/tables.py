"""Lists for terminals of any width. What must not be broken, a run key, never is.

Where all columns fit there is a table; else columns go, the least important first; and where not even the important
ones fit, each row is a few lines, with the long values on lines of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Literal, TypeVar

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bridge.cli.words import printable

T = TypeVar("T")

_GAP: Final = 2
_FOLDED_LEAST: Final = 30

STYLES: Final = {
    "failed": "red", "failed_run": "red", "dead": "red", "crashed": "red", "silent": "yellow", "held": "yellow",
    "pending": "yellow", "dispatching": "yellow", "replaying": "yellow", "waiting": "yellow", "running": "green",
    "started": "green", "succeeded": "green", "replayed": "green",
}  # fmt: skip


class Column(Struct, Generic[T], frozen=True):
    """`rank` 0 is always shown; the higher, the sooner it goes. `shape`: `short` values stay on one line, `whole`
    ones too, and may be long; `folded` ones may be broken."""

    title: str
    cell: Callable[[T], str]
    rank: int = 0
    shape: Literal["short", "whole", "folded"] = "short"
    right: bool = False


def listing(rows: Sequence[T], columns: Sequence[Column[T]], width: int) -> RenderableType:
    """The rows, `width` columns wide at most where that can be; never with a whole value broken."""
    cells = {column.title: [printable(column.cell(row)) for row in rows] for column in columns}
    used = [c for c in columns if c.rank == 0 or any(cells[c.title])]
    fitting = _fitting(used, cells, width)
    if _needed(fitting, cells) <= width:
        return _table(fitting, cells, len(rows), width)
    return _stacked(used, cells, len(rows), width)


def facts(pairs: Sequence[tuple[str, str]]) -> RenderableType:
    """Names and values, a line each; empty values are left out. Values are not broken: the terminal does that."""
    known = [(name, printable(value)) for name, value in pairs if value]
    longest = max((cell_len(name) for name, _ in known), default=0)
    lines = [
        Text.assemble((name.ljust(longest + _GAP), "bold"), (value, STYLES.get(value, ""))) for name, value in known
    ]
    return Text("\n").join(lines)


def print_all(out: Console, *parts: RenderableType) -> None:
    """Tables as tables, and lines unbroken."""
    for part in parts:
        if isinstance(part, Group):
            print_all(out, *part.renderables)
        else:
            out.print(part, soft_wrap=not isinstance(part, Table))


def _natural(column: Column[T], cells: dict[str, list[str]]) -> int:
    longest = max(map(cell_len, cells[column.title]), default=0)
    return max(cell_len(column.title), longest)


def _least(column: Column[T], cells: dict[str, list[str]]) -> int:
    natural = _natural(column, cells)
    return min(natural, _FOLDED_LEAST) if column.shape == "folded" else natural


def _needed(columns: Sequence[Column[T]], cells: dict[str, list[str]]) -> int:
    return sum(_least(c, cells) for c in columns) + _GAP * max(0, len(columns) - 1)


def _fitting(columns: Sequence[Column[T]], cells: dict[str, list[str]], width: int) -> list[Column[T]]:
    left = list(columns)
    while _needed(left, cells) > width:
        worst = max(left, key=lambda c: c.rank)
        if worst.rank == 0:
            break
        left.remove(worst)
    return left


def _table(columns: Sequence[Column[T]], cells: dict[str, list[str]], length: int, width: int) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold", collapse_padding=True)
    spare = width - _needed(columns, cells)
    for column in columns:
        least = _least(column, cells)
        given = min(_natural(column, cells), least + spare) if column.shape == "folded" else least
        spare -= given - least
        justify: Literal["left", "right"] = "right" if column.right else "left"
        is_folded = column.shape == "folded"
        table.add_column(column.title, width=given, justify=justify, no_wrap=not is_folded, overflow="fold")
    for number in range(length):
        table.add_row(*(_styled(cells[column.title][number]) for column in columns))
    return table


def _stacked(columns: Sequence[Column[T]], cells: dict[str, list[str]], length: int, width: int) -> Group:
    """Short values side by side, aligned from row to row; the others below, a line each."""
    short = _fitting([c for c in columns if c.shape == "short"], cells, width)
    long = [c for c in columns if c.shape != "short"]
    lines: list[RenderableType] = []
    for number in range(length):
        head = [_styled(cells[c.title][number].ljust(_natural(c, cells))) for c in short]
        lines.append(Text(" " * _GAP).join(head))
        lines += [Text("  " + cells[c.title][number]) for c in long if cells[c.title][number]]
    return Group(*lines)


def _styled(value: str) -> Text:
    return Text(value, STYLES.get(value.rstrip(), ""))
