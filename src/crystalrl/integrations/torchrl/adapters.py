"""What is known about each TorchRL loss: which part is the critic's, what is anchored, how it gives the TD error."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from crystalrl.integrations.anchors import gaussian_pull, squared_pull
from crystalrl.integrations.torchrl.taps import Tap, capturing
from crystalrl.losses import advantages
from crystalrl.types import Anchor


class Adapter:
    """One loss module of TorchRL."""

    critic_loss: ClassVar[str] = "loss_qvalue"
    """Name of the critic's loss."""
    critic_method: ClassVar[str]
    """Method of the loss that runs the critics."""
    expands: ClassVar[bool] = False
    """Whether `critic_method` takes one copy of the batch for each critic."""
    anchored: ClassVar[str] = "policy"
    """Name of the anchored output: what the agent acts by."""
    captured: ClassVar[frozenset[str]] = frozenset({"q", "policy"})
    """Outputs that `taps` capture."""

    def __init__(self, loss: Any) -> None:
        self.loss = loss

    @property
    def observation_keys(self) -> list[Any]:
        return list(self.loss.actor_network.in_keys)

    def forward(self, batch: Any) -> tuple[Any, dict[str, Tensor]]:
        """What the loss returns, and the `outputs`, captured while it computes them.

        A subclass of a TorchRL loss may compute anything, so there the networks run again.
        """
        known = type(self.loss).__module__.startswith("torchrl.")
        with capturing(self.taps(batch) if known else []) as captured:
            out = self.loss(batch)
        return out, captured if captured.keys() >= self.captured else self.outputs(batch)

    def taps(self, batch: Any) -> list[Tap]:
        """Where the loss computes its outputs: its critics at the stored actions and, in a subclass, its policy."""
        loss = self.loss

        def trained(_: Any, params: Any) -> bool:
            return params is loss.qvalue_network_params

        return [Tap(loss, self.critic_method, "q", trained, self.critic_values)]

    def outputs(self, batch: Any) -> dict[str, Tensor]:
        """Values `q` [B, n], and the anchored output."""
        policy = self.policy(batch)
        return {"q": self.values(batch), **({} if policy is None else {"policy": policy})}

    def values(self, batch: Any) -> Tensor:
        """Values [B, n]: each critic at the stored action."""
        loss = self.loss
        inputs = batch.select(*loss.qvalue_network.in_keys)
        if self.expands:
            inputs = inputs.expand(loss.num_qvalue_nets, *inputs.batch_size)
        return self.critic_values(getattr(loss, self.critic_method)(inputs, loss.qvalue_network_params))

    def critic_values(self, result: Any) -> Tensor:
        """[B, n] from a result of `critic_method`."""
        values: Tensor = result.get(self.loss.tensor_keys.state_action_value).squeeze(-1).T
        return values

    def policy(self, batch: Any) -> Tensor | None:
        """Anchored output of the policy, [B, …]; None: there is no policy."""
        return None

    def greedy(self, batch: Any) -> Tensor | None:
        """The action [B, A] that the policy prefers; None: there is no policy."""
        return None

    def stake(self, batch: Any, values: Tensor) -> Tensor | None:
        """How much value the choice of the action decides, [B]; values [B, n] are those of the stored actions."""
        action = self.greedy(batch)
        if action is None:
            return None
        return (self.values(batch.clone(False).set(self.loss.tensor_keys.action, action)) - values).mean(1)

    def pull(self, anchor: Anchor, output: Tensor) -> Tensor:
        """Loss of the policy's anchor."""
        return squared_pull(anchor, output)

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        """|δ| [B], the mean over twins, from what the loss has written or returned."""
        raise NotImplementedError

    def actions(self, batch: Any) -> int | None:
        """Number of discrete actions; None for a box."""
        return None

    def action(self, batch: Any) -> Tensor:
        action: Tensor = batch.get(self.loss.tensor_keys.action)
        return action


