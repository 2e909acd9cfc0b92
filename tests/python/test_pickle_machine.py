"""Pickles of plain containers and scalars, and nothing else."""

from __future__ import annotations

import os
import pickle
import pickletools
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from snapshots import block, dumped, entry, segment, snapshot, stack

from reprieve import _pickle_machine, _snapshot
from reprieve._pickle_machine import PickleError


class Plain:
    """Builds what was pickled."""

    def fields(self, items: dict[str, Any]) -> Any:
        return items

    def items(self, before: Any, items: list[Any]) -> Any:
        return (before or []) + items

    def known(self, items: list[Any], key: bytes) -> Any:
        return list(items)

    def cached(self, key: bytes) -> Any:
        return None


def read(data: bytes) -> Any:
    return _pickle_machine.read(data, Plain())


VALUES: list[Any] = [
    {"a": 1, "b": [{"c": -1}, {"c": 2**40}, {"c": -(2**63)}, {"c": 65535}]},
    {"text": ["x", "x" * 300, "\u00e9" * 70_000], "f": [1.5, float("inf")], "n": [None, True, False]},
    [{"t": (0, 1)}, {"t": (1, 2, 3)}, {"t": ("a",)}, {"t": (1, 2, 3, 4)}],
    [{"i": i} for i in range(2500)],
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", VALUES)
def test_what_was_pickled_is_read(value: Any, protocol: int) -> None:
    assert read(pickle.dumps(value, protocol)) == value
    assert read(pickletools.optimize(pickle.dumps(value, protocol))) == value


def test_objects_that_are_shared_are_the_same() -> None:
    frame = {"filename": "a.py"}
    data = pickle.dumps([[frame, frame], [frame, frame], [frame] * 3000])
    made = read(data)
    assert made == [[frame, frame], [frame, frame], [frame] * 3000]
    assert made[0][0] is made[1][1]


class Evil:
    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._target),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_global_is_refused_by_name_and_nothing_runs(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "made"
    data = pickle.dumps({"segments": [Evil(target)]}, protocol)
    pickle.loads(data)
    target.rmdir()  # so much for pickle itself
    with pytest.raises(PickleError) as refused:
        read(data)
    if protocol >= 2:
        assert str(refused.value).startswith("the pickle asks for posix.mkdir at byte ")
        assert str(refused.value).endswith("nothing of it was executed")
    assert not target.exists()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00idtR.", "asks for os.system at byte 2"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "asks for os.system at byte 14"),
        (b"\x80\x02(ios\nsystem\n.", "asks for os.system"),
        (b"\x80\x04K\x01Q.", "has a persistent id"),
        (b"\x80\x02Pperson\n.", "has a persistent id"),
        (b"\x80\x02\x82\x01.", "has an extension code"),
        (b"\x80\x04}}b.", "has a call"),
        (b"\x80\x04})R.", "has a call"),
        (b"\x80\x04\x8f.", "has a set"),
        (b"\x80\x05\x97.", "has a buffer"),
        (b"\x80\x04\x8e\x00\x00\x00\x00\x00\x00\x00\x00.", "has opcode 0x8e"),
        (b"\x80\x09}.", "pickle protocol 9, accepted are 2 to 5"),
        (b"\x80\x04}r\xff\xff\xff\x7f.", "memo entry 2,147,483,647"),
        (b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fabc.", "is cut short"),
        (b"\x80\x04\x8a\xff" + bytes(255) + b".", "a number of 255 bytes"),
        (b"\x80\x04" + b"(" * 1000, "more than 100 containers in one another"),
        (b"\x80\x04}(K\x01K\x02u.", "keys that are no text"),
        (b"\x80\x04}.more", "4 bytes follow the pickle's end"),
        (b"\x80\x04]].", "ends with a container open"),
        (b"\x80\x04K\x01K\x02a.", "appended to what is no list"),
        (b"\x80\x04h\x05.", "cut short, or was damaged"),
        (b"\x80\x04e.", "cut short, or was damaged"),
        (b"\x80\x04]]\x85.", "a tuple of containers"),
    ],
)
def test_what_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(PickleError, match=what):
        read(data)


def bombs() -> dict[str, bytes]:
    count = 400_000
    laughs = b"\x80\x04]\x94" + b"".join(b"](" + b"h%c" % i * 10 + b"e\x94" for i in range(40)) + b"."
    return {
        "lists": b"\x80\x04" + b"]" * count,
        "dicts that are remembered": b"\x80\x04" + b"}\x94" * (count // 2),
        "entries of the memo": b"\x80\x04N" + b"\x94" * count,
        "values": b"\x80\x04(" + b"N" * count,
        "different texts": b"\x80\x04" + b"".join(b"\x8c\x04%04x\x94" % i for i in range(65_536)) * (count // 400_000),
        "texts that are all different": b"\x80\x04" + b"".join(b"\x8c\x06%06x\x94" % i for i in range(count // 4)),
        "laughs": laughs,
    }


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_ends_within_bounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allowance = 1 << 20
    monkeypatch.setattr(_pickle_machine, "_ALLOWANCE", allowance)
    data = bombs()[name]
    tracemalloc.start()
    try:
        with pytest.raises((PickleError, _snapshot.SnapshotError)) as ended:
            _snapshot.read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "\n" not in str(ended.value)
    assert peak < 5 * len(data) + (_pickle_machine._STEP * 200) + allowance


def whole() -> bytes:
    frames = stack(
        ("/usr/lib/python3.11/site-packages/torch/nn/module.py", 5, "call"), ("/home/me/train.py", 7, "step")
    )
    trace = [entry("alloc", 512 * i, 512, i, frames=frames) for i in range(20)]
    return dumped(snapshot([segment(0, 1 << 20, [block(512) for _ in range(20)])], trace))


def test_a_pickle_that_is_cut_short_anywhere() -> None:
    data = whole()
    for length in range(2, len(data)):
        with pytest.raises(_snapshot.SnapshotError):
            _snapshot.read(data[:length])


def test_damage_anywhere_is_an_error_or_another_snapshot() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    data = whole()
    for _ in range(5_000):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            _snapshot.read(bytes(damaged))
        except _snapshot.SnapshotError as error:
            assert "\n" not in str(error)
