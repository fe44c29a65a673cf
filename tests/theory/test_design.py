"""A designed memory keeps its promises: measured on a real `CrystalMemory`, to within a tenth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.theory import Crystallization, Design, Thresholds, Wish, design

LANES = 3
ONLY_ERRORS = {"w1": 1.0, "w2": 0.0, "w3": 0.0, "boost": False}
"""Utility is the scaled |δ| alone."""


class Stream:
    """A memory as designed, fed with experiences that carry their |δ| as observation.

    |δ| is uniform in [0, 1]; the scale "q95" divides by what is almost the largest |δ| stored, so that the utilities of
    newcomers are even over [0, 1], as the wish says. All environments step once between two consolidations.
    """

    def __init__(self, wish: Wish, params: CrystalParams) -> None:
        self.wish, self.count = wish, params.interval(wish.capacity)
        self.memory = CrystalMemory(wish.capacity, obs=(1,), action=2, params=params, envs=self.count, lanes=LANES)
        self.random = torch.Generator().manual_seed(0)

    def episode(self, error: Tensor | None = None, **start: float) -> dict[str, Tensor]:
        """Add what comes until a consolidation is due, and consolidate; its report."""
        shape = (LANES, self.count)
        error = torch.rand(*shape, 1, generator=self.random) if error is None else error
        reward = torch.arange(self.count).remainder(2).expand(shape).to(torch.float32)
        never, action = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.int64)
        self.memory.add(Transition(error, action, reward, error, never, never), **start)
        assert self.memory.due
        return dict(self.memory.consolidate(lambda batch: batch.obs[..., 0]).values)

    @property
    def now(self) -> float:
        """Environment steps so far."""
        return float(self.memory.time[0]) / self.wish.inflow

    def ages(self, mask: Tensor) -> Tensor:
        """Steps since entry of the masked slots of all lanes."""
        return self.now - self.memory.ledger.birth[mask] / self.wish.inflow


@dataclass
class Outcome:
    """What a designed memory did, mean over lanes; steady numbers from the time on when all phases should be full."""

    contents: np.ndarray
    mean_c: np.ndarray
    promoted: float
    to_glass: float
    to_crystal: float
    full_after: float
    held: dict[str, float]
    """Share held at the end of: all crystals formed; those of the first lifetime; those formed since; those that were
    held halfway from full to the end."""
    halfway: float
    end: float


def observe(wish: Wish, plan: Design) -> Outcome:
    """Run for two and a half times as long as the store needs to fill."""
    params = plan.params(**ONLY_ERRORS, scale="q95", interference="none")
    stream, end = Stream(wish, params), 2.5 * plan.full_after
    ledger = stream.memory.ledger
    formed = torch.full((LANES, round(end * wish.inflow) + 2 * stream.count), np.nan)
    """When each experience, by number, became a crystal that was kept."""
    count, reports, glass_ages, crystal_ages, halfway = [], [], [], [], None
    full_after = 0.0
    while stream.now < end:
        before = ledger.phase.clone()
        values = stream.episode()
        risen, crystal = (ledger.phase == 2) & (before == 1), (ledger.phase == 3) & (before != 3)
        lane = crystal.nonzero()[:, 0]
        formed[lane, ledger.birth[crystal]] = stream.now
        count.append((stream.now, float(values["to_crystal"].mean())))
        if bool((values["crystal"] < ledger.caps[2]).any()):
            full_after = stream.now
        if stream.now > plan.full_after:
            reports.append(values)
            glass_ages.append(stream.ages(risen))
            crystal_ages.append(stream.ages(crystal))
        if halfway is None and stream.now > (plan.full_after + end) / 2:
            halfway = (stream.now, torch.where(ledger.phase == 3, ledger.birth, -1))
    stream.memory.check()
    time, flow = np.array(count).T
    held = torch.where(ledger.phase == 3, ledger.birth, -1)
    when = formed.gather(1, held.clamp_min(0)).masked_fill(held < 0, np.nan)
    early = time <= plan.full_after
    still = [np.isin(now[now >= 0], then[then >= 0]).sum() for now, then in zip(held, halfway[1], strict=True)]
    return Outcome(
        contents=np.array([np.mean([r[p].mean() for r in reports]) for p in ("liquid", "glass", "crystal")]),
        mean_c=np.array([np.mean([r[f"c_mean_{p}"].mean() for r in reports]) for p in ("liquid", "glass")]),
        promoted=float(flow[~early].mean() / stream.count),
        to_glass=float(torch.cat(glass_ages).mean()),
        to_crystal=float(torch.cat(crystal_ages).mean()),
        full_after=full_after,
        held={
            "all": float((held >= 0).sum()) / LANES / flow.sum(),
            "old": float((when <= plan.full_after).sum()) / LANES / flow[early].sum(),
            "new": float((when > plan.full_after).sum()) / LANES / flow[~early].sum(),
            "halfway": float(np.sum(still)) / float((halfway[1] >= 0).sum()),
        },
        halfway=halfway[0],
        end=stream.now,
    )


@pytest.mark.parametrize(
    "wish",
    [
        Wish(capacity=1000, episode=25, lifetime=5000),
        pytest.param(Wish(capacity=1200, episode=40, lifetime=6000, maturity=12_000), marks=pytest.mark.slow),
        Wish(capacity=1000, episode=10, lifetime=3000, maturity=1500, inflow=2),
    ],
    ids=["even", "slow to mature", "two environments"],
)
def test_a_designed_memory_keeps_every_promise_within_a_tenth(wish: Wish) -> None:
    plan = design(wish)
    seen = observe(wish, plan)
    np.testing.assert_allclose(seen.contents, plan.capacity, rtol=0.1)
    np.testing.assert_allclose(seen.mean_c, plan.mean_c[:2], rtol=0.1)
    assert seen.promoted == pytest.approx(plan.promoted, rel=0.1)
    assert seen.to_glass == pytest.approx(plan.steps_to_glass, rel=0.1)
    assert seen.to_crystal == pytest.approx(plan.steps_to_crystal, rel=0.1)
    assert seen.full_after == pytest.approx(plan.full_after, rel=0.1)
    kept = float(plan.retained(seen.end))
    for cohort in ("all", "old", "new"):
        assert seen.held[cohort] == pytest.approx(kept, rel=0.1), cohort
    assert seen.held["halfway"] == pytest.approx(kept / float(plan.retained(seen.halfway)), rel=0.1)


def test_contradicted_crystals_of_a_designed_memory_melt_in_the_wished_time() -> None:
    """Everything has one state and one action, rewards differ, |δ| = 0: all are contradicted and useless."""
    wish = Wish(capacity=600, episode=20, lifetime=4000, melt=1500)
    near = {"interference": "exists", "epsilon": 0.1, "delta_r": 0.5, "raw_distance": True, "tau_evict": None}
    stream = Stream(wish, design(wish).params(**ONLY_ERRORS, **near))
    useless = torch.zeros(LANES, stream.count, 1)
    ages = []
    for _ in range(5):
        stream.episode(useless, crystallization=1.0)
    crystals = stream.memory.ledger.phase == 3
    assert int(crystals.sum()) == 5 * 20 * LANES
    while bool(crystals.any()):
        stream.episode(useless)
        melted = crystals & (stream.memory.ledger.phase != 3)
        ages.append(stream.ages(melted))
        crystals &= ~melted
    assert float(torch.cat(ages).mean()) == pytest.approx(1500, rel=0.1)


def test_c_spreads_no_more_than_wished() -> None:
    plan = design(Wish(spread=0.02))
    law = Crystallization(plan.alpha, 0.0, plan.sigma, utility=plan.utility_floor, interference=0.0)
    steps = np.linspace(0, 4 * plan.steps_to_crystal / plan.time_unit, 400)
    assert np.sqrt(np.asarray(law.variance(steps, 0.0)).max()) == pytest.approx(0.02, rel=1e-3)


def test_a_design_obeys_little_and_fills_its_capacity() -> None:
    wish = Wish()
    plan = design(wish)
    assert sum(plan.capacity) == wish.capacity
    assert plan.params().caps(wish.capacity) == pytest.approx(plan.capacity, abs=1)
    assert plan.capacity[2] == pytest.approx(wish.inflow * plan.promoted * plan.crystal_lifetime, rel=1e-3)
    climb = Crystallization(alpha=plan.alpha, utility=1.0, interference=0.0, sigma=plan.sigma)
    assert climb.time_to(0.7, 0.0) * wish.episode < plan.steps_to_crystal
    assert plan.mean_c[0] == pytest.approx(0.159, abs=3e-3)


def test_wishes_that_cannot_be_granted_are_refused_with_what_can() -> None:
    with pytest.raises(ValueError, match="lifetime \\+ maturity must exceed 100000 steps"):
        Wish(lifetime=40_000)
    with pytest.raises(ValueError, match="maturity must be at least one episode of 200 steps, got 100"):
        Wish(maturity=100)
    with pytest.raises(ValueError, match="capacity must exceed inflow × episode = 200, got 150"):
        Wish(capacity=150)
    with pytest.raises(ValueError, match="melt must be > 0"):
        Wish(melt=0)
    with pytest.raises(ValueError, match="0 < tau_L < tau_C < 1"):
        Thresholds(0.7, 0.3)
    with pytest.raises(ValueError, match="utility 0 never rises"):
        design(Wish(utilities=lambda level: np.zeros_like(level)))


def test_weak_promises_are_noted() -> None:
    notes = design(Wish(capacity=1000, lifetime=2000, maturity=1000, episode=400)).notes
    assert any("consolidations" in note for note in notes)
    assert any("third of the liquid" in note for note in notes)


@pytest.mark.parametrize(("share", "melts"), [(0.9, True), (1.1, False)])
def test_contradicted_crystals_melt_only_below_the_promised_utility(share: float, melts: bool) -> None:
    """All crystals lie at one place and contradict each other; newcomers elsewhere, with |δ| = 1, set the scale."""
    wish = Wish(capacity=600, episode=20, lifetime=4000, melt=4000, spread=1e-4)
    plan = design(wish)
    assert share * plan.melting_utility < 0.95
    near = {"interference": "exists", "epsilon": 0.01, "delta_r": 0.5, "raw_distance": True, "tau_evict": None}
    stream = Stream(wish, plan.params(**ONLY_ERRORS, **near, scale="q95"))
    shape = (LANES, stream.count, 1)
    stream.episode(torch.ones(shape))
    stream.episode(torch.full(shape, share * plan.melting_utility), crystallization=1.0)
    crystals = (stream.memory.ledger.phase == 3) & (stream.memory.ledger.birth >= stream.count)
    assert int(crystals.sum()) == 20 * LANES
    for _ in range(700):
        stream.episode(torch.ones(shape))
    kept = crystals & (stream.memory.ledger.phase == 3) & (stream.memory.ledger.birth < 2 * stream.count)
    assert int(kept.sum()) == (0 if melts else 20 * LANES)
