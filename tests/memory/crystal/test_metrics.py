"""Every number of a report is explained."""

from crystalrl.memory.crystal.metrics import MAIN, OTHERS, tag
from tests.memory.crystal.experience import by_reward, feed, memory_of


def test_every_number_of_a_report_is_explained_and_no_other() -> None:
    memory = memory_of(32)
    feed(memory, 20)
    explained = [*MAIN, *(name for metrics in OTHERS.values() for name in metrics)]
    assert sorted(explained) == sorted(memory.consolidate(by_reward).scalars())


def test_four_numbers_come_first_and_the_rest_is_in_a_group_after_them() -> None:
    assert len(MAIN) == 4
    assert all(metric.expect for metric in MAIN.values())
    assert tag("crystal") == "memory/crystal"
    assert tag("liquid") == "memory_details/liquid"
    assert sorted([tag("liquid"), tag("melted")]) == ["memory/melted", "memory_details/liquid"]
