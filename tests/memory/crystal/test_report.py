"""What a consolidation reports, and when it warns."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Transition
from crystalrl.memory.crystal.report import FOLLOWED, NAMES, Consolidation, effective_contexts, health
from tests.memory.crystal.experience import by_reward, feed, memory_of, stream, with_output

STAGES = {"evaluate", "neighbours", "utility", "interference", "crystallization", "moves", "apply", "report"}
STILL: dict[str, Any] = {"sigma": 0.0, "alpha": 0.0, "boost": False}


def ones(batch: Batch) -> torch.Tensor:
    return torch.ones_like(batch.reward)


def mixed(params: CrystalParams, **options: Any) -> CrystalMemory:
    memory = memory_of(128, params, **options)
    for seed, (count, c) in enumerate(((40, 0.1), (20, 0.5), (6, 0.9))):
        feed(memory, count, seed=seed, crystallization=c)
    return memory


def test_every_number_of_the_docstring_is_reported_for_every_rule() -> None:
    names: set[str] = set()
    for line in (Consolidation.__doc__ or "").split("In `values`:")[1].splitlines():
        if line.startswith(" " * 8):  # the words of an explanation go on
            continue
        for word in re.split(r"(?<=\S)  +", line.strip())[0].replace(",", " ").split():
            names |= {f"{word[:-1]}{p}" for p in ("liquid", "glass", "crystal")} if word.endswith("…") else set()
            names |= {f"{p}{word[1:]}" for p in ("liquid", "glass", "crystal")} if word.startswith("…") else set()
            names |= {word} if "…" not in word else set()
    for params in (CrystalParams.repaired(), CrystalParams.paper(), CrystalParams.anchored()):
        memory = memory_of(64, params, anchor={"q": (2,)})
        feed(memory, 30)
        assert set(memory.consolidate(with_output).values) == names == set(NAMES)


def test_counts_and_moments_are_those_of_the_stored_experiences() -> None:
    memory = mixed(CrystalParams.repaired(**STILL, interference="none"))
    report = memory.consolidate(by_reward)
    for number, phase in enumerate(("liquid", "glass", "crystal")):
        c = memory.experiences(phase)["c"].double()
        assert report.values[phase][0] == len(c)
        assert report.values[f"{phase}_share"][0] == pytest.approx(len(c) / memory.params.caps(128)[number])
        assert report.values[f"c_mean_{phase}"][0] == pytest.approx(float(c.mean()))
        assert report.values[f"c_variance_{phase}"][0] == pytest.approx(float(c.var(correction=0)), abs=1e-9)
    held = memory.experiences()
    assert report.values["utility"][0] == pytest.approx(float(held["utility"].mean()), rel=1e-5)
    assert report.values["error"][0] == pytest.approx(float(held["reward"].abs().mean()), rel=1e-5)
    assert report.values["evaluated"][0] == 66
    assert report.histogram.sum() == 66
    assert report.histogram[0, 1].tolist() == [0, 0, 0, 0, 0, 20, 0, 0, 0, 0]
    assert set(report.seconds) == STAGES


def test_empty_phases_have_no_moments() -> None:
    memory = memory_of(64)
    feed(memory, 5)
    report = memory.consolidate(by_reward)
    assert math.isnan(report.values["c_mean_crystal"][0])
    assert report.values["crystal"][0] == 0


def test_scalars_average_over_lanes_and_carry_the_seconds() -> None:
    memory = memory_of(64, CrystalParams.repaired(**STILL), lanes=2)
    for number, transition in enumerate(stream(20, lead=(2, 1))):
        memory.add(transition, valid=[[True], [number < 10]])
    report = memory.consolidate(by_reward)
    assert report.scalars()["liquid"] == 15
    assert report.values["liquid"].tolist() == [20, 10]
    assert report.scalars()["seconds_evaluate"] >= 0


def test_loss_shares_are_what_batches_carry_on_average() -> None:
    """Against ten thousand drawn experiences."""
    params = CrystalParams.repaired(**STILL, w_min=0.1, kappa=0.5, batch=(0.5, 0.3, 0.2), interference="none")
    memory = mixed(params, anchor={"q": (2,)})
    report = memory.consolidate(with_output)
    td, pull = torch.zeros(3), torch.zeros(3)
    for _ in range(100):
        batch = memory.sample(100)
        phase = memory.ledger.phase[0, batch.index].long() - 1
        td.index_add_(0, phase, batch.weight / batch.weight.max())
        pull.index_add_(0, phase, batch.anchor["q"].coefficient)  # type: ignore[index]
    for n, name in enumerate(("liquid", "glass", "crystal")):
        assert report.values[f"td_weight_{name}"][0] == pytest.approx(float(td[n] / td.sum()), abs=0.03)
        assert report.values[f"anchor_weight_{name}"][0] == pytest.approx(float(pull[n] / pull.sum()), abs=0.01)


def test_moves_are_counted() -> None:
    """One unit of time per call: .29 → .33, .69 → .71; then .71 → .64."""
    rising = {"alpha": 0.05, "w1": 1.0, "w2": 0.0, "w3": 0.0, "scale": "q95", "clock": "calls", "interference": "none"}
    memory = memory_of(640, CrystalParams.repaired(**{**STILL, **rising}))
    feed(memory, 10, crystallization=0.29)
    feed(memory, 10, crystallization=0.69)
    moved = memory.consolidate(ones).values
    assert moved["to_glass"][0] == 10
    assert moved["to_crystal"][0] == 10
    assert moved["time_step"][0] == 1
    memory = memory_of(640, CrystalParams.repaired(**{**STILL, **rising, "alpha": 0.0, "leak": 0.1}))
    feed(memory, 10, crystallization=0.71)
    feed(memory, 10, crystallization=0.26)
    moved = memory.consolidate(ones).values
    assert moved["melted"][0] == 10
    assert moved["to_liquid"][0] == 0
    feed(memory, 10, crystallization=0.31)
    assert [memory.consolidate(ones).values["to_liquid"][0] for _ in range(3)] == [0, 0, 10]


def test_effective_contexts_count_equal_shares_fully_and_one_as_one() -> None:
    context = torch.tensor([[0, 1, 2, 3], [5, 5, 5, 5], [1, 2, 3, 4]])
    phase = torch.tensor([[3, 3, 3, 3], [3, 3, 3, 3], [1, 1, 1, 1]], dtype=torch.uint8)
    got = effective_contexts(context, phase)
    assert got[:2].tolist() == [4.0, 1.0]
    assert math.isnan(got[2])
    assert math.isnan(effective_contexts(None, phase)[0])


def warned(report: Consolidation, word: str) -> bool:
    return any(word in warning for warning in report.warnings)


def test_a_healthy_memory_gives_no_warning() -> None:
    params = CrystalParams.anchored(**{**STILL, "alpha": 0.01})
    memory = mixed(params, anchor={"q": (2,)}, context=False)
    assert memory.consolidate(with_output).warnings == ()


def test_crystals_that_carry_no_loss_are_warned_of() -> None:
    for w_min, kappa, word in ((0.0, 0.0, True), (0.5, 0.0, False), (0.0, 0.1, False)):
        memory = memory_of(128, CrystalParams.repaired(**STILL, w_min=w_min, kappa=kappa), anchor={"q": (2,)})
        feed(memory, 40)
        feed(memory, 6, seed=1, crystallization=0.99)
        assert warned(memory.consolidate(with_output), "less than 0.1 % of the loss") is word


def test_contradictions_everywhere_are_warned_of() -> None:
    for epsilon, word in ((10.0, True), (1e-3, False)):
        memory = memory_of(128, CrystalParams.paper(sigma=0.0, epsilon=epsilon, delta_r=0.1))
        feed(memory, 40)
        assert warned(memory.consolidate(by_reward), "count as contradicted") is word


def test_everything_at_one_is_warned_of() -> None:
    for c, word in ((1.0, True), (0.9, False)):
        memory = memory_of(128, CrystalParams.repaired(**STILL, capacity=(1.0, 1.0, 30.0)))
        feed(memory, 40, crystallization=c)
        assert warned(memory.consolidate(by_reward), "at c = 1") is word


def test_a_fifth_of_clipped_errors_cannot_be_so_the_warning_needs_a_skewed_scale() -> None:
    """The 95th percentile clips at most a twentieth; the warning stands for scales that clip more."""
    memory = mixed(CrystalParams.repaired(**STILL))
    values = dict(memory.consolidate(by_reward).values)
    assert not any("clipped" in w for w in health(values, "exists"))
    values["clipped"] = torch.tensor([0.3], dtype=torch.float64)
    assert any("clipped" in w for w in health(values, "exists"))


def test_a_full_store_of_one_context_is_warned_of() -> None:
    zero = np.zeros(2, np.float32)
    for contexts, word in ((1, True), (4, False)):
        memory = memory_of(128, CrystalParams.repaired(**STILL), context=True)
        for n in range(40):
            memory.add(Transition(zero, 0, 0.0, zero, False, context=n % contexts), crystallization=0.9)
        report = memory.consolidate(by_reward)
        assert report.values["contexts"][0] == (1 if contexts == 1 else pytest.approx(4, abs=2))
        assert warned(report, "holds one context only") is word


@pytest.mark.parametrize("params", [CrystalParams.anchored(), CrystalParams.repaired()])
@pytest.mark.parametrize(("slots", "most"), [(200_000, 160), (100_000, 204)])
def test_ledger_and_lists_are_small(slots: int, most: int, params: CrystalParams) -> None:
    """Bytes per experience without payload, anchors and vectors; memories so large that sums and padding hardly count.

    A smaller memory has no index; its lists are longer, by less than half of the vectors that an index would hold.
    """
    pytest.importorskip("faiss")
    memory = CrystalMemory(slots, obs=(3,), action=(2,), params=params, seed=0)
    graph = memory.neighbours.empty_graph(memory.arena)
    assert (graph.index is None) == (slots == 100_000)
    assert memory.nbytes - memory.arena.nbytes + graph.list_bytes <= most * memory.capacity


def test_followed_slots_show_the_state_of_their_experiences_after_the_consolidation() -> None:
    memory = CrystalMemory(48, obs=(2,), action=3, seed=0, params=CrystalParams(capacity=(1.0, 1.0, 1.0)))
    for step in range(40):
        memory.add(Transition(torch.rand(2), step % 3, 0.0, torch.rand(2), False, False))
    told = memory.consolidate(lambda batch: batch.reward + 0.5)
    slots = told.followed["slot"][0].long()
    assert slots.tolist() == [48 * k // FOLLOWED for k in range(FOLLOWED)]
    assert torch.equal(told.followed["phase"][0], memory.ledger.phase[0, slots].double())
    for name in ("c", "utility", "interference"):
        assert torch.equal(told.followed[name][0], getattr(memory.ledger, name)[0, slots].double())
    held = told.followed["phase"][0] > 0
    parts = [told.followed[name][0][held] for name in ("surprise", "novelty", "downstream")]
    weights = (memory.params.w1, memory.params.w2, memory.params.w3)
    whole = sum(float(w) * part for w, part in zip(weights, parts, strict=True)) / max(sum(map(float, weights)), 1.0)
    torch.testing.assert_close(told.followed["utility"][0][held], whole.clamp(0, 1), atol=1e-6, rtol=0)
    assert told.followed["drift"].isnan().all()  # no anchors
