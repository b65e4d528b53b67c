"""Plain tables for a terminal or a file: columns that line up, untrusted text made visible. No markup."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len

from diagnose_bench.text import visible

_GAP = "  "


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: str = ""
) -> str:
    """Lay out rows under a header, with a rule between them.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Cells, as many in each row as the header has.
    right : collection of int
        Columns whose cells stand at the right, such as numbers.
    indent : str
        Before each line.
    """
    shown = [[visible(cell, keep_lines=False) for cell in row] for row in (header, *rows)]
    widths = [max(cell_len(row[place]) for row in shown) for place in range(len(header))]
    lines = [_line(row, widths, right) for row in shown]
    lines.insert(1, "─" * (sum(widths) + len(_GAP) * (len(widths) - 1)))
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def _line(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    cells = []
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        space = " " * (width - cell_len(cell))
        cells.append(space + cell if place in right else cell + space)
    return _GAP.join(cells)
