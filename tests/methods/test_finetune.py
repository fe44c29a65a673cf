"""Fine-tuning: the memory holds the current task only."""

import pytest

from tests.methods.runs import play, practise, scores, trainer


def test_a_task_starts_with_an_empty_memory_and_waits_until_it_is_warm() -> None:
    made = trainer("finetune")
    practise(made, 0)
    assert len(made.memory) > 0
    made.begin(1)
    assert len(made.memory) == 0
    play(made, 8)
    assert (made.memory.sample(64).context == 1).all()


@pytest.mark.slow
def test_it_learns_the_last_task_and_forgets_the_others() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 450, "batch": 64}
    R = scores(method="finetune", agent_params={"width": 64}, **fields)
    assert R[:, 3, 2].mean() > 0.85
    assert R[:, 3, :2].mean() < 0.65
