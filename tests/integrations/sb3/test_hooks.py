"""The hooks give the gradients of the explicit losses in `twins`."""

from __future__ import annotations

import gc
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor

from crystalrl import CrystalParams
from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer, PrioritizedReplayBuffer
from tests.experience import bhattacharyya
from tests.integrations.gradients import difference, gradients, varied
from tests.integrations.twins import (
    ALGORITHMS,
    CONTINUOUS,
    EXACT,
    QUICK,
    TWINS,
    actor_loss,
    algorithm,
    build,
    critic_of,
    temperature,
    trained,
)

NO_ANCHORS = CrystalParams.anchored(**QUICK | {"settle": None}, kappa=0.0)


@dataclass
class Step:
    """What one training step of SB3 did, and what an explicit loss would have done."""

    critic: list[Tensor]
    actor: list[Tensor]
    batch: Any
    samples: Any
    before: Any
    """Copy of the policy before the step."""
    between: Any
    """Copy of the policy between the critic's step and the actor's."""
    reported: list[Tensor]
    """|δ| that the hooks reported to the memory."""
    entropy: Any


def one_step(model: Any, batch: int) -> Step:
    before, entropy = deepcopy(model.policy), temperature(model)
    found: dict[str, Any] = {"critic": [], "actor": [], "between": None}
    critic, reported = critic_of(model.policy), []

    def at_critic(*_: Any) -> None:
        found["critic"] = gradients(critic)

    def at_actor(*_: Any) -> None:
        found["actor"], found["between"] = gradients(model.actor), deepcopy(model.policy)

    optimiser = getattr(critic, "optimizer", None) or model.policy.optimizer
    handles = [optimiser.register_step_pre_hook(at_critic)]
    if hasattr(model, "actor") and model.actor is not None:
        handles.append(model.actor.optimizer.register_step_pre_hook(at_actor))
    buffer = model.replay_buffer
    report, buffer.hooks.report = buffer.hooks.report, lambda index, error: reported.append(error)
    torch.manual_seed(3)
    model.train(gradient_steps=1, batch_size=batch)
    buffer.hooks.report = report
    for handle in handles:
        handle.remove()
    drawn = {"batch": buffer.hooks.batch, "samples": buffer.hooks.samples}
    return Step(**drawn, before=before, reported=reported, entropy=entropy, **found)


def explicit(name: str, model: Any, step: Step, anchored: bool = False) -> tuple[list[Tensor], Tensor]:
    """Gradients of the weighted loss (and the anchors' pull on the critic) on the copy, and |δ|."""
    torch.manual_seed(3)
    step.before.zero_grad()
    loss, error, values = TWINS[name](model, step.before, step.samples, step.batch.weight, step.entropy)
    if anchored:
        anchor = step.batch.anchor["advantage"]
        advantage = values - values.mean(1, keepdim=True)
        loss = loss + (anchor.coefficient * ((advantage - anchor.target) ** 2).sum(1)).mean()
    loss.backward()
    return gradients(critic_of(step.before)), error


@pytest.mark.parametrize("name", ALGORITHMS)
def test_critic_gradients_are_those_of_the_weighted_loss_before_and_after_save_and_load(name: str, tmp_path) -> None:
    model = trained(name, NO_ANCHORS)
    model.save(tmp_path / "model")
    model.replay_buffer.save(tmp_path / "memory.safetensors")
    again = algorithm(name).load(tmp_path / "model", env=model.get_env(), device="cpu")
    again.replay_buffer.load(tmp_path / "memory.safetensors")
    again.learn(0, callback=Consolidate(), reset_num_timesteps=False)
    batches = []
    for one in (model, again):
        step = one_step(one, 32)
        ours, (theirs, error) = step.critic, explicit(name, one, step)
        assert varied(step.batch.weight)
        assert difference(ours, theirs) <= (0.0 if name in EXACT else 1e-6)
        if name in ("SAC", "TD3"):
            torch.testing.assert_close(step.reported[0], error, rtol=1e-5, atol=1e-6)
        batches.append(step.batch.index)
    assert torch.equal(*batches)


@pytest.mark.parametrize("name", EXACT)
def test_a_batch_of_any_size_is_weighted(name: str) -> None:
    model = trained(name, NO_ANCHORS)
    step = one_step(model, 27)
    assert difference(step.critic, explicit(name, model, step)[0]) <= 1e-6


@pytest.mark.parametrize("name", CONTINUOUS)
def test_without_anchors_the_actor_s_gradients_do_not_change(name: str) -> None:
    model = trained(name, NO_ANCHORS, **({"policy_delay": 1} if name == "TD3" else {}))
    step = one_step(model, 32)
    torch.manual_seed(3)
    step.between.zero_grad()
    actor_loss(name, step.between, step.samples, step.entropy).backward()
    assert difference(step.actor, gradients(step.between.actor)) == 0


