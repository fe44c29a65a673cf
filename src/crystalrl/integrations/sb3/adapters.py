"""What the hooks need to know about each algorithm: its critic, what is anchored, how its gradient gives the TD error.

`evaluate` computes the algorithm's own TD target; a test compares it with the gradient that the algorithm computes.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from crystalrl.integrations._common import private_randomness
from crystalrl.losses import advantages
from crystalrl.types import Evaluation

ErrorKind = Literal["exact", "clipped", "none"]
LOG_STD = (-20.0, 2.0)
"""Range to which SB3 clamps the logarithm of the policy's standard deviation."""


class Adapter:
    """One algorithm of SB3."""

    error: ClassVar[ErrorKind] = "none"
    """What `scale` · B · |gradient at the critic's output| is: |δ| ("exact"), |δ| up to 1 ("clipped", a Huber loss), or
    unrelated to |δ| ("none", a quantile loss)."""
    scale: ClassVar[float] = 1.0

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def critic(self) -> nn.Module:
        """The module whose output the loss is computed from."""
        raise NotImplementedError

    def anchors(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the anchored outputs."""
        raise NotImplementedError

    def evaluate(self, samples: Any) -> Evaluation:
        """TD errors [B] and anchored outputs."""
        raise NotImplementedError

    def values(self, output: Any) -> Tensor:
        """Values [B, n] of the critic's output."""
        raise NotImplementedError

    def output_gradient(self, pull: Tensor, output: Tensor) -> Tensor:
        """Gradient with respect to the output, from the gradient [B, n] with respect to anchored `values`."""
        raise NotImplementedError

    def bootstrap(self, samples: Any, next_value: Tensor) -> Tensor:
        """Target [B, 1] from the value [B, 1] of the next state."""
        discount = self.model.gamma if samples.discounts is None else samples.discounts
        target: Tensor = samples.rewards + (1 - samples.dones) * discount * next_value
        return target


class DQN(Adapter):
    error: ClassVar[ErrorKind] = "clipped"

    @property
    def critic(self) -> nn.Module:
        return self._module("q_net")

    def _module(self, name: str) -> nn.Module:
        module: nn.Module = getattr(self.model, name)
        return module

    def anchors(self) -> dict[str, tuple[int, ...]]:
        return {"advantage": (int(self.model.action_space.n),)}

    def evaluate(self, samples: Any) -> Evaluation:
        next_value = self.values(self.target(samples.next_observations)).amax(1, keepdim=True)
        q = self.values(self.critic(samples.observations))
        error = self.bootstrap(samples, next_value) - q.gather(1, samples.actions.long())
        return Evaluation(error[:, 0], {"advantage": advantages(q)})

    @property
    def target(self) -> nn.Module:
        return self._module("q_net_target")

    def values(self, output: Any) -> Tensor:
        q: Tensor = output
        return q

    def output_gradient(self, pull: Tensor, output: Tensor) -> Tensor:
        return pull


class QRDQN(DQN):
    """Quantiles [B, K, A]. Anchors and TD error use their means."""

    error = "none"

    @property
    def critic(self) -> nn.Module:
        return self._module("quantile_net")

    @property
    def target(self) -> nn.Module:
        return self._module("quantile_net_target")

    def values(self, output: Any) -> Tensor:
        mean: Tensor = output.mean(1)
        return mean

    def output_gradient(self, pull: Tensor, output: Tensor) -> Tensor:
        return (pull / output.shape[1]).unsqueeze(1).expand_as(output)


class ActorCritic(Adapter):
    """Twin critics, [B, 1] each. The TD error is the mean of their |δ|."""

    error: ClassVar[ErrorKind] = "exact"

    @property
    def critic(self) -> nn.Module:
        critic: nn.Module = self.model.critic
        return critic

    gaussian: ClassVar[bool] = False
    """Whether the actor outputs mean and log σ."""

    def anchors(self) -> dict[str, tuple[int, ...]]:
        """Of the policy only: the critics keep learning from everything that is replayed."""
        return {"policy": ((1 + self.gaussian) * math.prod(self.model.action_space.shape),)}

    def evaluate(self, samples: Any) -> Evaluation:
        with private_randomness(samples.rewards.device):
            next_value = self.next_value(samples)
        q = self.values(self.critic(samples.observations, samples.actions))
        error = (self.bootstrap(samples, next_value) - q).abs().mean(1)
        policy = self.policy(samples.observations)
        best = self.values(self.critic(samples.observations, self.greedy(policy)))
        return Evaluation(error, {"policy": policy}, (best - q).mean(1))

    def greedy(self, policy: Tensor) -> Tensor:
        """The action [B, A] that the policy prefers, from its anchored output."""
        return policy.chunk(2, 1)[0].tanh() if self.gaussian else policy

    def next_value(self, samples: Any) -> Tensor:
        raise NotImplementedError

    def policy(self, observations: Any) -> Tensor:
        """Anchored output of the policy: mean and log σ [B, 2A], or the action [B, A]."""
        raise NotImplementedError

    def values(self, output: Any) -> Tensor:
        return torch.cat(output, 1)


class SAC(ActorCritic):
    gaussian = True

    def next_value(self, samples: Any) -> Tensor:
        actions, log_prob = self.model.actor.action_log_prob(samples.next_observations)
        value = self.pessimistic(self.model.critic_target(samples.next_observations, actions))
        soft: Tensor = value - self.temperature * log_prob.reshape(-1, 1)
        return soft

    def pessimistic(self, output: Any) -> Tensor:
        """Value [B, 1] of the next state that the algorithm forms from the output of its target critics."""
        return torch.cat(output, 1).amin(1, keepdim=True)

    @property
    def temperature(self) -> Tensor:
        model = self.model
        entropy: Tensor = model.ent_coef_tensor if model.ent_coef_optimizer is None else model.log_ent_coef.exp()
        return entropy

    def policy(self, observations: Any) -> Tensor:
        mean, log_std, _ = self.model.actor.get_action_dist_params(observations)
        return torch.cat([mean, log_std], 1)


class TQC(SAC):
    """Quantiles [B, C, K] of C critics. The TD error uses each critic's mean."""

    error = "none"

    def pessimistic(self, output: Any) -> Tensor:
        critic = self.model.critic
        kept = critic.quantiles_total - self.model.top_quantiles_to_drop_per_net * critic.n_critics
        mean: Tensor = output.flatten(1).sort(1).values[:, :kept].mean(1, keepdim=True)
        return mean

    def values(self, output: Any) -> Tensor:
        mean: Tensor = output.mean(2)
        return mean


class TD3(ActorCritic):
    scale = 0.5  # the loss is the squared error, not half of it

    def next_value(self, samples: Any) -> Tensor:
        model = self.model
        noise = torch.randn_like(samples.actions) * model.target_policy_noise
        noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
        actions = (model.actor_target(samples.next_observations) + noise).clamp(-1, 1)
        return torch.cat(model.critic_target(samples.next_observations, actions), 1).amin(1, keepdim=True)

    def policy(self, observations: Any) -> Tensor:
        action: Tensor = self.model.actor(observations)
        return action


ADAPTERS: dict[str, type[Adapter]] = {"SAC": SAC, "TD3": TD3, "DQN": DQN, "TQC": TQC, "QRDQN": QRDQN}
"""By the name of the class in SB3 or sb3-contrib; a subclass uses the adapter of its base (DDPG that of TD3)."""


def adapter_for(model: Any) -> Adapter:
    """The adapter of a model; TypeError for an unknown algorithm."""
    for kind in type(model).__mro__:
        if kind.__name__ in ADAPTERS:
            return ADAPTERS[kind.__name__](model)
    raise TypeError(f"model: wanted one of {', '.join(ADAPTERS)} or a subclass, got {type(model).__name__}")
