"""docs/options.md is what `reprieve options --markdown` prints."""

from __future__ import annotations

from pathlib import Path


def test_the_page_is_current(reprieve, root: Path) -> None:
    page = root / "docs" / "options.md"
    assert page.read_text() == reprieve("options", "--markdown").out, (
        "run: reprieve options --markdown > docs/options.md"
    )
