"""Neighbour lists that are kept: as good as those computed anew from all pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition
from crystalrl.memory.crystal import interference
from crystalrl.memory.crystal import memory as crystal
from crystalrl.memory.crystal import snapshot as draft
from crystalrl.memory.crystal.interference import Scene
from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.memory.neighbours import graph as vicinity
from crystalrl.memory.neighbours import index as search
from crystalrl.memory.neighbours import refine as company
from crystalrl.memory.neighbours.index import Brute, Ivf
from tests.experience import assert_same_state
from tests.memory.crystal.test_lanes import CASES, built, life, part, same

pytest.importorskip("faiss")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are kept from 16 slots on."""
    monkeypatch.setattr(crystal, "EXACT", {"cpu": 16})


def walk(memory: CrystalMemory, steps: int, seed: int, turning: int = 10**9) -> None:
    """Walks in a square of as many environments as the memory has; the goal turns over after `turning` steps."""
    rng, envs = np.random.default_rng(seed), memory.spec.envs
    state = rng.uniform(size=(envs, 2)).astype(np.float32)
    for step in range(steps):
        action = rng.integers(0, 4, envs)
        move = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])[action]
        following = np.clip(state + move + rng.normal(scale=0.01, size=(envs, 2)), 0, 1).astype(np.float32)
        goal = (following[:, 0] > 0.5) != (step % (2 * turning) >= turning)
        memory.add(Transition(state, action, goal.astype(np.float32), following, np.zeros(envs, bool)))
        ends = rng.random((envs, 1)) < 0.01
        state = np.where(ends, rng.uniform(size=(envs, 2)), following).astype(np.float32)
        if memory.due:
            memory.consolidate(critic)


def critic(batch: Batch) -> Evaluation:
    assert isinstance(batch.obs, torch.Tensor)
    value = torch.sin(3 * batch.obs[..., 0])
    return Evaluation(batch.reward - value, {"q": value[..., None]})


def memory_of(slots: int, **changes: Any) -> CrystalMemory:
    params = CrystalParams.anchored(**changes)
    return CrystalMemory(slots, obs=(2,), action=4, params=params, anchor={"q": (1,)}, envs=20, seed=0)


def exact_ahead(memory: CrystalMemory) -> neighbours.Near:
    """Neighbours from all pairs, in the units that the lists use."""
    assert memory.vicinity is not None
    every = torch.arange(memory.ledger.used)[None]
    state, successor = (memory.vicinity.states.vectors(role, every) for role in ("obs", "next_obs"))
    return neighbours.nearest(successor, state, memory.ledger.phase[:, : memory.ledger.used] > 0, memory.params.k)


def recall(memory: CrystalMemory) -> float:
    """Share of the exact neighbours that the lists of a consolidation hold."""
    memory.plan(critic)
    exact = exact_ahead(memory)
    assert memory.vicinity is not None
    assert memory.vicinity.ahead is not None
    stored = memory.ledger.phase[0, : memory.ledger.used] > 0
    mine = memory.vicinity.ahead.index[0, : memory.ledger.used, : memory.params.k]
    return float((exact.index[0, :, :, None] == mine[:, None, :]).any(-1)[stored].float().mean())


def check_lists(memory: CrystalMemory) -> None:
    assert memory.vicinity is not None
    for lists in (memory.vicinity.ahead, memory.vicinity.alike):
        assert lists is not None
        index = lists.index[0].to(torch.int64)
        there = index >= 0
        assert not (there[:, 1:] & ~there[:, :-1]).any()
        assert not (index == torch.arange(len(index))[:, None]).any()
        assert (memory.ledger.phase[0][index.clamp_min(0)] > 0)[there].all()
        ordered = index.masked_fill(~there, -1).sort(-1).values
        assert not ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()


