"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def show(headers: Sequence[str], groups: Sequence[Sequence[Sequence[str]]], *, left: Sequence[str]) -> None:
    """Prints rows on stdout, with a line between groups; the columns named in `left` are set to the left."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        table.add_column(header, justify="left" if header in left else "right", no_wrap=True)
    for group in groups:
        for row in group:
            table.add_row(*row)
        table.add_section()
    console = Console(highlight=False, markup=False)
    # Cut-off numbers are worth nothing: where the terminal is too narrow, it may fold the lines.
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)
