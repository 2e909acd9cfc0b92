"""Reads pickles of plain containers and scalars, with no way to anything else: there is no code here that could look a
name up or call something.

Why not pickle.Unpickler with a find_class that refuses: a snapshot without stacks becomes objects of 8 x its file's
size there, and a hostile file of a few bytes can make it ask for gigabytes. Here every dict and list is handed to a
Builder as soon as it is complete, which keeps what it needs of it in a compact form, and what is kept is counted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Protocol

_ALLOWANCE = 64 << 20  # bytes for what is kept, beside four times the input's size
_STEP = 1 << 18  # bytes of input between two looks at what is kept
_DEPTH = 100  # a snapshot nests five deep
_LONGEST_NUMBER = 16  # bytes; a snapshot's numbers have eight
_STRING, _CONTAINER, _POINTER = 160, 120, 9  # bytes that one costs, with its place in a table

# A list of nothing but objects that were seen before, as nearly all stacks are: taken in one step.
_LIST_OF_KNOWN = re.compile(rb"\](\x94|q.|r.{4})?\(((?:h.|j.{4})*)e", re.DOTALL)
_KNOWN = re.compile(rb"h(.)|j(.{4})", re.DOTALL)

_NAMES = {
    **dict.fromkeys(b"PQ", "a persistent id"),
    **dict.fromkeys((0x82, 0x83, 0x84), "an extension code"),
    **dict.fromkeys((0x81, 0x92, ord("R"), ord("b"), ord("o")), "a call"),
    **dict.fromkeys((0x8F, 0x90, 0x91), "a set"),
    **dict.fromkeys((0x96, 0x97, 0x98), "a buffer"),
}


class PickleError(Exception):
    """The data is no pickle of plain containers and scalars. The text says what is wrong, and at which byte."""


class Node:
    """Stands for a container, or for what a Builder made of one; `at` is its place in the memo, -1 without one."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = -1


class Items(Node):
    """A list that is not complete yet."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.at = -1
        self.items: list[Any] = []


class Fields(Node):
    """A dict that is not complete yet."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.at = -1
        self.items: dict[str, Any] = {}


class Builder(Protocol):
    """Makes what is kept. An exception of its own goes through to the caller."""

    def fields(self, items: dict[str, Any]) -> Any:
        """What stands for a dict from now on."""

    def items(self, before: Any, items: list[Any]) -> Any:
        """What stands for a list, to which `items` are appended; `before` is what stood for it, None at first."""

    def known(self, items: list[Any], key: bytes) -> Any:
        """The same for a whole list of things that were seen before. Equal keys: the same list."""

    def cached(self, key: bytes) -> Any:
        """What known() gave for this key, None where it has to be asked."""


def read(data: bytes, builder: Builder, progress: Callable[[int], None] = lambda position: None) -> Any:
    """What the builder made of the outermost container. `progress` is told the byte reached, now and then."""
    try:
        return _Machine(data, builder, progress).run()
    except (IndexError, struct.error):
        raise PickleError("the pickle is cut short, or was damaged") from None