@pytest.mark.usefixtures("small")
def test_lists_that_all_ask_an_exact_index_are_the_exact_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA: the index compares with all, and in a small memory every list asks anew each time."""
    monkeypatch.setattr(vicinity, "Ivf", lambda lanes, size: Brute(lanes, 600, size, torch.device("cpu")))
    memory = memory_of(600)
    walk(memory, 100, 0)
    memory.plan(critic)
    check_lists(memory)
    exact = exact_ahead(memory)
    assert memory.vicinity is not None
    assert memory.vicinity.ahead is not None
    used, stored = memory.ledger.used, memory.ledger.phase[0, : memory.ledger.used] > 0
    every = torch.arange(used)[None]
    state, successor = (memory.vicinity.states.vectors(role, every)[0] for role in ("obs", "next_obs"))
    for mine in (exact.index[0], memory.vicinity.ahead.index[0, :used, : memory.params.k].to(torch.int64)):
        apart = (successor[:, None] - state[mine]).norm(dim=-1)[stored]
        assert torch.allclose(apart, apart.sort(-1).values)
        wanted = (successor[:, None] - state[exact.index[0]]).norm(dim=-1)[stored]
        assert torch.allclose(apart, wanted, atol=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("index", ["faiss", "all pairs"])
def test_recall_stays_high_when_experiences_come_and_go(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the memory is replaced over and over, 2 % at a time; few lists ask."""
    monkeypatch.setattr(vicinity, "AT_LEAST", 16)
    if index == "all pairs":
        monkeypatch.setattr(vicinity, "Ivf", lambda lanes, size: Brute(lanes, 3000, size, torch.device("cpu")))
    memory = memory_of(3000, time_unit=60)
    walk(memory, 300, 0)
    memory.consolidate(critic)
    assert memory.vicinity is not None
    assert isinstance(memory.vicinity.index, Ivf if index == "faiss" else Brute)
    for turn in range(50):
        walk(memory, 3, turn + 1)
    assert recall(memory) > 0.95
    memory.check()


@pytest.mark.usefixtures("small")
def test_without_newcomers_being_introduced_recall_would_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vicinity, "AT_LEAST", 16)
    monkeypatch.setattr(company.Company, "introduce", lambda *_: None)
    memory = memory_of(3000, time_unit=60)
    walk(memory, 300, 0)
    for turn in range(50):
        walk(memory, 3, turn + 1)
    assert recall(memory) < 0.93


@pytest.mark.parametrize("rule", ["exists", "newer_majority", "fresh_mean"])
def test_a_rule_judged_by_lists_that_hold_all_within_epsilon_is_the_rule(rule: str) -> None:
    rng = torch.Generator().manual_seed(0)
    slots, epsilon, delta_r = 300, torch.full((1, 1), 0.6), torch.full((1, 1), 0.5)
    scene = Scene(
        torch.rand(1, slots, 2, generator=rng) * 3,
        torch.randint(0, 2, (1, slots, 1), generator=rng).float(),
        torch.rand(1, slots, generator=rng).round(),
        torch.randperm(slots, generator=rng)[None],
        torch.randint(0, 4, (1, slots), generator=rng, dtype=torch.uint8),
        torch.rand(1, slots, generator=rng) < 0.1,
        None,
        True,
    )
    wanted = interference.contradicted(rule, scene, epsilon, delta_r)
    apart = neighbours.distances(scene.state, scene.state)[0]
    unlike = scene.action[0] != scene.action[0].T
    apart = apart + unlike * 2**0.5 if rule == "exists" else apart.masked_fill(unlike, torch.inf)
    apart.fill_diagonal_(torch.inf)
    near = (apart <= 0.6) & (scene.phase[0] > 0)
    lists = torch.where(near, torch.arange(slots), -1)[None].to(torch.int32)
    got = interference.listed(rule, lists, scene.reward, scene.birth, scene.phase, scene.new, delta_r)
    assert wanted.any()
    assert torch.equal(got, wanted)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", ["anchored", "paper", "default", "every episode, anchored, slices"])
def test_a_lane_equals_its_seed_alone(case: str) -> None:
    together = life(built(CASES[case], 3, 5, 2), None, 2)
    for lane in range(3):
        alone = life(built(CASES[case], 1, 5 + lane, 2), lane, 2)
        for number, (one, other) in enumerate(zip(alone, together, strict=True)):
            assert same(part(one, 0), part(other, lane)), (lane, number)


