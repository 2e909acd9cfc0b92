"""A progress bar for what takes long, on stderr, where a person sees it."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

AFTER_S = 2.0


class Bar:
    """Shows nothing before AFTER_S seconds, nothing where stderr is no terminal, and leaves nothing behind."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._wanted = sys.stderr.isatty()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, what: str, done: float, total: float) -> None:
        """Says that of `what` so much is done."""
        if not self._wanted or time.monotonic() - self._since < AFTER_S:
            return
        if self._progress is None:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(what, total=total)
            self._progress.start()
        assert self._task is not None
        self._progress.update(self._task, description=what, completed=done, total=total)
