"""Sizes as people write and read them."""

from __future__ import annotations

import re

ACCEPTED = "accepted are bytes such as 25769803776 and sizes such as 24GiB, 512MiB and 1.5TiB"

_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    prefix + suffix: int(base**power)
    for suffix, base in (("ib", 1024), ("b", 1000))
    for power, prefix in enumerate("kmgt", start=1)
}
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")
_LARGEST = 2**62


def parse(text: str) -> int:
    """Bytes of "24GiB", "1.5 GB" or "4096". Raises ValueError with what is accepted."""
    match = _FORM.fullmatch(text.strip())
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not a size, {ACCEPTED}")
    whole, _, fraction = match[1].partition(".")
    # In whole numbers: a float would lose bytes of a large size.
    size = int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
    if not 0 < size <= _LARGEST:
        raise ValueError(f"{text!r} is out of range, accepted are sizes from 1 byte to 4 EiB")
    return size


def gib(size: int) -> str:
    """ "24.72": GiB with two decimals."""
    return f"{size / 2**30:.2f}"


def short(size: int) -> str:
    """ "1.5 GiB", "512 MiB", "7 B": with the unit that fits."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.3g} {unit}" if size < 1000 << power else f"{size / (1 << power):,.0f} {unit}"
    return f"{size} B"
