"""Frozen parameters keep their bits, however long the rest is trained."""

import pytest
import torch

from crystalrl.methods.frozen import Frozen
from tests.methods.runs import ALL_AGENTS, play, practise, setup_of, trainer


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_what_is_not_trainable_keeps_its_bits(agent: str) -> None:
    made = trainer("none", agent)
    made.method = Frozen(setup_of(made), critics=True)
    practise(made, 0)
    random = torch.Generator().manual_seed(0)
    for mask in made.method.trainable.values():
        mask.copy_(torch.rand(mask.shape, generator=random) < 0.5)
    made.begin(1)
    before = {name: part.theta.detach().clone() for name, part in made.agent.parts.items()}
    play(made, 20)
    for name, part in made.agent.parts.items():
        moved = part.theta != before[name]
        assert not moved[~made.method.trainable[name]].any()
        assert moved[made.method.trainable[name]].any()


def test_a_task_starts_with_an_empty_memory_and_no_momentum() -> None:
    made = trainer("none")
    made.method = Frozen(setup_of(made), critics=False)
    practise(made, 0)
    made.begin(1)
    assert len(made.memory) == 0
    assert not any(tensor.any() for tensor in made.agent.optimiser.tensors().values())


def test_hidden_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="wanted tasks whose id is known, got hidden ids"):
        trainer("packnet", suite="nav-3-hidden", agent_params={"width": 12})
