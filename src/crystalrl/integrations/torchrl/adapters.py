"""What must be known of each TorchRL loss: which part is the critic's, what is anchored, how it tells the TD error."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from crystalrl.integrations.anchors import gaussian_pull, squared_pull
from crystalrl.integrations.torchrl.hearing import Ear, hearing
from crystalrl.types import Anchor


class Learner:
    """One loss module."""

    critic: ClassVar[str] = "loss_qvalue"
    """Name of its critic's loss."""
    anchors: ClassVar[int] = 2
    """How many outputs are anchored."""
    pass_: ClassVar[str]
    """Its method that runs the critics, and whether that wants the batch once for each of them."""
    expands: ClassVar[bool] = False

    def __init__(self, loss: Any) -> None:
        self.loss = loss

    @property
    def observations(self) -> list[Any]:
        """Keys of the observation."""
        return list(self.loss.actor_network.in_keys)

    def forward(self, batch: Any) -> tuple[Any, dict[str, Tensor]]:
        """What the loss says, and what anchors hold, as `outputs`: overheard, so that it costs no pass of its own.

        A subclass may compute anything on its way; there the networks run again.
        """
        own = type(self.loss).__module__.startswith("torchrl.")
        with hearing(self.ears(batch) if own else []) as heard:
            out = self.loss(batch)
        return out, heard if len(heard) == self.anchors else self.outputs(batch)

    def ears(self, batch: Any) -> list[Ear]:
        """Where the loss computes its outputs: its critics at the stored actions and, in a subclass, its policy."""
        loss = self.loss
        return [Ear(loss, self.pass_, "q", lambda _, params: params is loss.qvalue_network_params, self.twins)]

    def outputs(self, batch: Any) -> dict[str, Tensor]:
        """What anchors hold: values `q` [B, n] and, where there is one, the policy [B, …]."""
        policy = self.policy(batch)
        return {"q": self.values(batch), **({} if policy is None else {"policy": policy})}

    def values(self, batch: Any) -> Tensor:
        """Anchored values [B, n]: each critic at the stored action."""
        loss = self.loss
        read = batch.select(*loss.qvalue_network.in_keys)
        if self.expands:
            read = read.expand(loss.num_qvalue_nets, *read.batch_size)
        return self.twins(getattr(loss, self.pass_)(read, loss.qvalue_network_params))

    def twins(self, read: Any) -> Tensor:
        values: Tensor = read.get(self.loss.tensor_keys.state_action_value).squeeze(-1).T
        return values

    def policy(self, batch: Any) -> Tensor | None:
        """What of the policy is anchored, [B, …]; None: there is none."""
        return None

    def pull(self, anchor: Anchor, output: Tensor) -> Tensor:
        """Loss of the policy's anchor."""
        return squared_pull(anchor, output)

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        """|δ| [B], the mean over twins, from what the loss has written."""
        raise NotImplementedError

    def actions(self, batch: Any) -> int | None:
        """Number of discrete actions; None for a box."""
        return None

    def action(self, batch: Any) -> Tensor:
        action: Tensor = batch.get(self.loss.tensor_keys.action)
        return action


class DQN(Learner):
    critic: ClassVar[str] = "loss"
    anchors: ClassVar[int] = 1

    @property
    def observations(self) -> list[Any]:
        return list(self.loss.value_network.in_keys)

    def ears(self, batch: Any) -> list[Ear]:
        """The first pass is that of the stored observations."""
        return [Ear(self.loss.value_network, "forward", "q", lambda *_: True, self.all_actions)]

    def values(self, batch: Any) -> Tensor:
        """[B, A]: of all actions."""
        loss = self.loss
        with loss.value_network_params.to_module(loss.value_network, preserve_module_state=False):
            return self.all_actions(loss.value_network(batch.select(*loss.value_network.in_keys)))

    def all_actions(self, read: Any) -> Tensor:
        values: Tensor = read.get(self.loss.tensor_keys.action_value)
        return values

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        """DQNLoss writes δ²."""
        squared: Tensor = batch.get(self.loss.tensor_keys.priority)
        return squared.reshape(len(values)).sqrt()

    def actions(self, batch: Any) -> int:
        return self.values(batch).shape[-1]

    def action(self, batch: Any) -> Tensor:
        action = super().action(batch)
        return action.reshape(len(action)) if self.loss.action_space == "categorical" else action.long().argmax(-1)