class _Machine:
    def __init__(self, data: bytes, builder: Builder, progress: Callable[[int], None]) -> None:
        self._data = data
        self._builder = builder
        self._progress = progress
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []
        self._strings: dict[str, str] = {}
        self._tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._charged = 0
        self._next_check = 0

    def run(self) -> Any:
        data, stack, memo, marks = self._data, self._stack, self._memo, self._marks
        position = 0
        u16, i32, u32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")
        while True:
            if position >= self._next_check:
                self._check(position)
            code = data[position]
            position += 1
            # In the order of how often a snapshot has them.
            if code == 0x68:  # BINGET
                stack.append(memo[data[position]])
                position += 1
            elif code == 0x6A:  # LONG_BINGET
                stack.append(memo[u32.unpack_from(data, position)[0]])
                position += 4
            elif code == 0x94:  # MEMOIZE
                self._remember(len(memo), position)
            elif code == 0x4B:  # BININT1
                stack.append(data[position])
                position += 1
            elif code == 0x8A:  # LONG1
                length = data[position]
                end = position + 1 + length
                if length > _LONGEST_NUMBER:
                    raise PickleError(f"a number of {length} bytes at byte {position - 1:,}, accepted are up to 16")
                stack.append(int.from_bytes(data[position + 1 : end], "little", signed=True))
                position = end
            elif code == 0x4A:  # BININT
                stack.append(i32.unpack_from(data, position)[0])
                position += 4
            elif code == 0x4D:  # BININT2
                stack.append(u16.unpack_from(data, position)[0])
                position += 2
            elif code == 0x8C:  # SHORT_BINUNICODE
                position = self._string(position + 1, data[position])
            elif code == 0x7D:  # EMPTY_DICT
                self._charged += _CONTAINER
                stack.append(Fields())
            elif code == 0x28:  # MARK
                if len(marks) == _DEPTH:
                    raise PickleError(f"more than {_DEPTH} containers in one another at byte {position - 1:,}")
                marks.append(len(stack))
            elif code == 0x75:  # SETITEMS
                begin = marks.pop()
                given = stack[begin:]
                del stack[begin:]
                self._set(given, position)
            elif code == 0x73:  # SETITEM
                given = stack[-2:]
                del stack[-2:]
                self._set(given, position)
            elif code == 0x5D:  # EMPTY_LIST
                match = _LIST_OF_KNOWN.match(data, position - 1)
                if match:
                    position = self._list_of_known(match)
                else:
                    self._charged += _CONTAINER
                    stack.append(Items())
            elif code == 0x65:  # APPENDS
                begin = marks.pop()
                given = stack[begin:]
                del stack[begin:]
                self._append(given, position)
            elif code == 0x61:  # APPEND
                self._append([stack.pop()], position)
            elif code == 0x71:  # BINPUT
                self._remember(data[position], position)
                position += 1
            elif code == 0x72:  # LONG_BINPUT
                self._remember(u32.unpack_from(data, position)[0], position)
                position += 4
            elif code == 0x58:  # BINUNICODE
                position = self._string(position + 4, u32.unpack_from(data, position)[0])
            elif code == 0x8D:  # BINUNICODE8
                position = self._string(position + 8, struct.unpack_from("<Q", data, position)[0])
            elif code == 0x47:  # BINFLOAT
                stack.append(struct.unpack_from(">d", data, position)[0])
                position += 8
            elif code in (0x88, 0x89):  # NEWTRUE, NEWFALSE
                stack.append(code == 0x88)
            elif code == 0x4E:  # NONE
                stack.append(None)
            elif code in (0x85, 0x86, 0x87):  # TUPLE1 to TUPLE3
                count = code - 0x84
                self._tuple(len(stack) - count, position)
            elif code == 0x29:  # EMPTY_TUPLE
                stack.append(())
            elif code == 0x74:  # TUPLE
                self._tuple(marks.pop(), position)
            elif code == 0x95:  # FRAME
                position += 8
            elif code == 0x80:  # PROTO
                if data[position] > 5:
                    raise PickleError(f"pickle protocol {data[position]}, accepted are 2 to 5")
                position += 1
            elif code == 0x2E:  # STOP
                break
            else:
                raise self._refusal(code, position)
        if position != len(data):
            raise PickleError(f"{len(data) - position:,} bytes follow the pickle's end")
        if marks or len(stack) != 1:
            raise PickleError("the pickle is damaged: it ends with a container open")
        self._progress(position)
        return stack[0]

    def _check(self, position: int) -> None:
        kept = self._charged + _POINTER * (len(self._memo) + len(self._stack))
        if kept > 4 * position + _ALLOWANCE:
            raise PickleError(
                f"what the first {position:,} bytes ask for takes more than four times the memory, "
                "accepted are snapshots as torch writes them"
            )
        self._next_check = position + _STEP
        self._progress(position)

    def _remember(self, index: int, position: int) -> None:
        top = self._stack[-1]
        # Every pickler counts up. (An entry that changed would make what known() gave for a key wrong.)
        if index != len(self._memo):
            raise PickleError(f"memo entry {index:,} at byte {position - 1:,}, the next one is {len(self._memo):,}")
        if isinstance(top, Node):
            top.at = index
        self._memo.append(top)

    def _string(self, begin: int, length: int) -> int:
        end = begin + length
        if end > len(self._data):
            raise PickleError(f"the pickle is cut short: a text of {length:,} bytes at byte {begin:,}")
        text = self._data[begin:end].decode("utf-8", "replace")
        known = self._strings.get(text)
        if known is None:
            known = self._strings[text] = text
            self._charged += _STRING + length
        self._stack.append(known)
        return end

    def _tuple(self, begin: int, position: int) -> None:
        if begin < 0 or len(self._stack) - begin > 16:
            raise PickleError(f"a tuple of more than 16 values before byte {position:,}")
        items = tuple(self._stack[begin:])
        if not all(isinstance(item, (int, float, str, type(None))) for item in items):
            raise PickleError(f"a tuple of containers before byte {position:,}, accepted are tuples of scalars")
        del self._stack[begin:]
        known = self._tuples.get(items)
        if known is None:
            known = self._tuples[items] = items
            self._charged += _STRING
        self._stack.append(known)

    def _replace_top(self, made: Any) -> None:
        at = self._stack[-1].at
        self._charged -= _CONTAINER
        if at >= 0:
            self._memo[at] = made
        self._stack[-1] = made

    def _set(self, given: list[Any], position: int) -> None:
        top = self._stack[-1]
        if type(top) is not Fields or len(given) % 2:
            raise PickleError(f"a dict in more than one piece before byte {position:,}")
        keys = given[::2]
        if not all(type(key) is str for key in keys):
            raise PickleError(f"a dict before byte {position:,} has keys that are no text")
        self._replace_top(self._builder.fields(dict(zip(keys, given[1::2]))))

    def _append(self, given: list[Any], position: int) -> None:
        top = self._stack[-1]
        if type(top) is Items:
            self._replace_top(self._builder.items(None, given))
        elif isinstance(top, (Fields, tuple, str, int, float, type(None))):
            raise PickleError(f"something is appended to what is no list before byte {position:,}")
        else:
            self._stack[-1] = self._builder.items(top, given)

    def _list_of_known(self, match: re.Match[bytes]) -> int:
        key = match[2]
        made = self._builder.cached(key)
        if made is None:
            memo = self._memo
            known = [memo[a[0] if a else int.from_bytes(b, "little")] for a, b in _KNOWN.findall(key)]
            made = self._builder.known(known, key)
        self._stack.append(made)
        put = match[1]
        if put:
            index = len(self._memo) if put == b"\x94" else int.from_bytes(put[1:], "little")
            if index != len(self._memo):
                raise PickleError(
                    f"memo entry {index:,} at byte {match.start():,}, the next one is {len(self._memo):,}"
                )
            self._memo.append(made)
        return match.end()

    def _refusal(self, code: int, position: int) -> PickleError:
        where = f"at byte {position - 1:,}"
        accepted = "accepted are plain containers and scalars; nothing of it was executed"
        if code in (0x63, 0x69):  # GLOBAL, INST: two lines
            module, name = [*self._data[position : position + 400].split(b"\n", 2), b"", b""][:2]
            wanted = f"{module.decode('utf-8', 'replace')}.{name.decode('utf-8', 'replace')}"
            return PickleError(f"the pickle asks for {wanted[:200]} {where}, {accepted}")
        if code == 0x93:  # STACK_GLOBAL
            names = [item for item in self._stack[-2:] if isinstance(item, str)]
            return PickleError(f"the pickle asks for {'.'.join(names)[:200] or 'a global'} {where}, {accepted}")
        what = _NAMES.get(code, f"opcode 0x{code:02x}")
        return PickleError(f"the pickle has {what} {where}, {accepted}")
