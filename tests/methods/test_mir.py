"""Maximally interfered retrieval against brute force."""

import pytest
import torch

from crystalrl.methods.batches import taken
from crystalrl.methods.mir import MIRParams
from tests.methods.runs import ALL_AGENTS, play, trainer


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_it_picks_the_candidates_whose_loss_rises_most(agent: str) -> None:
    made = trainer("mir", agent, method_params={"rate": 0.02})
    made.begin(0)
    play(made, 10)
    batch, ticks = made.memory.sample(16), made.agent.streams.ticks.clone()
    memory_ticks = made.memory.streams.ticks.clone()
    before = {name: part.theta.detach().clone() for name, part in made.agent.parts.items()}
    augmented = made.method.augment(batch)
    assert all(torch.equal(part.theta, before[name]) for name, part in made.agent.parts.items())
    made.agent.streams.ticks.copy_(ticks)
    made.memory.streams.ticks.copy_(memory_ticks)
    candidates = made.memory.sample(40)
    rises = brute_force(made, taken(batch, torch.arange(8).expand(2, -1)), candidates)
    for lane in range(2):
        best = sorted(range(40), key=lambda i: -rises[lane][i])[:8]
        assert augmented.index[lane, :8].tolist() == batch.index[lane, :8].tolist()
        found = augmented.index[lane, 8:].tolist()
        assert sorted(found) == sorted(candidates.index[lane, best].tolist())


def brute_force(made, batch, candidates) -> list[list[float]]:
    """Rise of every candidate's loss, one candidate at a time, with another agent of the same state."""
    before, after = (trainer("none", made.spec.agent).agent for _ in range(2))
    for other in (before, after):
        other.load_state_dict(made.agent.state_dict())
    gradients = after.gradients(batch, list(after.parts))
    with torch.no_grad():
        for name, part in after.parts.items():
            part.theta.sub_(0.02 * gradients[name])
    old, new = (other.evaluate(candidates).td_error for other in (before, after))
    return [[float(new[lane, i]) ** 2 - float(old[lane, i]) ** 2 for i in range(40)] for lane in range(2)]


def test_td_errors_are_reported_for_what_was_retrieved() -> None:
    made = trainer("mir", memory="prioritized")
    made.begin(0)
    play(made, 6)
    augmented = made.method.augment(made.memory.sample(16))
    assert augmented.index.shape == augmented.ticket.shape == (2, 16)
    assert torch.equal(augmented.obs, made.memory.arena.unpack(made.memory.arena.read(augmented.index))["obs"])


@pytest.mark.parametrize(("name", "value"), [("candidates", 0.5), ("share", 1.0), ("rate", 0.0)])
def test_bad_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        MIRParams(**{name: value})
