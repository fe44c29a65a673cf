"""Explicit losses of the five algorithms, which the hooks must equal; and small models for the tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib.common.utils import quantile_huber_loss
from torch import Tensor
from torch.nn import functional

from crystalrl import CrystalParams
from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer

CONTINUOUS, DISCRETE = ("SAC", "TD3", "TQC"), ("DQN", "QRDQN")
ALGORITHMS = CONTINUOUS + DISCRETE
EXACT = ("SAC", "TD3", "DQN")
QUICK = {"time_unit": 20, "every": 50, "alpha": 2.0, "settle": 3.0, "interference": "none", "backup": 0.0}
"""Crystals within a few hundred steps."""


def algorithm(name: str) -> Any:
    return getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)


def build(name: str, buffer: Any = CrystalReplayBuffer, batch: int = 32, env: Any = None, **options: Any) -> Any:
    """A small model."""
    options = {"learning_starts": 40, "buffer_size": 400, "gradient_steps": 1, "train_freq": 1, "seed": 0, **options}
    if name in DISCRETE:
        options.setdefault("max_grad_norm", float("inf"))
        options.setdefault("target_update_interval", 50)
    env = env or ("Pendulum-v1" if name in CONTINUOUS else "CartPole-v1")
    network = {
        "net_arch": [16, 16],
        **({"n_quantiles": 8} if name == "QRDQN" else {}),
        **options.pop("policy_kwargs", {}),
    }
    return algorithm(name)(
        "MlpPolicy", env, replay_buffer_class=buffer, batch_size=batch, policy_kwargs=network, device="cpu", **options
    )


def trained(name: str, params: CrystalParams | None = None, steps: int = 260, **options: Any) -> Any:
    """A model after a few hundred steps with a crystal buffer."""
    kwargs = {"params": params or CrystalParams.anchored(**QUICK)}
    model = build(name, replay_buffer_kwargs=kwargs, **options)
    with warnings.catch_warnings():  # crystals this quick look unhealthy, and are meant to
        warnings.filterwarnings("ignore", "memory:")
        return model.learn(steps, callback=Consolidate())


def temperature(model: Any) -> Tensor | None:
    return model.log_ent_coef.detach().exp() if hasattr(model, "log_ent_coef") else None


def critic_of(policy: Any) -> Any:
    for name in ("critic", "q_net", "quantile_net"):
        if hasattr(policy, name):
            return getattr(policy, name)
    raise AssertionError


def bootstrap(model: Any, samples: Any, value: Tensor) -> Tensor:
    return samples.rewards + (1 - samples.dones) * model.gamma * value


def mean(weight: Tensor, loss: Tensor) -> Tensor:
    """Weighted mean over the batch; losses [B, …] are averaged over the rest."""
    return (weight.view(-1, *[1] * (loss.dim() - 1)) * loss).mean()


def sac(model: Any, policy: Any, samples: Any, weight: Tensor, entropy: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Critic loss, |δ| [B], values [B, C] on a copy of the policy, with the random numbers SAC would draw."""
    policy.actor.action_log_prob(samples.observations)
    with torch.no_grad():
        actions, log_prob = policy.actor.action_log_prob(samples.next_observations)
        value = torch.cat(policy.critic_target(samples.next_observations, actions), 1).amin(1, keepdim=True)
        target = bootstrap(model, samples, value - entropy * log_prob.reshape(-1, 1))
    q = policy.critic(samples.observations, samples.actions)
    loss = 0.5 * sum(mean(weight, functional.mse_loss(x, target, reduction="none")) for x in q)
    values = torch.cat(q, 1)
    return loss, (values - target).abs().mean(1).detach(), values


def td3(model: Any, policy: Any, samples: Any, weight: Tensor, entropy: Any) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        noise = samples.actions.clone().normal_(0, model.target_policy_noise)
        noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
        actions = (policy.actor_target(samples.next_observations) + noise).clamp(-1, 1)
        value = torch.cat(policy.critic_target(samples.next_observations, actions), 1).amin(1, keepdim=True)
        target = bootstrap(model, samples, value)
    q = policy.critic(samples.observations, samples.actions)
    loss = sum(mean(weight, functional.mse_loss(x, target, reduction="none")) for x in q)
    values = torch.cat(q, 1)
    return loss, (values - target).abs().mean(1).detach(), values  # type: ignore[return-value]


def dqn(model: Any, policy: Any, samples: Any, weight: Tensor, entropy: Any) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        value = policy.q_net_target(samples.next_observations).amax(1, keepdim=True)
        target = bootstrap(model, samples, value)
    values = policy.q_net(samples.observations)
    q = values.gather(1, samples.actions)
    loss = mean(weight, functional.smooth_l1_loss(q, target, reduction="none"))
    return loss, (q - target).abs()[:, 0].detach(), values


def pairwise(current: Tensor, target: Tensor, weight: Tensor, total: bool) -> Tensor:
    """Weighted quantile loss: sample by sample with sb3-contrib's own function."""
    each = [
        quantile_huber_loss(current[b : b + 1], target[b : b + 1], sum_over_quantiles=total)
        for b in range(len(current))
    ]
    return (weight * torch.stack(each)).mean()


def tqc(model: Any, policy: Any, samples: Any, weight: Tensor, entropy: Any) -> tuple[Tensor, Tensor, Tensor]:
    policy.actor.action_log_prob(samples.observations)
    critic = policy.critic
    kept = critic.quantiles_total - model.top_quantiles_to_drop_per_net * critic.n_critics
    with torch.no_grad():
        actions, log_prob = policy.actor.action_log_prob(samples.next_observations)
        quantiles = policy.critic_target(samples.next_observations, actions).flatten(1).sort(1).values[:, :kept]
        target = bootstrap(model, samples, quantiles - entropy * log_prob.reshape(-1, 1))
    current = critic(samples.observations, samples.actions)
    values = current.mean(2)
    error = (values - target.mean(1, keepdim=True)).abs().mean(1).detach()
    return pairwise(current, target.unsqueeze(1), weight, total=False), error, values


def qrdqn(model: Any, policy: Any, samples: Any, weight: Tensor, entropy: Any) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        quantiles = policy.quantile_net_target(samples.next_observations)
        best = quantiles.mean(1, keepdim=True).argmax(2, keepdim=True).expand(-1, quantiles.shape[1], 1)
        target = bootstrap(model, samples, quantiles.gather(2, best).squeeze(2))
    output = policy.quantile_net(samples.observations)
    actions = samples.actions[..., None].expand(-1, output.shape[1], 1)
    current = output.gather(2, actions).squeeze(2)
    error = (current.mean(1) - target.mean(1)).abs().detach()
    return pairwise(current, target, weight, total=True), error, output.mean(1)


TWINS: dict[str, Callable[..., tuple[Tensor, Tensor, Tensor]]] = {
    "SAC": sac, "TD3": td3, "DQN": dqn, "TQC": tqc, "QRDQN": qrdqn,
}  # fmt: skip


def actor_loss(name: str, policy: Any, samples: Any, entropy: Any) -> Tensor:
    """The actor's loss on a copy of the policy (in which the critic has already moved), after the same draws."""
    if name == "TD3":
        return -policy.critic.q1_forward(samples.observations, policy.actor(samples.observations)).mean()
    actions, log_prob = policy.actor.action_log_prob(samples.observations)
    q = policy.critic(samples.observations, actions)
    value = torch.cat(q, 1).amin(1, keepdim=True) if name == "SAC" else q.mean(2).mean(1, keepdim=True)
    return (entropy * log_prob.reshape(-1, 1) - value).mean()
