"""Little's law, the designed memory simulated, the covering radius and the error bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import spatial

from crystalrl import dynamics
from crystalrl.theory import Crystallization, Design, Thresholds, Wish, covering, design, selectivity, value_error_bound
from crystalrl.theory.covering import shrinkage
from crystalrl.theory.rates import Rates
from crystalrl.theory.samplers import matched_beta


def test_little_gives_the_contents_and_mean_states_of_each_phase() -> None:
    contents = Crystallization(interference=0.0).contents(200.0, Thresholds(), crystal_time=100.0)
    assert contents.number[0] == pytest.approx(2854, rel=0.01)
    assert contents.mean[:2] == pytest.approx((0.159, 0.528), abs=1e-3)
    assert contents.number[2] == 200 * 100


def test_a_law_that_settles_in_glass_never_fills_the_crystal() -> None:
    contents = Crystallization(utility=0.1, interference=1.0).contents(1.0, Thresholds(), 10.0)
    assert contents.time[1] == np.inf
    assert contents.number[2] == 0


def test_selectivity_of_the_paper_settings() -> None:
    liquid = 0.625 * np.array([1e4, 1e5, 1e6])
    np.testing.assert_allclose(selectivity(0.05, 0.3, 200, liquid), [0.228, 0.0228, 0.00228], rtol=0.01)


@dataclass(frozen=True)
class Outcome:
    """What a memory did over the second half of its run: mean contents, promoted share, mean age at leaving crystal."""

    contents: np.ndarray
    promoted: float
    crystal_age: float
    melted: float


Memory = Callable[[Wish, Design], Outcome]


def simulated_memory(wish: Wish, plan: Design, seed: int = 0) -> Outcome:
    """Inflow, law, thresholds and capacities, nothing else: liquid and glass drop lowest utility, crystal any."""
    rng = np.random.default_rng(seed)
    per_episode = round(wish.inflow * wish.episode)
    episodes = round(5 * (plan.steps_to_crystal + plan.crystal_lifetime) / wish.episode)
    c, utility, phase, entered = (np.zeros(0) for _ in range(4))
    contents, ages, risen = [], [], 0
    for episode in range(episodes):
        c = np.concatenate([c, np.zeros(per_episode)])
        utility = np.concatenate([utility, rng.random(per_episode)])
        phase = np.concatenate([phase, np.zeros(per_episode)])
        entered = np.concatenate([entered, np.zeros(per_episode)])
        c = _step(plan, c, utility, rng)
        phase = np.where((phase == 0) & (c > wish.thresholds.tau_L), 1, phase)
        crystal = (phase == 1) & (c > wish.thresholds.tau_C)
        phase, entered = np.where(crystal, 2, phase), np.where(crystal, episode, entered)
        keep = np.ones(c.size, dtype=bool)
        for index, key in enumerate((utility, utility, rng.random(c.size))):
            members = np.flatnonzero(phase == index)
            keep[members[np.argsort(key[members])][: max(0, members.size - plan.capacity[index])]] = False
        if episode >= episodes // 2:
            risen += int(crystal.sum())
            ages += list((episode - entered[~keep & (phase == 2)]) * wish.episode)
            contents.append([np.sum(keep & (phase == i)) for i in range(3)])
        c, utility, phase, entered = c[keep], utility[keep], phase[keep], entered[keep]
    share = risen / (len(contents) * per_episode)
    return Outcome(np.mean(contents, axis=0), share, float(np.mean(ages)), _melting_steps(wish, plan, rng))


def _step(plan: Design, c: np.ndarray, utility: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One consolidation with a utility of its own for each experience."""

    def draw(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(rng.beta(np.maximum(p.numpy(), 1e-10), np.maximum(q.numpy(), 1e-10)))

    gain, loss = torch.from_numpy(plan.alpha * utility), torch.zeros(c.size, dtype=torch.float64)
    sigma, unit = (torch.tensor(v, dtype=torch.float64) for v in (plan.sigma, 1.0))
    return dynamics.matched_beta(torch.from_numpy(c), gain, loss, sigma, unit, draw).numpy()


def _melting_steps(wish: Wish, plan: Design, rng: np.random.Generator) -> float:
    """Mean steps until a contradicted crystal without utility falls back to glass."""
    law, c, steps = Rates(0.0, plan.beta, plan.sigma), np.ones(2000), np.zeros(2000)
    edge = wish.thresholds.tau_C - wish.thresholds.band
    above = np.ones(2000, dtype=bool)
    while above.any():
        c = matched_beta(law, c, 1.0, rng)
        steps += above * wish.episode
        above &= c >= edge
    return float(steps.mean())


def assert_promise_kept(wish: Wish, memory: Memory) -> None:
    """Every promised number within a tenth. Takes the memory as a function, so that any implementation can be held."""
    plan = design(wish)
    outcome = memory(wish, plan)
    np.testing.assert_allclose(outcome.contents, plan.capacity, rtol=0.1)
    assert outcome.promoted == pytest.approx(plan.promoted, rel=0.1)
    assert outcome.crystal_age == pytest.approx(plan.crystal_lifetime, rel=0.1)
    assert outcome.melted == pytest.approx(wish.lifetime / 10 if wish.melt is None else wish.melt, rel=0.1)


@pytest.mark.parametrize(
    "wish",
    [
        Wish(capacity=1500, episode=30, lifetime=8000),
        Wish(capacity=1500, episode=40, lifetime=6000, maturity=12_000, melt=2000),
        Wish(capacity=1500, episode=15, lifetime=6000, maturity=3000, inflow=2),
    ],
)
def test_a_designed_memory_keeps_its_promise_within_a_tenth(wish: Wish) -> None:
    assert_promise_kept(wish, simulated_memory)


def test_a_design_obeys_little_and_fills_its_capacity() -> None:
    wish = Wish()
    plan = design(wish)
    assert sum(plan.capacity) == wish.capacity
    assert plan.capacity[2] == pytest.approx(wish.inflow * plan.promoted * plan.crystal_lifetime, rel=1e-3)
    climb = Crystallization(alpha=plan.alpha, utility=1.0, interference=0.0, sigma=plan.sigma)
    assert climb.time_to(0.7, 0.0) * wish.episode < plan.steps_to_crystal
    assert plan.mean_c[0] == pytest.approx(0.159, abs=1e-3)


def test_wishes_that_cannot_be_granted_are_refused_with_what_can() -> None:
    with pytest.raises(ValueError, match="lifetime \\+ maturity must exceed 100000 steps"):
        Wish(lifetime=40_000)
    with pytest.raises(ValueError, match="0 < tau_L < tau_C < 1"):
        Thresholds(0.7, 0.3)
    with pytest.raises(ValueError, match="utility 0 never rises"):
        design(Wish(utilities=lambda level: np.zeros_like(level)))


def test_weak_promises_are_noted() -> None:
    notes = design(Wish(capacity=1000, lifetime=2000, maturity=1000, episode=400)).notes
    assert any("consolidations" in note for note in notes)
    assert any("tenth of the liquid" in note for note in notes)


@pytest.mark.parametrize(("dimension", "slope"), [(2, -0.5), (3, -0.32), (4, -0.26), (8, -0.12)])
def test_the_covering_radius_shrinks_with_the_dimension(dimension: int, slope: float) -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([200, 800, 3200, 12_800])
    radii = []
    for size in sizes:
        trees = [spatial.cKDTree(rng.random((size, dimension))) for _ in range(3)]
        probes = rng.random((6000, dimension))
        radii.append(np.mean([covering(probes, lambda x, tree=tree: tree.query(x)[0]).mean for tree in trees]))
    assert shrinkage(np.array(radii), sizes) == pytest.approx(slope, abs=0.03)


def test_the_error_bound_covers_a_value_function_learned_from_nearest_neighbours() -> None:
    rng = np.random.default_rng(0)
    stored = rng.random((400, 2))
    tree = spatial.cKDTree(stored)
    probes = rng.random((5000, 2))

    def value(x: np.ndarray) -> np.ndarray:
        return np.sin(3 * x[:, 0]) + np.cos(2 * x[:, 1])

    lipschitz = np.sqrt(9 + 4)
    result = covering(probes, lambda x: tree.query(x)[0])
    error = np.abs(value(probes) - value(stored[tree.query(probes)[1]])).max()
    assert error <= value_error_bound(result.radius, lipschitz, 0.0, 0.0)
    assert value_error_bound(result.radius, lipschitz, 0.9, 0.1) == pytest.approx(
        (lipschitz * result.radius + 0.1) * 10
    )


def test_a_query_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="one distance per probe"):
        covering(np.zeros((4, 2)), lambda x: np.zeros((4, 1)))
