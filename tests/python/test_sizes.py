"""Sizes on the command line."""

from __future__ import annotations

import pytest

from reprieve import _sizes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("25769803776", 24 << 30),
        ("24GiB", 24 << 30),
        ("24 gib", 24 << 30),
        (" 512MiB ", 512 << 20),
        ("1.5TiB", 3 << 39),
        ("1.5 GB", 1_500_000_000),
        ("0.1KiB", 102),
        ("7B", 7),
        ("4194304TiB", 2**62),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert _sizes.parse(text) == size


@pytest.mark.parametrize("text", ["", "x", "GiB", "24 GiB GiB", "-1", "1e9", "1,5GiB", "5.GiB", "24PiB", "nan", "80%"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not a size, accepted are bytes such as 25769803776 and sizes such as 24GiB"
    ):
        _sizes.parse(text)


@pytest.mark.parametrize("text", ["0", "0GiB", "0.1B", "4194305TiB", "9" * 400])
def test_what_is_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match="is out of range, accepted are sizes from 1 byte to 4 EiB"):
        _sizes.parse(text)
