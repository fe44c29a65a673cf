"""What we rely on in Stable-Baselines3. If a new version breaks one of these, the test says what to change."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.sac import policies

from crystalrl.integrations.sb3 import adapters
from tests.integrations.twins import ALGORITHMS, CONTINUOUS, DISCRETE, build, critic_of, trained

HOOKS = "see crystalrl/integrations/sb3/hooks.py"


def calls(name: str) -> list[tuple[str, bool, bool, bool]]:
    """Forward passes of one training step: module, whether with gradients, whether on the drawn observations, whether
    on the drawn actions.
    """
    model = trained(name, steps=100, **({"policy_delay": 1} if name == "TD3" else {}))
    seen: list[tuple[str, bool, bool, bool]] = []
    drawn: list[Any] = []
    sample = model.replay_buffer.sample
    model.replay_buffer.sample = lambda *a, **k: drawn.append(sample(*a, **k)) or drawn[-1]

    def note(label: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            of_obs = inputs[0] is drawn[-1].observations
            of_actions = len(inputs) > 1 and inputs[1] is drawn[-1].actions
            seen.append((label, torch.is_grad_enabled(), of_obs, of_actions))

        return hook

    modules = {"critic": critic_of(model.policy)}
    if name == "TD3":
        modules["actor"] = model.actor
    elif name in CONTINUOUS:
        modules |= {"mean": model.actor.mu, "log_std": model.actor.log_std}
    for label, module in modules.items():
        module.register_forward_hook(note(label))
    model.train(gradient_steps=1, batch_size=32)
    return seen


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_loss_is_computed_from_one_pass_over_the_drawn_tensors_themselves(name: str) -> None:
    critic = [call for call in calls(name) if call[0] == "critic"]
    marked = [call for call in critic if call[2] and (name in DISCRETE or call[3])]
    assert len(marked) == 1, (
        f"{name}: wanted one critic pass over (observations, actions) as drawn, got {critic}; {HOOKS}"
    )
    assert marked[0][1], f"{name}: wanted gradients in that pass; {HOOKS}"


@pytest.mark.parametrize("name", ["SAC", "TQC"])
def test_the_actor_starts_a_step_with_mean_and_log_std_of_the_drawn_states(name: str) -> None:
    passes = [label for label, gradients, _, _ in calls(name) if gradients and label in ("mean", "log_std")]
    assert passes == ["mean", "log_std"], f"{name}: wanted one pass with gradients, mean first, got {passes}; {HOOKS}"
    first = [label for label, *_ in calls(name)][:2]
    assert first == ["mean", "log_std"], f"{name}: wanted the drawn states before the next ones, got {first}; {HOOKS}"


def test_td3_runs_its_actor_on_the_drawn_states_once() -> None:
    passes = [call for call in calls("TD3") if call[0] == "actor"]
    assert passes == [("actor", True, True, False)], f"wanted one pass with gradients, got {passes}; {HOOKS}"


def test_the_policy_s_log_std_is_clamped_to_the_range_we_assume() -> None:
    assert (policies.LOG_STD_MIN, policies.LOG_STD_MAX) == adapters.LOG_STD, "update LOG_STD in adapters.py"


def test_samples_have_the_fields_and_defaults_we_fill() -> None:
    wanted = ("observations", "actions", "next_observations", "dones", "rewards", "discounts")
    assert ReplayBufferSamples._fields == wanted, "update MemoryReplayBuffer.samples"
    assert ReplayBufferSamples._field_defaults == {"discounts": None}, "update MemoryReplayBuffer.samples"


def test_buffers_are_built_filled_and_drawn_from_as_we_expect() -> None:
    built = list(inspect.signature(ReplayBuffer.__init__).parameters)
    wanted = ["self", "buffer_size", "observation_space", "action_space", "device", "n_envs"]
    wanted += ["optimize_memory_usage", "handle_timeout_termination"]
    assert built == wanted, "update MemoryReplayBuffer.__init__"
    assert list(inspect.signature(BaseBuffer.__init__).parameters) == wanted[:6], "update MemoryReplayBuffer.__init__"
    added = list(inspect.signature(ReplayBuffer.add).parameters)
    assert added == ["self", "obs", "next_obs", "action", "reward", "done", "infos"], "update MemoryReplayBuffer.add"
    assert list(inspect.signature(ReplayBuffer.sample).parameters) == ["self", "batch_size", "env"], "update sample"


def test_only_the_buffer_itself_reads_the_ring_s_position() -> None:
    """`pos` and `full` do not exist here; SB3 reads them only for optimize_memory_usage, which is refused."""
    source = inspect.getsource(OffPolicyAlgorithm)
    reads = [line for line in source.splitlines() if "buffer.pos" in line or "buffer.full" in line]
    assert len(reads) == 2, f"wanted the two reads under optimize_memory_usage, got {reads}"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_models_have_the_attributes_that_evaluation_reads(name: str) -> None:
    model = build(name)
    wanted = {
        "SAC": ("actor", "critic", "critic_target", "ent_coef_optimizer", "log_ent_coef"),
        "TQC": ("actor", "critic", "critic_target", "ent_coef_optimizer", "top_quantiles_to_drop_per_net"),
        "TD3": ("actor", "actor_target", "critic", "critic_target", "target_policy_noise", "target_noise_clip"),
        "DQN": ("q_net", "q_net_target"),
        "QRDQN": ("quantile_net", "quantile_net_target"),
    }[name]
    for attribute in (*wanted, "gamma", "n_steps", "_n_updates", "get_vec_normalize_env"):
        assert hasattr(model, attribute), f"{name}.{attribute} is gone: update {adapters.__name__}"