@pytest.mark.usefixtures("small")
def test_states_of_many_dimensions_are_compared_by_their_projection() -> None:
    memory = CrystalMemory(400, obs=(80,), action=4, params=CrystalParams.anchored(), seed=0, envs=10)
    rng = np.random.default_rng(0)
    state = rng.normal(size=(10, 80)).astype(np.float32)
    for _ in range(60):
        following = (0.98 * state + 0.2 * rng.normal(size=state.shape)).astype(np.float32)
        memory.add(Transition(state, rng.integers(0, 4, 10), rng.normal(size=10), following, np.zeros(10, bool)))
        state = following
        if memory.due:
            memory.consolidate(lambda batch: batch.reward)
    memory.plan(lambda batch: batch.reward)
    assert memory.vicinity is not None
    stored = memory.ledger.phase[0] > 0
    copy = memory.vicinity.states.copies["obs"][0, stored]
    assert torch.equal(copy, memory.features(memory.arena.unpack(memory.arena.rows)["obs"])[0, stored])
    assert memory.vicinity.states.size == 32


@pytest.mark.usefixtures("small")
def test_without_faiss_all_pairs_are_compared_and_a_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crystal, "have_faiss", lambda: False)
    memory = memory_of(100)
    walk(memory, 4, 0)
    with pytest.warns(UserWarning, match="faiss-cpu"):
        memory.consolidate(critic)
    assert memory.vicinity is None
    assert search.have_faiss()


@pytest.mark.slow
def test_phases_are_those_of_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 consolidations of a stream whose rewards turn over four times. What one of the two paths evicted and the
    other did not counts as disagreement, over all experiences that ever came.
    """
    ended = []
    for exact in (True, False):
        monkeypatch.setattr(crystal, "EXACT", {"cpu": 10**9 if exact else 1000})
        memory = memory_of(5000)
        walk(memory, 2500, 0, turning=625)
        assert (memory.vicinity is None) == exact
        phases = torch.zeros(int(memory.ledger.number[0]), dtype=torch.uint8)
        stored = memory.ledger.phase[0] > 0
        phases[memory.ledger.birth[0, stored]] = memory.ledger.phase[0, stored]
        ended.append(phases)
    assert (ended[0] == ended[1]).float().mean() > 0.96
    both = (ended[0] > 0) & (ended[1] > 0)
    assert (ended[0] == ended[1])[both].float().mean() > 0.88


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes are looked at in blocks of 128 slots; lists are kept from 128 slots on."""
    monkeypatch.setattr(crystal, "EXACT", {"cpu": 128})
    monkeypatch.setattr(draft, "WHOLE", 128)
    for module in (draft, neighbours):
        monkeypatch.setattr(module, "BLOCK", 128)


def uneven(memory: CrystalMemory, lane: int | None, steps: range) -> list[torch.Tensor]:
    """What three lanes do, or one of them: the first fills at once, the second slower, the last hardly at all."""
    seen, mine = [], slice(None) if lane is None else slice(lane, lane + 1)
    for step in steps:
        rng = np.random.default_rng(step)
        state, following = rng.normal(size=(2, 3, 4, 2)).astype(np.float32)
        action, reward = rng.integers(0, 4, (3, 4)), rng.integers(0, 2, (3, 4)).astype(np.float32)
        valid, ends = np.ones((3, 4), bool), np.zeros((3, 4), bool)
        valid[1], valid[2] = step % 3 == 0, step % 20 == 0
        if not memory.discrete:
            action = action[..., None].astype(np.float32)
        fields = (x[mine] for x in (state, action, reward, following, ends))
        memory.add(Transition(*fields), valid=valid[mine])
        if step % 20 == 19:
            report = memory.consolidate(critic)
            phase = memory.ledger.phase
            seen += [report.values["epsilon"], report.values["contradicted"], phase]
            seen += [getattr(memory.ledger, name) * (phase > 0) for name in ("c", "suspicion", "utility")]
    return seen


def uneven_memory(lanes: int, seed: int, **options: Any) -> CrystalMemory:
    shape: dict[str, Any] = {"obs": (2,), "action": 4, "anchor": {"q": (1,)}, "envs": 4, **options}
    return CrystalMemory(600, params=CrystalParams.anchored(time_unit=60), lanes=lanes, seed=seed, **shape)


