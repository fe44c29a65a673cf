"""What is known about each algorithm of Tianshou: its critics, what is anchored, how to compute the TD error.

Tianshou itself multiplies its critics' losses by `batch.weight`. Forward hooks add the gradients of the anchor losses;
they recognise the replayed batch by the identity of its array of observations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from crystalrl.integrations.anchors import advantage_pull, gaussian_pull, pull_gradients
from crystalrl.losses import advantages
from crystalrl.types import Anchor, Batch, Evaluation


class Adapter:
    """One algorithm and the hooks on its networks. Invariant: hooks act only on the batch that was armed last.

    A copied network (deepcopy, pickle) gets hooks without a batch, which do nothing and do not copy the memory.
    """

    anchored: ClassVar[str]
    """Name of the anchored output: what the agent acts by."""

    def __init__(self, algorithm: Any = None) -> None:
        self.algorithm = algorithm
        self.samples: Any = None
        self.batch: Batch | None = None
        self.values: list[Tensor] = []
        """Values [B] or [B, A] of the armed batch, one tensor per critic."""
        hooks = [] if algorithm is None else self.hooks()
        self.handles = [module.register_forward_hook(hook) for module, hook in hooks]

    def __reduce__(self) -> Any:
        return type(self), ()

    def hooks(self) -> list[tuple[nn.Module, Callable[..., None]]]:
        """Networks and their forward hooks."""
        raise NotImplementedError

    def outputs(self, samples: Any) -> dict[str, Tensor]:
        """Values `q` [B, n], and the anchored output."""
        raise NotImplementedError

    def errors(self, samples: Any, values: list[Tensor]) -> Tensor:
        """|δ| [B], the mean over twins."""
        raise NotImplementedError

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def arm(self, batch: Batch, samples: Any) -> None:
        """Apply the anchors of this batch in the next forward passes over these samples."""
        self.batch, self.samples, self.values = batch, samples, []

    def _anchor(self, name: str) -> Anchor | None:
        return None if self.batch is None or self.batch.anchor is None else self.batch.anchor.get(name)

    def _armed(self, inputs: tuple[Any, ...]) -> bool:
        """Whether a network was called on the armed batch with gradients. If a dict observation holds `obs` and an
        action mask, DQN passes only `obs` to its network.
        """
        if self.batch is None or not torch.is_grad_enabled():
            return False
        obs = self.samples.obs
        return inputs[0] is obs or inputs[0] is getattr(obs, "obs", None)

    def td_errors(self) -> Tensor:
        """|δ| [B] of the armed batch, after the critics were trained on it."""
        if not self.values:
            raise RuntimeError(
                "the critic was trained on other arrays than sample() returned, so anchors were lost: wanted the "
                f"update of Tianshou, got {type(self.algorithm).__name__}.update of another kind"
            )
        return self.errors(self.samples, self.values)

    def evaluate(self, samples: Any, buffer: Any, slots: Any) -> Evaluation:
        """Current TD errors and outputs."""
        samples = self.algorithm._preprocess_batch(samples, buffer, slots)
        outputs = self.outputs(samples)
        return Evaluation(self.errors(samples, self.split(outputs["q"])), outputs, self.stake(samples, outputs))

    def stake(self, samples: Any, outputs: dict[str, Tensor]) -> Tensor | None:
        """How much value the choice of the action decides, [B]; None without a policy."""
        return None

    def split(self, values: Tensor) -> list[Tensor]:
        """Values [B, n] as one tensor per critic."""
        return list(values.unbind(1))


def _adding(pull: Tensor) -> Callable[[Tensor], Tensor]:
    """A hook that adds `pull` to a gradient."""
    return lambda gradient: gradient + pull.reshape(gradient.shape)


class DQN(Adapter):
    """Advantages, the differences between the values of actions, are anchored."""

    anchored = "advantage"

    def hooks(self) -> list[tuple[nn.Module, Callable[..., None]]]:
        return [(self.algorithm.policy.model, self.on_model)]

    def on_model(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not self._armed(inputs):
            return
        q = output[0]
        self.values.append(q.detach())
        anchor = self._anchor("advantage")
        if anchor is not None:
            q.register_hook(_adding(pull_gradients(advantage_pull, anchor, q)[0]))

    def outputs(self, samples: Any) -> dict[str, Tensor]:
        q = self.algorithm.policy(samples).logits
        return {"q": q, "advantage": advantages(q)}

    def errors(self, samples: Any, values: list[Tensor]) -> Tensor:
        q = values[0]
        action = torch.as_tensor(samples.act, device=q.device).long()
        return (torch.as_tensor(samples.returns).flatten() - q.gather(1, action[:, None])[:, 0]).abs()

    def split(self, values: Tensor) -> list[Tensor]:
        return [values]


class SAC(Adapter):
    """Mean and log σ of the policy before tanh are anchored."""

    anchored = "policy"

    def hooks(self) -> list[tuple[nn.Module, Callable[..., None]]]:
        critics = (self.algorithm.critic, self.algorithm.critic2)
        return [*((critic, self.on_critic) for critic in critics), (self.algorithm.policy.actor, self.on_actor)]

    def on_critic(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if self._armed(inputs) and inputs[1] is self.samples.act:
            self.values.append(output.detach().flatten())

    def on_actor(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        anchor = self._anchor("policy")
        if anchor is None or not self._armed(inputs):
            return
        mean, deviation = output[0]
        for part, pull in zip((mean, deviation), pull_gradients(_gaussian_pull, anchor, mean, deviation), strict=True):
            part.register_hook(_adding(pull))

    def outputs(self, samples: Any) -> dict[str, Tensor]:
        (mean, deviation), _ = self.algorithm.policy.actor(samples.obs)
        return {"q": self.both(samples, samples.act), "policy": torch.cat([mean, deviation.log()], 1)}

    def both(self, samples: Any, action: Any) -> Tensor:
        """Values [B, 2] of the critics."""
        critics = (self.algorithm.critic, self.algorithm.critic2)
        return torch.stack([critic(samples.obs, action).flatten() for critic in critics], 1)

    def stake(self, samples: Any, outputs: dict[str, Tensor]) -> Tensor:
        best = self.both(samples, outputs["policy"].chunk(2, 1)[0].tanh())
        return (best - outputs["q"]).mean(1)

    def errors(self, samples: Any, values: list[Tensor]) -> Tensor:
        """The mean of the twins' |δ|; Tianshou's own is the mean of their signed errors, which may cancel."""
        return (torch.stack(values) - torch.as_tensor(samples.returns).flatten()).abs().mean(0)


def _gaussian_pull(anchor: Anchor, mean: Tensor, deviation: Tensor) -> Tensor:
    return gaussian_pull(anchor, mean, deviation.log())


ADAPTERS: dict[str, type[Adapter]] = {"DQN": DQN, "SAC": SAC}
"""By the name of the class in Tianshou; a subclass uses the adapter of its base."""


def adapter_for(algorithm: Any) -> Adapter:
    """The adapter of an algorithm; an error if it is unknown or would ignore the weights."""
    for kind in type(algorithm).__mro__:
        if kind.__name__ in ADAPTERS:
            break
    else:
        raise TypeError(f"algorithm: wanted one of {', '.join(ADAPTERS)} or a subclass, got {type(algorithm).__name__}")
    if getattr(algorithm, "huber_loss_delta", None) is not None:
        raise ValueError("huber_loss_delta: wanted None, since Tianshou's Huber loss ignores the weights, got one")
    return ADAPTERS[kind.__name__](algorithm)