class DQN(Adapter):
    critic_loss: ClassVar[str] = "loss"
    anchored: ClassVar[str] = "advantage"
    captured: ClassVar[frozenset[str]] = frozenset({"q"})

    @property
    def observation_keys(self) -> list[Any]:
        return list(self.loss.value_network.in_keys)

    def taps(self, batch: Any) -> list[Tap]:
        """The network's first pass is over the stored observations."""
        return [Tap(self.loss.value_network, "forward", "q", lambda *_: True, self.all_actions)]

    def forward(self, batch: Any) -> tuple[Any, dict[str, Tensor]]:
        out, outputs = super().forward(batch)
        return out, {**outputs, "advantage": advantages(outputs["q"])}

    def outputs(self, batch: Any) -> dict[str, Tensor]:
        q = self.values(batch)
        return {"q": q, "advantage": advantages(q)}

    def values(self, batch: Any) -> Tensor:
        """[B, A]: values of all actions."""
        loss = self.loss
        with loss.value_network_params.to_module(loss.value_network, preserve_module_state=False):
            return self.all_actions(loss.value_network(batch.select(*loss.value_network.in_keys)))

    def all_actions(self, result: Any) -> Tensor:
        values: Tensor = result.get(self.loss.tensor_keys.action_value)
        return values

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        """DQNLoss writes δ² into the batch."""
        squared: Tensor = batch.get(self.loss.tensor_keys.priority)
        return squared.reshape(len(values)).sqrt()

    def actions(self, batch: Any) -> int:
        return self.values(batch).shape[-1]

    def action(self, batch: Any) -> Tensor:
        action = super().action(batch)
        return action.reshape(len(action)) if self.loss.action_space == "categorical" else action.long().argmax(-1)


class SAC(Adapter):
    critic_method: ClassVar[str] = "_vmap_qnetworkN0"

    def taps(self, batch: Any) -> list[Tap]:
        """The loss evaluates its policy on the batch itself and on the next states."""
        actor = Tap(self.loss.actor_network, "get_dist", "policy", lambda given: given is batch, self.mean_and_log_std)
        return [*super().taps(batch), actor]

    def policy(self, batch: Any) -> Tensor:
        loss = self.loss
        with loss.actor_network_params.to_module(loss.actor_network, preserve_module_state=False):
            return self.mean_and_log_std(loss.actor_network.get_dist(batch.select(*loss.actor_network.in_keys)))

    def mean_and_log_std(self, distribution: Any) -> Tensor:
        """Mean and log σ before tanh, [B, 2A]."""
        return torch.cat([distribution.loc, distribution.scale.log()], -1)

    def greedy(self, batch: Any) -> Tensor:
        loss = self.loss
        with loss.actor_network_params.to_module(loss.actor_network, preserve_module_state=False):
            action: Tensor = loss.actor_network.get_dist(batch).deterministic_sample
        return action

    def pull(self, anchor: Anchor, output: Tensor) -> Tensor:
        return gaussian_pull(anchor, *output.chunk(2, -1))

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        """SACLoss writes the larger |δ| of the twins. The target is that far from the farther twin, on either side; so
        the nearer twin's |δ| is |larger − the gap between the twins|.
        """
        larger: Tensor = batch.get(self.loss.tensor_keys.priority).reshape(len(values))
        gap = (values.amax(1) - values.amin(1)).detach()
        return larger if values.shape[1] == 1 else (larger + (larger - gap).abs()) / 2


class TD3(Adapter):
    critic_method: ClassVar[str] = "_vmap_qvalue_network00"
    expands: ClassVar[bool] = True

    def taps(self, batch: Any) -> list[Tap]:
        """The actor's first pass, for its own loss, is over the stored observations."""
        actor = Tap(self.loss.actor_network, "forward", "policy", lambda *_: True, self.action)
        return [*super().taps(batch), actor]

    def policy(self, batch: Any) -> Tensor:
        """The action, [B, A]."""
        loss = self.loss
        with loss.actor_network_params.to_module(loss.actor_network, preserve_module_state=False):
            return self.action(loss.actor_network(batch.select(*loss.actor_network.in_keys)))

    def greedy(self, batch: Any) -> Tensor:
        return self.policy(batch)

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        error: Tensor = (out.get("pred_value") - out.get("target_value")).abs().mean(0)
        return error


ADAPTERS: dict[str, type[Adapter]] = {"DQNLoss": DQN, "SACLoss": SAC, "TD3Loss": TD3}
"""By the name of the class in TorchRL; a subclass uses the adapter of its base."""


def adapter_for(loss: Any) -> Adapter:
    """The adapter of a loss module; an error if the loss is unknown or has unknown parts."""
    for kind in type(loss).__mro__:
        if kind.__name__ in ADAPTERS:
            break
    else:
        raise TypeError(f"loss: wanted one of {', '.join(ADAPTERS)} or a subclass, got {type(loss).__name__}")
    if kind.__name__ == "SACLoss" and loss._version != 2:
        raise ValueError("loss: wanted SACLoss without a value network, got one with it")
    if getattr(loss, "num_qvalue_nets", 2) > 2:
        raise ValueError(f"num_qvalue_nets: wanted 1 or 2, got {loss.num_qvalue_nets}")
    if getattr(loss, "action_space", None) not in (None, "categorical", "one_hot", "one-hot"):
        raise ValueError(f"action_space: wanted categorical or one-hot actions, got {loss.action_space}")
    return ADAPTERS[kind.__name__](loss)