class SAC(Learner):
    pass_: ClassVar[str] = "_vmap_qnetworkN0"

    def ears(self, batch: Any) -> list[Ear]:
        """It asks its policy about the batch itself, and about what comes next."""
        actor = Ear(self.loss.actor_network, "get_dist", "policy", lambda given: given is batch, self.law)
        return [*super().ears(batch), actor]

    def policy(self, batch: Any) -> Tensor:
        """Mean and log σ before tanh, [B, 2A]."""
        loss = self.loss
        with loss.actor_network_params.to_module(loss.actor_network, preserve_module_state=False):
            return self.law(loss.actor_network.get_dist(batch.select(*loss.actor_network.in_keys)))

    def law(self, law: Any) -> Tensor:
        return torch.cat([law.loc, law.scale.log()], -1)

    def pull(self, anchor: Anchor, output: Tensor) -> Tensor:
        return gaussian_pull(anchor, *output.chunk(2, -1))

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        """SACLoss writes the larger |δ| of the twins. The target lies so far from the farther twin, on its other side
        or on this one; either way the nearer twin errs by |that − the gap between the twins|.
        """
        larger: Tensor = batch.get(self.loss.tensor_keys.priority).reshape(len(values))
        gap = (values.amax(1) - values.amin(1)).detach()
        return larger if values.shape[1] == 1 else (larger + (larger - gap).abs()) / 2


class TD3(Learner):
    pass_: ClassVar[str] = "_vmap_qvalue_network00"
    expands: ClassVar[bool] = True

    def ears(self, batch: Any) -> list[Ear]:
        """The actor's loss comes first."""
        actor = Ear(self.loss.actor_network, "forward", "policy", lambda *_: True, self.action)
        return [*super().ears(batch), actor]

    def policy(self, batch: Any) -> Tensor:
        """The action, [B, A]."""
        loss = self.loss
        with loss.actor_network_params.to_module(loss.actor_network, preserve_module_state=False):
            return self.action(loss.actor_network(batch.select(*loss.actor_network.in_keys)))

    def error(self, batch: Any, out: Any, values: Tensor) -> Tensor:
        error: Tensor = (out.get("pred_value") - out.get("target_value")).abs().mean(0)
        return error


LEARNERS: dict[str, type[Learner]] = {"DQNLoss": DQN, "SACLoss": SAC, "TD3Loss": TD3}
"""By name of the class in TorchRL; a subclass counts as what it is made from."""


def learner_of(loss: Any) -> Learner:
    """How to look at a loss module; an error if it has parts that we do not know."""
    for kind in type(loss).__mro__:
        if kind.__name__ in LEARNERS:
            break
    else:
        raise TypeError(f"loss: wanted one of {', '.join(LEARNERS)} or a subclass, got {type(loss).__name__}")
    if kind.__name__ == "SACLoss" and loss._version != 2:
        raise ValueError("loss: wanted SACLoss without a value network, got one with it")
    if getattr(loss, "num_qvalue_nets", 2) > 2:
        raise ValueError(f"num_qvalue_nets: wanted 1 or 2, got {loss.num_qvalue_nets}")
    if getattr(loss, "action_space", None) not in (None, "categorical", "one_hot", "one-hot"):
        raise ValueError(f"action_space: wanted categorical or one-hot actions, got {loss.action_space}")
    return LEARNERS[kind.__name__](loss)
