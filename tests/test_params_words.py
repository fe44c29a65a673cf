"""The parameters in words: what they say is what a running memory does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.params_words import Outlook

ENVS = 2
KNOWN = {"w1": 1.0, "w2": 0.0, "w3": 0.0, "scale": "raw", "boost": False, "interference": "none", "sigma": 0.0}
"""Settings that make c deterministic and the utility |δ|."""
UTILITIES = np.concatenate([np.linspace(0, 0.99, 85), np.ones(15)])


@dataclass
class Observed:
    """What happened to the experiences near one utility, in environment steps after arrival."""

    glass: float
    crystal: float
    """Shares that became so."""
    to_glass: float
    to_crystal: float
    to_loss: float
    """Mean times; loss is before crystal. NaN: it did not happen."""


def observe(
    params: CrystalParams, slots: int, utility: float, until: int, window: tuple[int, int], episode: int = 10**9
) -> Observed:
    """Feed a memory for a number of steps; experiences near the utility count if they arrive within the window."""
    memory = CrystalMemory(slots, obs=(1,), action=2, params=params, envs=ENVS)
    level = np.random.default_rng(0).permutation((np.arange(until) + 0.5) / until)
    error = UTILITIES[(level * len(UTILITIES)).astype(int)].astype(np.float32)
    owner = np.full(slots, until)
    """Number of the experience in each slot; `until`: none."""
    first = np.full((3, until + 1), np.inf)
    """Per experience: when it was first seen as glass, as crystal, and no more."""
    action = torch.zeros(ENVS, dtype=torch.int64)
    for now in range(ENVS, until + 1, ENVS):
        obs = torch.as_tensor(error[now - ENVS : now, None])
        flags = torch.full((ENVS,), now % episode == 0)
        slots_written = memory.add(Transition(obs, action, obs[:, 0], obs, flags, flags & False))
        first[2, owner[slots_written]] = now
        owner[slots_written] = np.arange(now - ENVS, now)
        if memory.due:
            memory.consolidate(lambda batch: batch.obs[..., 0])
            phase = memory.ledger.phase[0].clone()
            first[2, owner[phase.numpy() == 0]] = now
            if params.overflow == "reservoir":  # crystals dropped at once were crystals, too
                phase[(phase == 0) & (memory.ledger.c[0] > params.tau_C)] = 3
            for row, least in enumerate((2, 3)):
                reached = owner[phase.numpy() >= least]
                first[row, reached] = np.minimum(first[row, reached], now)
            owner[memory.ledger.phase[0].numpy() == 0] = until
    first = first[:, :until]
    number = np.arange(until)
    near = (number >= window[0]) & (number < window[1]) & (np.abs(error - utility) < 0.03)
    assert near.sum() >= 8
    glass, crystal, lost = first[:, near] - number[near]
    lost[np.isfinite(crystal)] = np.inf
    means = [float(x[np.isfinite(x)].mean()) if np.isfinite(x).any() else math.nan for x in (glass, crystal, lost)]
    return Observed(float(np.isfinite(glass).mean()), float(np.isfinite(crystal).mean()), *means)


def quick(**changes: object) -> CrystalParams:
    """The recommended parameters with a short unit of time, for small memories."""
    return CrystalParams.anchored(**{**KNOWN, "time_unit": 40, **changes})


LITERAL = CrystalParams.paper(**{**KNOWN, "every": 40, "every_episode": False})
CASES = {
    "slow: overwritten or evicted": (quick(), 400, 0.3),
    "evicted from glass": (quick(), 400, 0.5),
    "crystallizes": (quick(), 400, 0.93),
    "roomy: everything crystallizes": (quick(time_unit=10), 400, 0.5),
    "overwritten before the first consolidation": (CrystalParams.repaired(**KNOWN, every=1000), 400, 0.5),
    "even the best": (CrystalParams.repaired(**KNOWN, every=1000), 400, 1.0),
    "repaired": (CrystalParams.repaired(**KNOWN, every=60, time_unit=10), 500, 0.6),
    "paper: the store closes": (LITERAL, 600, 0.8),
    "without borrowing": (quick(borrow=False), 400, 0.5),
    "in slices": (quick(time_unit=10, slices=3), 400, 0.8),
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_running_memory_does_what_is_predicted(case: str) -> None:
    params, slots, utility = CASES[case]
    later = Outlook.of(params, slots, utility, utilities=UTILITIES).later
    interval, slowest = params.interval(slots), max(later.mean(p) for p in ("crystal", "lost") if later.share(p))
    begin, end = 3 * slots, 3 * slots + max(2 * slots, 3 * interval)
    seen = observe(params, slots, utility, end + int(slowest) + 2 * interval, (begin, end))
    assert seen.glass == pytest.approx(later.share("glass"), abs=0.15)
    assert seen.crystal == pytest.approx(later.share("crystal"), abs=0.15)
    for measured, what in ((seen.to_glass, "glass"), (seen.to_crystal, "crystal"), (seen.to_loss, "lost")):
        if later.share(what) > 0.2:
            assert measured == pytest.approx(later.mean(what), rel=0.15, abs=interval), what


def test_where_episodes_make_consolidations_due_their_length_gives_the_times() -> None:
    params = CrystalParams.paper(**KNOWN)
    first = Outlook.of(params, 600, 1.0, episode=40, utilities=UTILITIES).first
    seen = observe(params, 600, 1.0, 1200, (0, 80), episode=40)
    assert (seen.glass, seen.crystal) == (first.share("glass"), first.share("crystal")) == (1.0, 1.0)
    assert seen.to_glass == pytest.approx(first.mean("glass"), abs=20)
    assert seen.to_crystal == pytest.approx(first.mean("crystal"), rel=0.05)


def test_the_first_experiences_crystallize_where_later_ones_find_the_store_closed() -> None:
    outlook = Outlook.of(LITERAL, 600, 1.0, utilities=UTILITIES)
    assert (outlook.first.share("crystal"), outlook.later.share("crystal")) == (1.0, 0.0)
    seen = observe(LITERAL, 600, 1.0, 1200, (0, 80))
    assert seen.crystal == 1.0
    assert seen.to_crystal == pytest.approx(outlook.first.mean("crystal"), rel=0.05)
    first = outlook.verdict()[-4:]
    assert outlook.verdict()[0].endswith("once the memory is full:")
    assert "  never becomes crystal: the crystal store is full and admits no more" in outlook.verdict()[:-4]
    assert first[0] == "One that arrives before the first consolidation:"
    assert first[2].startswith("  becomes crystal after about 9")
    assert any(line.endswith("then it admits no more.") for line in outlook.population())


def test_what_happens_to_some_experiences_has_its_share() -> None:
    text = CrystalParams().describe(2000)
    assert (
        "\nOne that arrives before the first consolidation:\n  becomes glass in 42% of cases, after about 757 env"
        in text
    )


def test_a_contradicted_crystal_melts_when_it_is_said_to() -> None:
    """All states and actions are the same and rewards differ: everything is contradicted."""
    near = {"interference": "exists", "epsilon": 0.1, "delta_r": 0.5, "raw_distance": True, "backup": 0.0}
    params = quick(melt=0.1, **near)
    memory = CrystalMemory(200, obs=(1,), action=2, params=params, envs=2)
    obs, no, action = torch.ones(2, 1), torch.zeros(2, dtype=torch.bool), torch.zeros(2, dtype=torch.int64)
    begun = None
    while begun is None or bool((memory.ledger.phase == 3).any()):
        start = {"crystallization": 1.0} if begun is None else {}
        memory.add(Transition(obs, action, torch.tensor([0.0, 1.0]), obs, no, no), **start)
        begun = int(memory.time) if begun is None else begun
        if memory.due:
            memory.consolidate(lambda batch: batch.obs[..., 0])
    text = params.describe(200, interference=1.0)
    assert f"becomes glass again after {int(memory.time):,} environment steps (5.0 consolidations)" in text
    assert int(memory.time) == 200  # −ln(.65)/.1 = 4.3 units of 40 steps, rounded up
    assert "becomes liquid again after 560 environment steps (14 consolidations)" in text  # −ln(.25)/.1 = 13.9
    assert "never becomes glass: c tends to 0.000, glass begins above 0.3" in text


def test_an_experience_that_is_overwritten_is_not_promised_to_crystallize() -> None:
    text = CrystalParams.repaired(every=1000).describe(400)
    assert "is overwritten after about 517 environment steps (0.5 consolidations), before it becomes glass" in text
    assert "never becomes crystal: it is overwritten before" in text
    assert "No crystal forms: use more slots, a larger alpha, or consolidate more often." in text
    assert "becomes crystal after" not in text


def test_slots_that_stay_empty_are_predicted() -> None:
    """With a short unit of time nearly all crystallize, and the full crystal store drops them."""
    params = quick(time_unit=4, every=20)
    memory = CrystalMemory(400, obs=(1,), action=2, params=params, envs=2)
    no, action = torch.zeros(2, dtype=torch.bool), torch.zeros(2, dtype=torch.int64)
    levels = (np.arange(1600) * 0.618034 % 1.0).astype(np.float32)
    for obs in torch.as_tensor(levels).view(-1, 2, 1):
        memory.add(Transition(obs, action, obs[:, 0], obs, no, no))
        if memory.due:
            memory.consolidate(lambda batch: batch.obs[..., 0])
    seen = Outlook.of(params, 400, 0.5).seen
    assert len(memory) / 400 == pytest.approx(seen.used, abs=0.05)
    assert f"{1 - seen.used:.0%} of the slots stay empty: nearly all crystallize" in params.describe(400)
    assert "stay empty" not in quick().describe(400)


def test_the_default_is_described_with_its_settings() -> None:
    """U = .5, α = .2: ln(1/.7)/.1 = 3.57 units of 2,000 steps to glass, 12.04 to crystal, plus half an interval."""
    text = CrystalParams().describe(100_000)
    assert "becomes glass after about 8,150 environment steps (4.1 consolidations)" in text
    assert "becomes crystal after about 25,100 environment steps (13 consolidations)" in text
    assert "37,500 liquid, 12,500 glass, 50,000 crystal, and liquid borrows what glass and crystal leave empty." in text
    assert "Consolidation every 2,000 environment steps; nothing moves before the first." in text
    assert "Outputs are taken to have settled (factor 1)" in text
    assert "settled" not in CrystalParams.repaired().describe(16_000)


def test_where_episodes_are_the_clock_times_are_in_episodes_or_follow_from_their_length() -> None:
    """α = .05, U = .5: 14.3 Euler steps to glass, so the 15th consolidation after the arrival."""
    params = CrystalParams.paper()
    assert "consolidations (episodes)" in params.describe(16_000)
    assert "give `episode`, their length" in params.describe(16_000)
    text = params.describe(200_000, episode=100)
    assert "becomes glass after about 1,450 environment steps (14 consolidations)" in text
    assert "give `episode`" not in text
    assert "crystal, 10,000 left free by each consolidation." in text


def test_what_never_rises_far_enough_is_said_to() -> None:
    weak = CrystalParams.repaired().describe(16_000, utility=0.01, interference=1.0)
    assert "never becomes glass: c tends to 0.091, glass begins above 0.3" in weak
    middle = CrystalParams.repaired(every=200).describe(16_000, utility=0.15, interference=1.0)
    assert "never becomes crystal: c tends to 0.600, crystal begins above 0.7" in middle
    assert "A crystal contradicted in 100 consecutive consolidations is evicted." in middle
    assert "phases are off" in CrystalParams(phases=False).describe(2000)
    with pytest.raises(ValueError, match="utility: wanted a number from 0 to 1, got 2"):
        CrystalParams().describe(2000, utility=2)
    with pytest.raises(ValueError, match="slots: wanted a whole number ≥ 1, got 0"):
        CrystalParams().describe(0)
