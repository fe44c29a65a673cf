"""Which experiences are contradicted: noise is forgiven, change is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from crystalrl.memory.crystal.interference import Scene, contradicted, spacing

from benchmarks.interference import automatic_row, library, literal, noise_row, scene_of, sites
from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.dynamics import CRYSTAL, GLASS, LIQUID
from crystalrl.memory.neighbours.exact import distances

SPARED = ("newer_majority", "fresh_mean")


@pytest.mark.parametrize("neighbours", [(500, 4), (20, 50)])
@pytest.mark.parametrize("rule", SPARED)
def test_noise_in_the_rewards_flags_few_and_change_is_found(rule: str, neighbours: tuple[int, int]) -> None:
    row = noise_row(rule, "library", *neighbours, seeds=1)
    assert row["flagged, p = 0.01"] < 0.02
    assert row["flagged, p = 0.2"] < 0.10
    for noise in ("0", "0.01", "0.05", "0.2"):
        assert row[f"recall, p = {noise}"] > 0.90
        assert row[f"recall, p = {noise}, two thirds newer"] > 0.90


@pytest.mark.parametrize("rule", SPARED)
def test_without_its_guard_a_rule_flags_every_outlier(rule: str) -> None:
    data = sites(4, 200, 0.2, False, 1 / 2, seed=0)
    scene = scene_of(data, torch.tensor(data["state"], dtype=torch.float32)[None])
    could = ~data["new"] | (rule == "newer_majority")
    assert literal(rule, scene, 0.5, 0.5)[could].mean() > 0.15
    assert library(rule, scene, 0.5, 0.5)[could].mean() < 0.01


def test_the_papers_rule_flags_nearly_everything_with_many_neighbours() -> None:
    """One reward in a hundred is another, 500 neighbours: 1 − .99⁵⁰⁰ = .993 expected."""
    data = sites(4, 500, 0.01, False, 1 / 2, seed=0)
    scene = scene_of(data, torch.tensor(data["state"], dtype=torch.float32)[None])
    assert library("exists", scene, 0.5, 0.5).mean() > 0.98
    assert np.array_equal(library("exists", scene, 0.5, 0.5), literal("exists", scene, 0.5, 0.5))


def test_automatic_epsilon_finds_contradictions_in_a_navigation_stream() -> None:
    """The distance to the nearest state, which is the paper's scale if any, finds hardly one."""
    ours = automatic_row(1000, "fresh_mean", "library", 10)
    assert ours["recall"] > 0.9
    assert ours["false flags"] < 0.02
    assert automatic_row(1000, "fresh_mean", "library", None)["recall"] < 0.2


def small(reward: list[float], phase: list[int], state: list[float] | None = None, **fields: object) -> Scene:
    n = len(reward)
    given = {
        "state": torch.tensor(state or [0.0] * n).view(1, n, 1),
        "action": torch.zeros(1, n, 1),
        "reward": torch.tensor([reward], dtype=torch.float32),
        "birth": torch.arange(n)[None],
        "phase": torch.tensor([phase], dtype=torch.uint8),
        "new": torch.arange(n)[None] == n - 1,
        "context": None,
        "discrete": True,
    }
    return Scene(**{**given, **fields})  # type: ignore[arg-type]


def flags(rule: str, scene: Scene, epsilon: float = 0.5, delta_r: float = 0.5) -> list[bool]:
    return contradicted(rule, scene, torch.tensor([[epsilon]]), torch.tensor([[delta_r]]))[0].tolist()


def test_the_papers_rule_is_symmetric() -> None:
    assert flags("exists", small([0.0, 1.0, 0.0], [LIQUID] * 3, [0.0, 0.0, 9.0])) == [True, True, False]


def test_newer_majority_needs_two_newer_ones_and_spares_the_newer() -> None:
    assert flags("newer_majority", small([0, 1], [LIQUID] * 2)) == [False, False]
    assert flags("newer_majority", small([0, 1, 1], [LIQUID] * 3)) == [True, False, False]
    assert flags("newer_majority", small([0, 1, 1, 0, 0], [LIQUID] * 5))[0] is False


def test_newer_majority_hears_the_latest_half_of_the_newer_and_five_at_least() -> None:
    changed = [0.0] * 6 + [1.0] * 6
    assert flags("newer_majority", small(changed, [LIQUID] * 12))[:6] == [True] * 6
    assert flags("newer_majority", small([0.0] * 9 + [1.0] * 6, [LIQUID] * 15))[:3] == [True] * 3
    assert not any(flags("newer_majority", small([0.0] * 4 + [1.0] * 2, [LIQUID] * 6))[:2])


