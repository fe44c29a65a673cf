"""Which experiences are contradicted: noise is forgiven, change is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.interference import library, literal, noise_row, scene_of, sites
from crystalrl import CrystalParams, Transition
from crystalrl.backends import backend_for
from crystalrl.dynamics import CRYSTAL, GLASS, LIQUID
from crystalrl.memory.neighbours.contradiction import contradicted, contradicted_in_lists
from crystalrl.memory.neighbours.exact import distances
from crystalrl.memory.neighbours.experiences import Experiences
from tests.memory.crystal.experience import WithLists

GUARDED = ("newer_majority", "fresh_mean")
"""The rules that forgive noise."""


def small(reward: list[float], phase: list[int], state: list[float] | None = None, **fields: object) -> Experiences:
    n = len(reward)
    given = {
        "state": torch.tensor(state or [0.0] * n).view(1, n, 1),
        "action": torch.zeros(1, n, 1),
        "reward": torch.tensor([reward], dtype=torch.float32),
        "birth": torch.arange(n)[None],
        "phase": torch.tensor([phase], dtype=torch.uint8),
        "unevaluated": torch.arange(n)[None] == n - 1,
        "context": None,
        "discrete": True,
    }
    return Experiences(**{**given, **fields})  # type: ignore[arg-type]


def flags(rule: str, given: Experiences, epsilon: float = 0.5, delta_r: float = 0.5) -> list[bool]:
    """What a rule flags; the compiled kernel and torch must agree."""
    scales = torch.tensor([[epsilon]]), torch.tensor([[delta_r]])
    flagged = contradicted(rule, given, *scales)
    assert torch.equal(flagged, contradicted(rule, given, *scales, backend_for(torch.device("cpu")).pairs))
    return flagged[0].tolist()


@pytest.mark.parametrize("neighbours", [(500, 4), (20, 50)])
@pytest.mark.parametrize("rule", GUARDED)
def test_noise_in_the_rewards_flags_few_and_change_is_found(rule: str, neighbours: tuple[int, int]) -> None:
    row = noise_row(rule, "library", *neighbours, seeds=1)
    assert row["flagged, p = 0.01"] < 0.02
    assert row["flagged, p = 0.2"] < 0.10
    for noise in ("0", "0.01", "0.05", "0.2"):
        assert row[f"recall, p = {noise}"] > 0.90
        assert row[f"recall, p = {noise}, two thirds newer"] > 0.90


@pytest.mark.parametrize("rule", GUARDED)
def test_without_its_guard_a_rule_flags_every_outlier(rule: str) -> None:
    data = sites(4, 200, 0.2, False, 1 / 2, seed=0)
    scene = scene_of(data, torch.tensor(data["state"], dtype=torch.float32)[None])
    could = ~data["new"] | (rule == "newer_majority")
    assert literal(rule, scene, 0.5, 0.5)[could].mean() > 0.15
    assert library(rule, scene, 0.5, 0.5)[could].mean() < 0.01


def test_the_papers_rule_flags_nearly_everything_with_many_neighbours() -> None:
    """One reward in a hundred differs, 500 neighbours: 1 − .99⁵⁰⁰ = .993 expected."""
    data = sites(4, 500, 0.01, False, 1 / 2, seed=0)
    scene = scene_of(data, torch.tensor(data["state"], dtype=torch.float32)[None])
    assert library("exists", scene, 0.5, 0.5).mean() > 0.98
    assert np.array_equal(library("exists", scene, 0.5, 0.5), literal("exists", scene, 0.5, 0.5))


def test_the_papers_rule_is_symmetric() -> None:
    assert flags("exists", small([0.0, 1.0, 0.0], [LIQUID] * 3, [0.0, 0.0, 9.0])) == [True, True, False]


def test_newer_majority_needs_two_newer_ones_and_does_not_flag_those() -> None:
    assert flags("newer_majority", small([0, 1], [LIQUID] * 2)) == [False, False]
    assert flags("newer_majority", small([0, 1, 1], [LIQUID] * 3)) == [True, False, False]
    assert flags("newer_majority", small([0, 1, 1, 0, 0], [LIQUID] * 5))[0] is False


def test_newer_majority_looks_at_the_latest_half_of_the_newer_and_at_least_five() -> None:
    changed = [0.0] * 6 + [1.0] * 6
    assert flags("newer_majority", small(changed, [LIQUID] * 12))[:6] == [True] * 6
    assert flags("newer_majority", small([0.0] * 9 + [1.0] * 6, [LIQUID] * 15))[:3] == [True] * 3
    assert not any(flags("newer_majority", small([0.0] * 4 + [1.0] * 2, [LIQUID] * 6))[:2])


def test_fresh_mean_flags_only_glass_and_crystal_and_needs_three_recent_neighbours() -> None:
    solid, wet = [CRYSTAL, 2], [LIQUID] * 3
    assert flags("fresh_mean", small([0, 0, 1, 1, 1], solid + wet)) == [True, True, False, False, False]
    assert flags("fresh_mean", small([0, 0, 1, 1], solid + wet[:2])) == [False] * 4


def test_another_action_context_or_empty_slot_does_not_contradict() -> None:
    reward, phase = [0.0, 1.0, 1.0, 1.0], [CRYSTAL, LIQUID, LIQUID, LIQUID]
    for rule in GUARDED:
        assert flags(rule, small(reward, phase))[0]
        other_action = torch.tensor([0.0, 1, 1, 1]).view(1, 4, 1)
        assert not any(flags(rule, small(reward, phase, action=other_action)))
        assert not any(flags(rule, small(reward, phase, context=torch.tensor([[0, 1, 1, 1]]))))
        assert not any(flags(rule, small(reward, [CRYSTAL, 0, 0, 0])))


def test_box_actions_must_be_near_too() -> None:
    reward, phase = [0.0, 1.0, 1.0, 1.0], [CRYSTAL, LIQUID, LIQUID, LIQUID]
    near = small(reward, phase, action=torch.tensor([0.0, 0.1, 0.2, 0.3]).view(1, 4, 1), discrete=False)
    far = small(reward, phase, action=torch.tensor([0.0, 1, 2, 3]).view(1, 4, 1), discrete=False)
    for rule in (*GUARDED, "exists"):
        assert flags(rule, near)[0]
        assert not flags(rule, far)[0]


def test_experiences_that_were_promoted_still_count_as_recent() -> None:
    """At an edge the rewarded half of what arrives is promoted at once; the liquid that remains is a biased sample."""
    reward = [1.0] * 4 + [0.0, 1.0] * 4
    promoted = [CRYSTAL] * 4 + [LIQUID, GLASS] * 4
    scene = small(reward, promoted)
    assert not any(flags("fresh_mean", scene))
    changed = small([1.0] * 4 + [0.0] * 8, promoted)
    assert flags("fresh_mean", changed) == [True] * 4 + [False] * 8


def test_two_older_neighbours_do_not_make_an_outlier() -> None:
    mine = 3
    newer = [0.0] * 6
    for older, flagged in (([0.0, 0.0, 1.0], True), ([0.0, 0.0, 0.0], False)):
        scene = small([*older, 1.0, *newer], [LIQUID] * 10)
        assert bool(flags("newer_majority", scene)[mine]) is flagged


def test_a_place_that_is_not_visited_is_not_contradicted() -> None:
    """What a context leaves in liquid when it ends has been compared before."""
    reward, phase = [1.0] * 4 + [0.0] * 4, [CRYSTAL] * 4 + [LIQUID] * 4
    assert flags("fresh_mean", small(reward, phase))[:4] == [True] * 4
    assert not any(flags("fresh_mean", small(reward, phase, unevaluated=torch.zeros(1, 8, dtype=torch.bool))))


@pytest.mark.parametrize("rule", ["exists", "newer_majority", "fresh_mean"])
def test_a_rule_over_lists_that_hold_all_within_epsilon_is_the_rule_over_all_pairs(rule: str) -> None:
    rng = torch.Generator().manual_seed(0)
    slots, epsilon, delta_r = 300, torch.full((1, 1), 0.6), torch.full((1, 1), 0.5)
    given = Experiences(
        state=torch.rand(1, slots, 2, generator=rng) * 3,
        action=torch.randint(0, 2, (1, slots, 1), generator=rng).float(),
        reward=torch.rand(1, slots, generator=rng).round(),
        birth=torch.randperm(slots, generator=rng)[None],
        phase=torch.randint(0, 4, (1, slots), generator=rng, dtype=torch.uint8),
        unevaluated=torch.rand(1, slots, generator=rng) < 0.1,
        context=None,
        discrete=True,
    )
    wanted = contradicted(rule, given, epsilon, delta_r)
    apart = distances(given.state, given.state)[0]
    unlike = given.action[0] != given.action[0].T
    apart = apart + unlike * 2**0.5 if rule == "exists" else apart.masked_fill(unlike, torch.inf)
    apart.fill_diagonal_(torch.inf)
    near = (apart <= 0.6) & (given.phase[0] > 0)
    lists = torch.where(near, torch.arange(slots), -1)[None].to(torch.int32)
    visited = torch.zeros(1, slots, dtype=torch.bool)
    assert wanted.any()
    for loops in (None, backend_for(torch.device("cpu")).similar):
        assert torch.equal(contradicted_in_lists(rule, lists, given, delta_r, visited, loops), wanted)


def test_lists_name_a_neighbour_with_another_reward_though_ten_alike_are_nearer() -> None:
    """Nineteen experiences on a line, the last with another reward and within ε of all: the paper flags every one."""
    pytest.importorskip("faiss")
    memory = WithLists(64, obs=(1,), action=2, params=CrystalParams.paper(epsilon=1.0, delta_r=0.5))
    for number in range(19):
        place = np.array([0.01 * number], np.float32)
        memory.add(Transition(place, 0, float(number == 18), place, False))
    report = memory.consolidate(lambda batch: torch.ones_like(batch.reward))
    assert memory.neighbours.graph is not None
    assert float(report.values["contradicted"][0]) == 19
