"""Little's law, and designed memories: predictions hold on a real `CrystalMemory` to within 10 %."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.theory import Crystallization, Design, Requirements, Thresholds, design, selectivity

LANES = 3
ONLY_ERRORS = {"w1": 1.0, "w2": 0.0, "w3": 0.0, "boost": False}
"""Settings that make the utility the scaled |δ| alone."""


def test_littles_law_gives_the_contents_and_mean_c_of_each_phase() -> None:
    contents = Crystallization(interference=0.0).contents(200.0, Thresholds(), crystal_time=100.0)
    assert contents.number[0] == pytest.approx(2854, rel=0.01)
    assert contents.mean[:2] == pytest.approx((0.159, 0.528), abs=1e-3)
    assert contents.number[2] == 200 * 100


def test_experiences_that_settle_in_glass_never_fill_the_crystal_store() -> None:
    contents = Crystallization(utility=0.1, interference=1.0).contents(1.0, Thresholds(), 10.0)
    assert contents.time[1] == np.inf
    assert contents.number[2] == 0


def test_selectivity_at_the_settings_of_the_paper() -> None:
    liquid = 0.625 * np.array([1e4, 1e5, 1e6])
    np.testing.assert_allclose(selectivity(0.05, 0.3, 200, liquid), [0.228, 0.0228, 0.00228], rtol=0.01)


class DesignedMemory:
    """A designed memory, fed with experiences whose observation is their |δ|.

    |δ| is uniform in [0, 1]; the scale "q95" divides by nearly the largest stored |δ|, so that the utilities of new
    experiences are uniform in [0, 1], as `Requirements` assumes. All environments step once between two consolidations.
    """

    def __init__(self, needs: Requirements, params: CrystalParams, lanes: int = LANES) -> None:
        self.needs, self.count, self.lanes = needs, params.interval(needs.capacity), lanes
        self.memory = CrystalMemory(needs.capacity, obs=(1,), action=2, params=params, envs=self.count, lanes=lanes)
        self.random = torch.Generator().manual_seed(0)

    def episode(self, error: Tensor | None = None, **start: float) -> dict[str, Tensor]:
        """Add experiences until a consolidation is due, consolidate, and return its report."""
        shape = (self.lanes, self.count)
        error = torch.rand(*shape, 1, generator=self.random) if error is None else error
        reward = torch.arange(self.count).remainder(2).expand(shape).to(torch.float32)
        never, action = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.int64)
        self.memory.add(Transition(error, action, reward, error, never, never), **start)
        assert self.memory.due
        return dict(self.memory.consolidate(lambda batch: batch.obs[..., 0]).values)

    @property
    def now(self) -> float:
        """Environment steps so far."""
        return float(self.memory.time[0]) / self.needs.inflow

    def ages(self, mask: Tensor) -> Tensor:
        """Steps since insertion of the masked slots of all lanes."""
        return self.now - self.memory.ledger.birth[mask] / self.needs.inflow


@dataclass
class Outcome:
    """What a designed memory did, mean over lanes; steady-state values count from when all phases should be full."""

    contents: np.ndarray
    mean_c: np.ndarray
    promoted: float
    to_glass: float
    to_crystal: float
    full_after: float
    held: dict[str, float]
    """Share still held at the end, of: all crystals formed; those formed until full; those formed since; those held
    halfway between full and the end."""
    halfway: float
    end: float


def observe(needs: Requirements, plan: Design) -> Outcome:
    """Run for 2.5 times as long as the store takes to fill."""
    params = plan.params(**ONLY_ERRORS, scale="q95", interference="none")
    designed, end = DesignedMemory(needs, params), 2.5 * plan.full_after
    ledger = designed.memory.ledger
    formed = torch.full((LANES, round(end * needs.inflow) + 2 * designed.count), np.nan)
    """When each experience, by number, became a crystal that was kept; NaN if never."""
    count, reports, glass_ages, crystal_ages, halfway = [], [], [], [], None
    full_after = 0.0
    while designed.now < end:
        before = ledger.phase.clone()
        values = designed.episode()
        risen, crystal = (ledger.phase == 2) & (before == 1), (ledger.phase == 3) & (before != 3)
        lane = crystal.nonzero()[:, 0]
        formed[lane, ledger.birth[crystal]] = designed.now
        count.append((designed.now, float(values["to_crystal"].mean())))
        if bool((values["crystal"] < ledger.caps[2]).any()):
            full_after = designed.now
        if designed.now > plan.full_after:
            reports.append(values)
            glass_ages.append(designed.ages(risen))
            crystal_ages.append(designed.ages(crystal))
        if halfway is None and designed.now > (plan.full_after + end) / 2:
            halfway = (designed.now, torch.where(ledger.phase == 3, ledger.birth, -1))
    designed.memory.check()
    time, flow = np.array(count).T
    held = torch.where(ledger.phase == 3, ledger.birth, -1)
    when = formed.gather(1, held.clamp_min(0)).masked_fill(held < 0, np.nan)
    early = time <= plan.full_after
    still = [np.isin(now[now >= 0], then[then >= 0]).sum() for now, then in zip(held, halfway[1], strict=True)]
    return Outcome(
        contents=np.array([np.mean([r[p].mean() for r in reports]) for p in ("liquid", "glass", "crystal")]),
        mean_c=np.array([np.mean([r[f"c_mean_{p}"].mean() for r in reports]) for p in ("liquid", "glass")]),
        promoted=float(flow[~early].mean() / designed.count),
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
        end=designed.now,
    )


@pytest.mark.parametrize(
    "needs",
    [
        Requirements(capacity=500, episode=20, lifetime=2500),
        pytest.param(Requirements(capacity=1200, episode=40, lifetime=6000, maturity=12_000), marks=pytest.mark.slow),
        pytest.param(
            Requirements(capacity=600, episode=10, lifetime=1800, maturity=900, inflow=2), marks=pytest.mark.slow
        ),
    ],
    ids=["maturity equals lifetime", "slow to mature", "two environments"],
)
def test_a_designed_memory_meets_every_prediction_within_ten_percent(needs: Requirements) -> None:
    plan = design(needs)
    seen = observe(needs, plan)
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


def test_contradicted_crystals_of_a_designed_memory_melt_in_the_required_time() -> None:
    """All experiences share one state and one action, rewards differ, |δ| = 0: all are contradicted and useless."""
    needs = Requirements(capacity=600, episode=20, lifetime=4000, melt=1500)
    near = {"interference": "exists", "epsilon": 0.1, "delta_r": 0.5, "raw_distance": True, "tau_evict": None}
    designed = DesignedMemory(needs, design(needs).params(**ONLY_ERRORS, **near))
    useless = torch.zeros(LANES, designed.count, 1)
    ages = []
    for _ in range(5):
        designed.episode(useless, crystallization=1.0)
    crystals = designed.memory.ledger.phase == 3
    assert int(crystals.sum()) == 5 * 20 * LANES
    while bool(crystals.any()):
        designed.episode(useless)
        melted = crystals & (designed.memory.ledger.phase != 3)
        ages.append(designed.ages(melted))
        crystals &= ~melted
    assert float(torch.cat(ages).mean()) == pytest.approx(1500, rel=0.1)


def test_c_spreads_no_more_than_required() -> None:
    plan = design(Requirements(spread=0.02))
    law = Crystallization(plan.alpha, 0.0, plan.sigma, utility=plan.utility_floor, interference=0.0)
    steps = np.linspace(0, 4 * plan.steps_to_crystal / plan.time_unit, 400)
    assert np.sqrt(np.asarray(law.variance(steps, 0.0)).max()) == pytest.approx(0.02, rel=1e-3)


def test_a_design_obeys_littles_law_and_fills_its_capacity() -> None:
    needs = Requirements()
    plan = design(needs)
    assert sum(plan.capacity) == needs.capacity
    assert plan.params().caps(needs.capacity) == pytest.approx(plan.capacity, abs=1)
    assert plan.capacity[2] == pytest.approx(needs.inflow * plan.promoted * plan.crystal_lifetime, rel=1e-3)
    climb = Crystallization(alpha=plan.alpha, utility=1.0, interference=0.0, sigma=plan.sigma)
    assert climb.time_to(0.7, 0.0) * needs.episode < plan.steps_to_crystal
    assert plan.mean_c[0] == pytest.approx(0.159, abs=3e-3)


def test_impossible_requirements_are_refused_with_the_feasible_range() -> None:
    with pytest.raises(ValueError, match="lifetime \\+ maturity: wanted more than 100000 steps"):
        Requirements(lifetime=40_000)
    with pytest.raises(ValueError, match="maturity: wanted at least one episode of 200 steps, got 100"):
        Requirements(maturity=100)
    with pytest.raises(ValueError, match="capacity: wanted more than inflow × episode = 200, got 150"):
        Requirements(capacity=150)
    with pytest.raises(ValueError, match="melt: wanted a number > 0"):
        Requirements(melt=0)
    with pytest.raises(ValueError, match="0 < tau_L < tau_C < 1"):
        Thresholds(0.7, 0.3)
    with pytest.raises(ValueError, match="utility 0 never crystallizes"):
        design(Requirements(utilities=lambda level: np.zeros_like(level)))


def test_weak_predictions_are_noted() -> None:
    notes = design(Requirements(capacity=1000, lifetime=2000, maturity=1000, episode=400)).notes
    assert any("consolidations" in note for note in notes)
    assert any("third of the liquid" in note for note in notes)


def test_contradicted_crystals_melt_only_below_the_predicted_utility() -> None:
    """All crystals share one state and contradict each other; later experiences elsewhere, |δ| = 1, set the scale.

    The crystals of the first lanes have a utility below the predicted one, those of the other lanes one above it.
    """
    needs = Requirements(capacity=300, episode=40, lifetime=2000, melt=2000, spread=1e-4)
    plan = design(needs)
    share = torch.tensor([0.9] * LANES + [1.1] * LANES)
    assert float(share.max()) * plan.melting_utility < 0.95
    near = {"interference": "exists", "epsilon": 0.01, "delta_r": 0.5, "raw_distance": True, "tau_evict": None}
    designed = DesignedMemory(needs, plan.params(**ONLY_ERRORS, **near, scale="q95"), lanes=len(share))
    shape = (len(share), designed.count, 1)
    designed.episode(torch.ones(shape))
    designed.episode((share * plan.melting_utility)[:, None, None].expand(shape), crystallization=1.0)
    crystals = (designed.memory.ledger.phase == 3) & (designed.memory.ledger.birth >= designed.count)
    assert crystals.sum(1).tolist() == [40] * len(share)
    for _ in range(175):
        designed.episode(torch.ones(shape))
    kept = crystals & (designed.memory.ledger.phase == 3) & (designed.memory.ledger.birth < 2 * designed.count)
    assert kept.sum(1).tolist() == [0] * LANES + [40] * LANES