def test_fresh_mean_flags_only_glass_and_crystal_and_needs_three_fresh_ones() -> None:
    solid, wet = [CRYSTAL, 2], [LIQUID] * 3
    assert flags("fresh_mean", small([0, 0, 1, 1, 1], solid + wet)) == [True, True, False, False, False]
    assert flags("fresh_mean", small([0, 0, 1, 1], solid + wet[:2])) == [False] * 4


def test_another_action_context_or_empty_slot_does_not_contradict() -> None:
    reward, phase = [0.0, 1.0, 1.0, 1.0], [CRYSTAL, LIQUID, LIQUID, LIQUID]
    for rule in SPARED:
        assert flags(rule, small(reward, phase))[0]
        other_action = torch.tensor([0.0, 1, 1, 1]).view(1, 4, 1)
        assert not any(flags(rule, small(reward, phase, action=other_action)))
        assert not any(flags(rule, small(reward, phase, context=torch.tensor([[0, 1, 1, 1]]))))
        assert not any(flags(rule, small(reward, [CRYSTAL, 0, 0, 0])))


def test_box_actions_must_be_near_too() -> None:
    reward, phase = [0.0, 1.0, 1.0, 1.0], [CRYSTAL, LIQUID, LIQUID, LIQUID]
    near = small(reward, phase, action=torch.tensor([0.0, 0.1, 0.2, 0.3]).view(1, 4, 1), discrete=False)
    far = small(reward, phase, action=torch.tensor([0.0, 1, 2, 3]).view(1, 4, 1), discrete=False)
    for rule in (*SPARED, "exists"):
        assert flags(rule, near)[0]
        assert not flags(rule, far)[0]


def test_equal_states_are_at_distance_zero_however_many_there_are() -> None:
    vectors = torch.randn(1, 40, 5, generator=torch.Generator().manual_seed(0)) * 3 + 100
    assert bool((distances(vectors, vectors).diagonal(dim1=1, dim2=2) == 0).all())


def test_states_that_recur_exactly_contradict_with_automatic_epsilon() -> None:
    """A grid world of nine cells: the automatic ε is 0, and still the same cell contradicts."""
    params = CrystalParams.anchored(time_unit=50, sigma=0.0, alpha=0.5, k=3)
    memory = CrystalMemory(400, obs=(2,), action=2, params=params)
    rng = np.random.default_rng(0)

    def live(sign: float, count: int) -> float:
        for _ in range(count):
            cell = rng.integers(0, 3, 2).astype(np.float32)
            action = int(rng.integers(2))
            memory.add(Transition(cell, action, sign * (2.0 * action - 1), cell, True))
        return float(memory.consolidate(lambda b: torch.ones_like(b.reward)).values["contradicted"][0])

    assert [live(1.0, 200) for _ in range(6)] == [0] * 6
    assert float(memory.consolidate(lambda b: torch.ones_like(b.reward)).values["epsilon"][0]) == 0
    assert live(-1.0, 200) > 50


def test_automatic_epsilon_does_not_reach_from_one_context_into_another() -> None:
    """Few crystals are left of each old context, far apart; the fresh lie dense."""
    n = 60
    state = torch.cat([torch.arange(30.0) * 100, torch.linspace(0, 1, 30)]).view(1, n, 1)
    phase = [CRYSTAL] * 30 + [LIQUID] * 30
    assert 0 < float(spacing(small([0.0] * n, phase, state=state.flatten().tolist()), 5)) < 0.5
    assert float(spacing(small([0.0] * 5, [LIQUID] * 5), 10)) == 0


def test_what_came_since_counts_as_fresh_though_it_was_promoted() -> None:
    """At an edge the rewarded half of what comes is promoted at once; the liquid that remains is no fair sample."""
    reward = [1.0] * 4 + [0.0, 1.0] * 4
    promoted = [CRYSTAL] * 4 + [LIQUID, GLASS] * 4
    scene = small(reward, promoted)
    assert not any(flags("fresh_mean", scene))
    changed = small([1.0] * 4 + [0.0] * 8, promoted)
    assert flags("fresh_mean", changed) == [True] * 4 + [False] * 8


def test_two_elders_do_not_make_an_outlier() -> None:
    mine = 3
    newer = [0.0] * 6
    for elders, flagged in (([0.0, 0.0, 1.0], True), ([0.0, 0.0, 0.0], False)):
        scene = small([*elders, 1.0, *newer], [LIQUID] * 10)
        assert bool(flags("newer_majority", scene)[mine]) is flagged


def test_what_nobody_visits_is_not_contradicted() -> None:
    """What a context leaves in liquid when it ends has said before what it says now."""
    reward, phase = [1.0] * 4 + [0.0] * 4, [CRYSTAL] * 4 + [LIQUID] * 4
    assert flags("fresh_mean", small(reward, phase))[:4] == [True] * 4
    assert not any(flags("fresh_mean", small(reward, phase, new=torch.zeros(1, 8, dtype=torch.bool))))
