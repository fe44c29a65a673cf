"""Many contexts one after another, and one that is redefined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.contexts import ANCHORED, LAYOUTS, fifty, redefine
from crystalrl import CrystalParams


def test_redefining_a_context_melts_its_crystals_and_spares_the_others() -> None:
    runs = [redefine(seed) for seed in range(2)]
    total = {name: sum(run[name] for run in runs) for name in runs[0]}
    assert min(total["contradicted crystals"], total["crystals of the other context"]) > 100
    assert total["of them melted"] >= 0.9 * total["contradicted crystals"]
    assert total["of those melted"] <= 0.03 * total["crystals of the other context"]


def test_without_interference_nothing_melts() -> None:
    """In a store with room: a full one drops some."""
    run = redefine(0, params=replace(ANCHORED, interference="none", capacity=(2.0, 1.0, 13.0)))
    assert min(run["contradicted crystals"], run["crystals of the other context"]) > 100
    assert run["of those melted"] == run["of them melted"] == 0


def test_the_papers_crystals_are_all_of_the_first_context() -> None:
    kept = fifty(CrystalParams.paper(), 160, 3000, 50, contexts=3)
    assert kept["crystals"] == kept["room"]
    assert kept["effective"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_every_layout_the_other_context_is_spared(layout: str) -> None:
    runs = [redefine(seed, layout) for seed in range(20, 28)]
    total = {name: sum(run[name] for run in runs) for name in runs[0]}
    assert total["of them melted"] >= 0.9 * total["contradicted crystals"]
    assert total["of those melted"] <= 0.01 * total["crystals of the other context"]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_fifty_contexts_anchored_keeps_nearly_all(layout: str) -> None:
    anchored = fifty(CrystalParams.anchored(), 3200, 1600, 800, layout=layout)
    assert anchored["crystals"] == anchored["room"]
    assert anchored["effective"] >= 45


@pytest.mark.slow
def test_of_fifty_contexts_the_paper_keeps_one() -> None:
    assert fifty(CrystalParams.paper(), 320, 3000, 50)["effective"] == 1.0
