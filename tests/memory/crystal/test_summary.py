"""A memory in a few lines, and warnings about one that does not work."""

from __future__ import annotations

from crystalrl import CrystalParams
from tests.memory.crystal.experience import by_reward, feed, memory_of, with_output

STILL = {"alpha": 0.0, "sigma": 0.0, "interference": "none", "time_unit": 20}


def test_a_new_memory_says_what_to_do() -> None:
    memory = memory_of(100)
    feed(memory, 25)
    assert memory.summary().splitlines() == [
        "Holds 25 experiences: 25 liquid, 0 glass, 0 crystal.",
        "25 of 100 slots are used (25 %); 25 were added.".replace("25 %", "25%"),
        "Anchors: none; crystals are replayed at full TD weight.",
        "Not consolidated yet: call `consolidate(evaluate)` when `due`.",
    ]


def test_crystals_and_what_pulls_on_them_are_counted() -> None:
    memory = memory_of(100, CrystalParams(**STILL, kappa=1.0), anchor={"q": (2,)})
    feed(memory, 4, crystallization=0.9)
    feed(memory, 6, seed=1)
    memory.consolidate(with_output)
    assert "pull on 0 experiences" in memory.summary()  # what is fresh is not held
    memory.consolidate(with_output)
    first, _, anchors, last = memory.summary().splitlines()
    assert first == "Holds 10 experiences: 6 liquid, 0 glass, 4 crystal."
    assert anchors == "Anchors: q pull on 4 experiences with mean strength 0.81."  # .9²
    assert last == "2 consolidations; the largest c is 0.90; crystals have formed."


def test_lanes_are_averaged() -> None:
    memory = memory_of(8, CrystalParams.repaired(), lanes=2)
    assert memory.summary().startswith("Holds 0 experiences in each of 2 lanes (means): 0 liquid")
    assert "crystals are replayed at TD weight (1 − c)^2." in memory.summary()


def test_a_memory_in_which_nothing_crystallizes_is_warned_of() -> None:
    memory = memory_of(40, CrystalParams(**STILL))
    for turn in range(11):
        feed(memory, 10, seed=turn)
        report = memory.consolidate(by_reward)
        told = [text for text in report.warnings if text.startswith("Nothing crystallizes")]
        assert len(told) == (turn >= 9), turn  # ten consolidations, and as many experiences as slots
    assert "the largest c is 0.00, glass begins at 0.3" in told[0]
    feed(memory, 1, crystallization=0.5)
    assert not any("Nothing crystallizes" in text for text in memory.consolidate(by_reward).warnings)


def test_slots_that_stay_empty_are_warned_of_unless_liquid_borrows_them() -> None:
    for borrow in (False, True):
        memory = memory_of(160, CrystalParams(**STILL, borrow=borrow))
        feed(memory, 200)
        texts = memory.consolidate(by_reward).warnings
        assert any(text.startswith("38% of the slots are used") for text in texts) is not borrow


def test_anchors_that_pull_with_nothing_are_warned_of() -> None:
    memory = memory_of(40, CrystalParams(**STILL, kappa=0.0), anchor={"q": (2,)})  # they tell whether outputs settle
    feed(memory, 10)
    assert any("kappa = 0" in text for text in memory.consolidate(with_output).warnings)
    assert "without pull, since kappa is 0" in memory.summary()
