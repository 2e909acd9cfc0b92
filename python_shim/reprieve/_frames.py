"""Which frame of a stack is the user's own."""

from __future__ import annotations

import re
from typing import Any

NONE, BACKWARD = 0, 1
_TEXTS = ("no stack recorded", "torch's backward pass, no Python frame")
_MOST = 1 << 22

# torch's own files, whatever it is installed in; files that are no Python; Python's own, but for installed packages.
_NOT_THE_USERS = re.compile(
    r"""(^|/)(torch|torchgen|functorch|triton)/ | /python3[.\d]*/(?!(site|dist)-packages/) | ^<frozen | ^<string>
    | ^<eval_with_key> | ^<__array_function__ | (^|/)(sitecustomize|usercustomize)\.py$""",
    re.VERBOSE,
)


class Frame:
    """One frame. `index` is its place in Frames, NONE where it is not the user's own."""

    __slots__ = ("backward", "index")

    def __init__(self, index: int, backward: bool) -> None:
        self.index = index
        self.backward = backward


class Stack:
    """What is kept of a stack: an index into Frames. `own`: it is a frame of the user's."""

    __slots__ = ("frame", "own")

    def __init__(self, frame: int, own: bool) -> None:
        self.frame = frame
        self.own = own


def is_own(filename: str) -> bool:
    """Whether a frame in this file is the program's or one of its libraries', not torch's or Python's."""
    return (filename.endswith(".py") or "ipykernel" in filename or filename.startswith("<ipython")) and not (
        _NOT_THE_USERS.search(filename)
    )


class Frames:
    """The different frames that stacks end in."""

    def __init__(self) -> None:
        self._texts: list[str] = list(_TEXTS)
        self._known: dict[tuple[str, int, str], int] = {}
        self._files: dict[str, bool] = {}
        self._stacks = [Stack(NONE, False), Stack(BACKWARD, False)]
        self._others = Frame(NONE, False), Frame(NONE, True)

    def frame(self, items: dict[str, Any]) -> Frame:
        """The frame that a dict of filename, line and name says."""
        filename, line, name = items["filename"], items["line"], items.get("name", "")
        if not (isinstance(filename, str) and isinstance(name, str) and isinstance(line, int)):
            return self._others[0]
        own = self._files.get(filename)
        if own is None:
            own = self._files[filename] = is_own(filename)
        if not own:
            return self._others["autograd::Engine" in name]
        key = filename, line, name
        index = self._known.get(key)
        if index is None:
            if len(self._texts) == _MOST:
                return self._others[0]
            index = self._known[key] = len(self._texts)
            self._texts.append(f"{_short(filename)}:{line} {name}")
        return Frame(index, False)

    def stack(self, frames: list[Frame]) -> Stack:
        """The innermost frame of the user's; frames come from the innermost to the outermost."""
        backward = False
        for frame in frames:
            if frame.index:
                while len(self._stacks) <= frame.index:
                    self._stacks.append(Stack(len(self._stacks), True))
                return self._stacks[frame.index]
            backward = backward or frame.backward
        return self._stacks[BACKWARD if backward else NONE]

    def text(self, index: int) -> str:
        """For people, "trainer/model.py:88 forward"."""
        return self._texts[index]


def _short(filename: str) -> str:
    """The last three parts of a path, without where packages are installed."""
    parts = filename.split("/")
    return "/".join(parts[-3:])
