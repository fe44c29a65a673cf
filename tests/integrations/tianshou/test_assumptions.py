"""What we take for granted in Tianshou. If a new version breaks one of these, it says what to mend."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.data import Collector, ReplayBufferManager
from tianshou.utils.torch_utils import policy_within_training_step

from tests.integrations.tianshou_models import algorithm, trained

LEARNERS = "see crystalrl/integrations/tianshou/learners.py"
BUFFER = "see crystalrl/integrations/tianshou/buffer.py"


def calls(name: str) -> list[tuple[str, bool, bool, bool]]:
    """Passes through the networks in one update: which, with gradients, of the drawn observations and actions."""
    made, buffer = trained(name, steps=20)
    seen: list[tuple[str, bool, bool, bool]] = []

    def note(label: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            samples = buffer.learner.samples
            of_actions = len(inputs) > 1 and inputs[1] is samples.act
            seen.append((label, torch.is_grad_enabled(), inputs[0] is samples.obs, of_actions))

        return hook

    modules = {"q": made.policy.model} if name == "DQN" else {}
    if name == "SAC":
        modules = {"critic": made.critic, "critic2": made.critic2, "actor": made.policy.actor}
    for label, module in modules.items():
        module.register_forward_hook(note(label))
    with policy_within_training_step(made.policy):
        made.update(buffer=buffer, sample_size=16)
    return seen


def test_dqn_asks_its_network_once_for_the_very_array_that_was_drawn() -> None:
    marked = [call for call in calls("DQN") if call[1] and call[2]]
    assert len(marked) == 1, f"wanted one pass with gradients over the drawn observations, got {marked}; {LEARNERS}"


def test_sac_asks_each_network_once_for_the_very_arrays_that_were_drawn() -> None:
    seen = calls("SAC")
    for label in ("critic", "critic2"):
        marked = [call for call in seen if call[0] == label and call[1] and call[2] and call[3]]
        assert len(marked) == 1, f"{label}: wanted one pass over the drawn observations and actions; {LEARNERS}"
    marked = [call for call in seen if call[0] == "actor" and call[1] and call[2]]
    assert len(marked) == 1, f"actor: wanted one pass with gradients over the drawn observations; {LEARNERS}"


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_constant_weights_scale_the_critic_s_gradient(name: str) -> None:
    """Tianshou weighs by itself: mean of weight · squared error."""
    found = []
    for factor in (1.0, 0.25):
        made, buffer = trained(name, steps=20)
        samples, slots = buffer.sample(16)
        samples.weight = np.full(16, factor, np.float32)
        torch.manual_seed(0)
        optim = made.optim if name == "DQN" else made.critic_optim
        network = made.policy.model if name == "DQN" else made.critic
        buffer.learner.batch = None
        optim._optim.register_step_pre_hook(
            lambda *_, network=network: found.append([p.grad.clone() for p in network.parameters()])
        )
        with policy_within_training_step(made.policy):
            made._update_with_batch(made._preprocess_batch(samples, buffer, slots))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(two, 0.25 * one, msg=f"{name}: weights do not scale the gradient; {LEARNERS}")


def test_dqn_s_huber_loss_leaves_the_weights_out() -> None:
    """Not that we rely on it: it is why huber_loss_delta is refused. If this fails, it need not be any more."""
    source = inspect.getsource(type(algorithm("DQN"))._update_with_batch)
    assert "huber_loss(" in source, LEARNERS
    assert source.index("huber_loss(") < source.index("* weight"), f"Huber is weighted now; {LEARNERS}"


def test_an_update_samples_preprocesses_trains_and_reports_in_this_order() -> None:
    source = inspect.getsource(Algorithm._update)
    order = [source.index(part) for part in ("buffer.sample(", "_preprocess_batch(", "update_with_batch_fn(batch)")]
    assert order == sorted(order), f"wanted sample, preprocess, train; {BUFFER}"
    assert "buffer.update_weight(indices, batch.weight)" in inspect.getsource(Algorithm._postprocess_batch), BUFFER


def test_collectors_add_to_buffers_and_look_up_ended_episodes_as_we_expect() -> None:
    assert list(inspect.signature(ReplayBufferManager.add).parameters) == ["self", "batch", "buffer_ids"], BUFFER
    source = inspect.getsource(Collector)
    assert "self.buffer.get_buffer_indices(ep_start_idx, ep_stop_idx)" in source, f"update get_buffer_indices; {BUFFER}"


def test_returns_over_several_steps_are_looked_up_step_by_step_and_end_where_the_next_step_is_missing() -> None:
    source = inspect.getsource(Algorithm.compute_nstep_return)
    for part in ("buffer.next(", "buffer.done.copy()", "end_flag_B[buffer.unfinished_index()] = True"):
        assert part in source, f"wanted {part}, which next() and unfinished_index() answer; {BUFFER}"


def test_dqn_shows_its_network_the_part_of_a_dict_observation_that_is_called_obs() -> None:
    source = inspect.getsource(type(algorithm("DQN").policy).forward)
    assert 'obs.obs if hasattr(obs, "obs") else obs' in source, f"update _armed; {LEARNERS}"
