"""Figures of the law: small files, the same for the same law, with the numbers of the law in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.theory.command import run


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("extra", [(), ("--sigma", "0"), ("--utility", "0", "--interference", "0", "--c0", "0.4")])
def test_show_writes_a_small_figure(tmp_path: Path, suffix: str, extra: tuple[str, ...]) -> None:
    target = tmp_path / f"law{suffix}"
    code, _ = run("show", "--plot", str(target), *extra)
    assert code == 0
    assert 2_000 < target.stat().st_size < 200_000


def test_figures_are_reproducible(tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        run("show", "--plot", str(tmp_path / name))
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