@pytest.mark.usefixtures("narrow")
def test_a_lane_that_fills_unevenly_equals_its_seed_alone() -> None:
    """The first goes over to lists, then the second, while the last stays with all pairs."""
    memory = uneven_memory(3, 7)
    together = uneven(memory, None, range(400))
    assert memory.vicinity is not None
    assert memory.vicinity.held.tolist() == [True, True, False]
    for lane in range(3):
        alone = uneven(uneven_memory(1, 7 + lane), lane, range(400))
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0], other[lane])


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("kind", ["plain", "features", "box actions", "half precision"])
def test_lists_are_saved_so_that_a_loaded_memory_goes_on_the_same(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "plain": {},
        "features": {"features": lambda obs: torch.cat([obs, obs**2], -1)},
        "box actions": {"action": (1,)},
        "half precision": {"obs_dtype": torch.float16},
    }[kind]
    memory, other = (uneven_memory(3, 7, **options) for _ in range(2))
    uneven(memory, None, range(310))
    memory.save(tmp_path / "memory")
    uneven(other, None, range(1000, 1200))
    other.load(tmp_path / "memory")
    assert "vicinity.slot.ahead" in memory.state_dict()
    assert_same_state(memory.state_dict(), other.state_dict())
    lives = [uneven(each, None, range(310, 500)) for each in (memory, other)]
    for one, two in zip(*lives, strict=True):
        assert torch.equal(one, two)
    states = [memory.state_dict(), other.state_dict()]
    for state in states:
        del state["ledger.slot.claims"]  # how often a slot beyond the last occupied was written is not saved
    assert_same_state(*states)


@pytest.mark.usefixtures("narrow")
def test_lists_that_cannot_be_right_are_refused_and_nothing_changes() -> None:
    memory = uneven_memory(3, 7)
    uneven(memory, None, range(200))
    before = memory.state_dict()

    def refused(name: str, change: Any) -> None:
        state = {key: tensor.clone() for key, tensor in before.items()}
        state[name] = change(state[name])
        with pytest.raises(ValueError, match=r"vicinity|others"):
            memory.load_state_dict(state)
        assert_same_state(before, memory.state_dict())

    def one_is(value: float) -> Any:
        return lambda tensor: tensor.index_fill(0, torch.tensor([0]), value)

    refused("vicinity.slot.ahead", one_is(600))
    refused("vicinity.slot.alike", one_is(-2))
    refused("vicinity.slot.ahead", lambda lists: lists[..., 1:])
    refused("vicinity.mean", lambda mean: mean.double())
    refused("vicinity.index.0.ids", one_is(700))
    refused("vicinity.index.0.ids", lambda ids: torch.cat([ids[1:2], ids[1:]]))
    refused("vicinity.index.0.sizes", one_is(-1))
    refused("vicinity.index.0.sizes", lambda sizes: sizes + 1)
    refused("vicinity.index.0.centres", one_is(torch.nan))
    missing = {name: tensor for name, tensor in before.items() if name != "vicinity.index.1.ids"}
    with pytest.raises(ValueError, match="others"):
        memory.load_state_dict(missing)
    assert_same_state(before, memory.state_dict())
    memory.load_state_dict({name: tensor for name, tensor in before.items() if not name.startswith("vicinity.")})
    assert memory.vicinity is None


@pytest.mark.parametrize("slots", [500, 20_000])
def test_the_search_over_all_pairs_finds_the_nearest(slots: int) -> None:
    """The same code as on CUDA, where groups of slots are compared before their members."""
    rng = torch.Generator().manual_seed(0)
    states = torch.randn(2, slots, 6, generator=rng)
    occupied = torch.rand(2, slots, generator=rng) < 0.7
    brute = Brute(2, slots, 6, torch.device("cpu"))
    brute.build(
        occupied, torch.ones(2, dtype=torch.bool), lambda slots: states.gather(1, slots[..., None].expand_as(states))
    )
    gone, new = occupied & (torch.rand(2, slots, generator=rng) < 0.1), torch.tensor([[3, 40, 7], [9, 0, 0]])
    real = torch.tensor([[True, True, True], [True, False, False]])
    fresh = torch.randn(2, 3, 6, generator=rng)
    brute.replace(gone, new, real, fresh)
    occupied = occupied & ~gone
    for lane, count in ((0, 3), (1, 1)):
        states[lane, new[lane, :count]], occupied[lane, new[lane, :count]] = fresh[lane, :count], True
    queries = torch.randn(2, 50, 6, generator=rng)
    found = brute.search(queries, torch.ones(2, 50, dtype=torch.bool), 12)
    apart = torch.cdist(queries.double(), states.double()).masked_fill(~occupied[:, None], torch.inf)
    assert torch.equal(found, apart.topk(12, largest=False).indices)
