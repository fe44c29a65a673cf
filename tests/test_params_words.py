"""The parameters in words."""

from __future__ import annotations

from crystalrl import CrystalParams


def test_describe_says_in_words_how_long_an_experience_takes() -> None:
    """U = .5, α = .05: ln(1/.7)/.025 = 14.27 units of 200 steps to glass, 48.2 to crystal."""
    text = CrystalParams.repaired().describe(16_000)
    assert "becomes glass after 2,853 environment steps" in text
    assert "becomes crystal after 9,632 environment steps" in text
    assert "tends to c* = 1.000" in text
    assert "10,000 liquid, 5,000 glass, 1,000 crystal" in text
    assert "every 5,000 environment steps." in text
    weak = CrystalParams.repaired().describe(16_000, utility=0.01, interference=1.0)
    assert "never becomes crystal: the mean of c stays below 0.7" in weak
    assert "c* = 0.091" in weak
    paper = CrystalParams.paper().describe(16_000)  # one unit of time per consolidation, of which each episode has one
    assert "becomes glass after 14 consolidations" in paper
    assert "becomes crystal after 48 consolidations" in paper
    assert "every 5,000 environment steps and at the end of each episode" in paper
    slow = CrystalParams.paper_navigation().describe(16_000, utility=1.0)
    assert "becomes glass after 9 consolidations" in slow  # ln(1/.65)/(.01 · 5) = 8.6
    melting = CrystalParams.anchored().describe(4000, interference=1.0)
    assert "c* = 0.000" in melting
