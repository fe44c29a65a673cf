"""What we rely on in Tianshou. If a new version breaks one of these, the test says what to change."""

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

ADAPTERS = "see crystalrl/integrations/tianshou/adapters.py"
BUFFER = "see crystalrl/integrations/tianshou/buffer.py"


def calls(name: str) -> list[tuple[str, bool, bool, bool]]:
    """Forward passes of one update: network, whether with gradients, whether on the drawn observations and actions."""
    made, buffer = trained(name, steps=20)
    seen: list[tuple[str, bool, bool, bool]] = []

    def note(label: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            samples = buffer.adapter.samples
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


def test_dqn_runs_its_network_once_on_the_drawn_array_itself() -> None:
    marked = [call for call in calls("DQN") if call[1] and call[2]]
    assert len(marked) == 1, f"wanted one pass with gradients over the drawn observations, got {marked}; {ADAPTERS}"


def test_sac_runs_each_network_once_on_the_drawn_arrays_themselves() -> None:
    seen = calls("SAC")
    for label in ("critic", "critic2"):
        marked = [call for call in seen if call[0] == label and call[1] and call[2] and call[3]]
        assert len(marked) == 1, f"{label}: wanted one pass over the drawn observations and actions; {ADAPTERS}"
    marked = [call for call in seen if call[0] == "actor" and call[1] and call[2]]
    assert len(marked) == 1, f"actor: wanted one pass with gradients over the drawn observations; {ADAPTERS}"


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_constant_weights_scale_the_critic_s_gradient(name: str) -> None:
    """Tianshou itself takes the mean of weight · squared error."""
    found = []
    for factor in (1.0, 0.25):
        made, buffer = trained(name, steps=20)
        samples, slots = buffer.sample(16)
        samples.weight = np.full(16, factor, np.float32)
        torch.manual_seed(0)
        optim = made.optim if name == "DQN" else made.critic_optim
        network = made.policy.model if name == "DQN" else made.critic
        buffer.adapter.batch = None
        optim._optim.register_step_pre_hook(
            lambda *_, network=network: found.append([p.grad.clone() for p in network.parameters()])
        )
        with policy_within_training_step(made.policy):
            made._update_with_batch(made._preprocess_batch(samples, buffer, slots))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(two, 0.25 * one, msg=f"{name}: weights do not scale the gradient; {ADAPTERS}")


def test_dqn_s_huber_loss_ignores_the_weights() -> None:
    """We do not rely on it: it is why huber_loss_delta is refused. If this fails, it can be allowed."""
    source = inspect.getsource(type(algorithm("DQN"))._update_with_batch)
    assert "huber_loss(" in source, ADAPTERS
    assert source.index("huber_loss(") < source.index("* weight"), f"Huber is weighted now; {ADAPTERS}"


def test_an_update_samples_preprocesses_trains_and_reports_in_this_order() -> None:
    source = inspect.getsource(Algorithm._update)
    order = [source.index(part) for part in ("buffer.sample(", "_preprocess_batch(", "update_with_batch_fn(batch)")]
    assert order == sorted(order), f"wanted sample, preprocess, train; {BUFFER}"
    assert "buffer.update_weight(indices, batch.weight)" in inspect.getsource(Algorithm._postprocess_batch), BUFFER


def test_collectors_add_to_buffers_and_look_up_ended_episodes_as_expected() -> None:
    assert list(inspect.signature(ReplayBufferManager.add).parameters) == ["self", "batch", "buffer_ids"], BUFFER
    source = inspect.getsource(Collector)
    assert "self.buffer.get_buffer_indices(ep_start_idx, ep_stop_idx)" in source, f"update get_buffer_indices; {BUFFER}"


def test_n_step_returns_look_up_step_after_step_and_stop_where_the_next_step_is_missing() -> None:
    source = inspect.getsource(Algorithm.compute_nstep_return)
    for part in ("buffer.next(", "buffer.done.copy()", "end_flag_B[buffer.unfinished_index()] = True"):
        assert part in source, f"wanted {part}, which next() and unfinished_index() answer; {BUFFER}"


def test_dqn_passes_its_network_the_part_obs_of_a_dict_observation() -> None:
    source = inspect.getsource(type(algorithm("DQN").policy).forward)
    assert 'obs.obs if hasattr(obs, "obs") else obs' in source, f"update _armed; {ADAPTERS}"
