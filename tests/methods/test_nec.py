"""Writing of neural episodic control: every stored experience enters the dictionary, and it counts as memory."""

import pytest
import torch

from crystalrl.methods.nec import Writer, WriterParams
from tests.methods.runs import scores, setup_of, trainer


def test_every_stored_experience_is_written_under_its_action() -> None:
    made = trainer("nec", agent_params={"width": 12, "key": 6, "entries": 200, "neighbours": 5, "n_step": 1})
    made.begin(0)
    taken = []
    for _ in range(6):
        made.collect()
        taken.append(made.action.clone())
    counts = torch.stack([(torch.cat(taken, 1) == action).sum(1) for action in range(5)], dim=1)
    assert torch.equal(made.agent.dictionary.count, counts)


def test_steps_that_are_not_stored_yet_are_not_written() -> None:
    made = trainer("nec", agent_params={"width": 12, "key": 6, "entries": 200, "neighbours": 5, "n_step": 10})
    made.begin(0)
    for _ in range(5):
        made.collect()
    assert int(made.agent.dictionary.count.sum()) == int(made.memory.ledger.number.sum())


def test_the_dictionary_counts_as_memory() -> None:
    made = trainer("nec")
    assert made.method.nbytes >= made.agent.dictionary.keys.nbytes + made.agent.dictionary.values.nbytes


def test_other_agents_and_the_agent_without_it_are_refused() -> None:
    with pytest.raises(ValueError, match="method nec: wanted the agent nec, got DQN"):
        Writer(setup_of(trainer("none")), WriterParams())


@pytest.mark.slow
def test_it_learns_one_task() -> None:
    fields = {"suite": "nav-1", "seeds": (0, 1), "steps": 4000, "capacity": 2000, "batch": 32, "points": 1}
    settings = {"width": 32, "gamma": 0.95, "entries": 400, "neighbours": 20}
    R = scores(agent="nec", method="nec", agent_params=settings, **fields)
    assert R[:, 1].mean() > R[:, 0].mean() + 0.2