def pulling(batch: Any) -> None:
    for anchor in batch.anchor.values():
        assert float((anchor.coefficient > 0).float().mean()) > 0.3


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in CONTINUOUS])
def test_anchors_pull_the_advantages_as_a_squared_error_would(name: str) -> None:
    model = trained(name, CrystalParams.anchored(**QUICK, kappa=0.7, practice=0))
    step = one_step(model, 32)
    pulling(step.batch)
    with_anchors = explicit(name, model, step, anchored=True)[0]
    assert difference(step.critic, with_anchors) <= 1e-5  # the two gradients are added in another order
    assert difference(with_anchors, explicit(name, model, step)[0]) > 1e-3


@pytest.mark.parametrize("name", CONTINUOUS)
def test_anchors_pull_the_actor_by_distance_or_squared_error_and_leave_its_critics_alone(name: str) -> None:
    params = CrystalParams.anchored(**QUICK, kappa=0.7)
    model = trained(name, params, **({"policy_delay": 1} if name == "TD3" else {}))
    step = one_step(model, 32)
    pulling(step.batch)
    assert difference(step.critic, explicit(name, model, step)[0]) <= 1e-6
    torch.manual_seed(3)
    step.between.zero_grad()
    loss, anchor = actor_loss(name, step.between, step.samples, step.entropy), step.batch.anchor["policy"]
    if name == "TD3":
        apart = ((step.between.actor(step.samples.observations) - anchor.target) ** 2).sum(1)
    else:
        mean, log_std, _ = step.between.actor.get_action_dist_params(step.samples.observations)
        old_mean, old_log_std = anchor.target.chunk(2, 1)
        old, new = (torch.distributions.Normal(m, s.exp()) for m, s in ((old_mean, old_log_std), (mean, log_std)))
        apart = bhattacharyya(old, new).sum(1)
    (loss + (anchor.coefficient * apart).mean()).backward()
    assert float(apart.detach().max()) > 0
    assert difference(step.actor, gradients(step.between.actor)) <= 1e-5


@pytest.mark.parametrize("name", ALGORITHMS)
def test_prioritized_buffers_weight_every_algorithm_and_learn_the_errors(name: str) -> None:
    model = build(name, PrioritizedReplayBuffer, replay_buffer_kwargs={"beta": 1.0})
    model.learn(200, callback=Consolidate())
    step = one_step(model, 32)
    assert varied(step.batch.weight)
    ours, (theirs, error) = step.critic, explicit(name, model, step)
    assert difference(ours, theirs) <= (0.0 if name in EXACT else 1e-6)
    if name in EXACT:
        wanted = error.clamp_max(1.0) if name == "DQN" else error
        torch.testing.assert_close(step.reported[0], wanted, rtol=1e-5, atol=1e-6)
    elif name == "QRDQN":  # evaluated when drawn; TQC draws random numbers for that
        slots = step.batch.index
        weight = model.replay_buffer.memory.ledger.tree.weight[0, slots]
        torch.testing.assert_close(weight.double(), (error.double() + 1e-6) ** 0.6, rtol=1e-3, atol=1e-4)


def test_with_weights_of_one_a_whole_run_equals_plain_sb3() -> None:
    """SAC with our buffer and plain SB3 with the same samples end with the same parameters, bit for bit."""
    plain = CrystalParams.anchored(**QUICK | {"settle": None}, kappa=0.0, gate=0.0, nu=0.0)
    model = build("SAC", replay_buffer_kwargs={"params": replace(plain, alpha=0.0, sigma=0.0)})
    model.learn(60, callback=Consolidate())
    twin = build("SAC", None)
    twin.set_parameters(deepcopy(model.get_parameters()))
    twin.log_ent_coef.data.copy_(model.log_ent_coef)

    class Fed:
        def sample(self, size: int, env: Any = None) -> Any:
            return fed.pop(0)

    fed = []
    sample = model.replay_buffer.sample
    model.replay_buffer.sample = lambda *a, **k: fed.append(sample(*a, **k)) or fed[-1]
    torch.manual_seed(5)
    model.train(20, 32)
    twin.replay_buffer, twin._logger = Fed(), model.logger
    torch.manual_seed(5)
    twin.train(20, 32)
    for a, b in zip(model.policy.parameters(), twin.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_copied_network_has_neither_working_hooks_nor_the_memory() -> None:
    model = trained("DQN")
    copy = deepcopy(model.q_net)
    (hook,) = copy._forward_hooks.values()
    assert hook.__self__.batch is None
    assert not hasattr(hook.__self__, "adapter")
    assert isinstance(model.replay_buffer, CrystalReplayBuffer)


@pytest.mark.parametrize("buffer", [CrystalReplayBuffer, PrioritizedReplayBuffer])
def test_a_model_that_is_no_longer_used_is_freed_with_its_memory(buffer: Any) -> None:
    model = build("DQN", buffer).learn(60, callback=Consolidate())
    gone = ref(model), ref(model.replay_buffer.memory)
    del model
    gc.collect()
    assert [each() for each in gone] == [None, None]
