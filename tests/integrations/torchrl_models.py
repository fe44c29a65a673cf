"""Small TorchRL losses and buffers for the tests, and explicit losses that they must equal."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.tensor_specs import Bounded
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import DQNLoss, SACLoss, SoftUpdate, TD3Loss

from crystalrl import CrystalParams
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss
from tests.experience import bhattacharyya
from tests.integrations.twins import QUICK

D, A, GAMMA = 3, 2, 0.9
LOSSES = ("DQN", "SAC", "TD3")
NO_ANCHORS = CrystalParams.anchored(**QUICK | {"settle": None}, kappa=0.0)
ANCHORS = CrystalParams.anchored(**QUICK, kappa=0.7, practice=0)


def mlp(inputs: int, outputs: int) -> MLP:
    return MLP(in_features=inputs, out_features=outputs, num_cells=[16, 16])


def loss_module(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    if name == "DQN":
        network = QValueActor(mlp(D, A), in_keys=["observation"], action_space="categorical")
        loss = DQNLoss(network, action_space="categorical", delay_value=True, **options)
    else:
        critic = ValueOperator(mlp(D + A, 1), in_keys=["observation", "action"])
        spec = Bounded(-1, 1, (A,))
        if name == "SAC":
            inner = TensorDictModule(
                nn.Sequential(mlp(D, 2 * A), NormalParamExtractor()), ["observation"], ["loc", "scale"]
            )
            actor = ProbabilisticActor(
                inner, in_keys=["loc", "scale"], spec=spec, distribution_class=TanhNormal, return_log_prob=False
            )
            loss = SACLoss(actor, critic, action_spec=spec, **options)
            assert loss.target_entropy  # a buffer of the state dict once it is asked for
        else:
            actor = TensorDictSequential(
                TensorDictModule(nn.Sequential(mlp(D, A), nn.Tanh()), ["observation"], ["action"])
            )
            loss = TD3Loss(actor, critic, action_spec=spec, policy_noise=0.0, **options)
    loss.make_value_estimator(gamma=GAMMA)
    SoftUpdate(loss, eps=0.99)  # TorchRL warns without
    return loss


def data(name: str, size: int, seed: int = 0) -> TensorDict:
    """Random experiences."""
    g = torch.Generator().manual_seed(seed)
    action = torch.randint(A, (size,), generator=g) if name == "DQN" else torch.rand(size, A, generator=g) * 2 - 1
    ends = torch.rand(size, 2, 1, generator=g) < 0.1
    following = {
        "observation": torch.randn(size, D, generator=g),
        "reward": torch.randn(size, 1, generator=g),
        "terminated": ends[:, 0],
        "done": ends[:, 0] | ends[:, 1],
    }
    return TensorDict(
        {"observation": torch.randn(size, D, generator=g), "action": action, "next": TensorDict(following, [size])},
        [size],
    )


def make(name: str, params: CrystalParams | None = None, slots: int = 300, **options: Any) -> tuple[Any, Any, Any]:
    """Loss, sampler, buffer."""
    loss = MemoryLoss(loss_module(name, **options))
    sampler = CrystalSampler(loss, params or ANCHORS, seed=3)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(slots), sampler=sampler, writer=sampler.writer, batch_size=32
    )
    return loss, sampler, buffer


def trained(name: str, params: CrystalParams | None = None, rounds: int = 6, **options: Any) -> tuple[Any, Any, Any]:
    """After a few rounds of new data, gradient steps and consolidations."""
    loss, sampler, buffer = made = make(name, params, **options)
    optimiser = torch.optim.Adam([p for p in loss.parameters() if p.requires_grad], lr=1e-3)
    torch.manual_seed(1)
    for k in range(rounds):
        buffer.extend(data(name, 50, k))
        for _ in range(10):
            sum(loss(buffer.sample()).values()).backward()
            optimiser.step()
            optimiser.zero_grad()
        if sampler.due:
            sampler.consolidate()
    return made


def network(module: Any, params: Any, read: TensorDict) -> TensorDict:
    with params.to_module(module, preserve_module_state=False):
        return module(read.clone(False))


def critics(loss: Any, params: Any, observation: Tensor, action: Tensor) -> Tensor:
    """[2, B]: one critic after the other."""
    read = TensorDict({"observation": observation, "action": action}, [len(action)])
    outputs = [network(loss.qvalue_network, params[i], read) for i in range(2)]
    return torch.stack([out["state_action_value"][:, 0] for out in outputs])


def policy(loss: Any, params: Any, observation: Tensor) -> Any:
    """The distribution of actions (SAC), or the action (TD3)."""
    read = TensorDict({"observation": observation}, [len(observation)])
    if isinstance(loss, TD3Loss):
        return network(loss.actor_network, params, read)["action"]
    with params.to_module(loss.actor_network, preserve_module_state=False):
        return loss.actor_network.get_dist(read)


def explicit(name: str, loss: Any, batch: Any) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
    """Explicit losses, |δ| [B] and outputs, with the random numbers that TorchRL would draw."""
    weight, following = batch["memory", "weight"], batch["next"]
    reward, ongoing = following["reward"][:, 0], 1 - following["terminated"][:, 0].float()
    obs, after = batch["observation"], following["observation"]
    if name == "DQN":
        q = network(loss.value_network, loss.value_network_params, batch.select("observation"))["action_value"]
        read = TensorDict({"observation": after}, [len(after)])
        best = network(loss.value_network, loss.target_value_network_params, read)["action_value"].amax(1)
        target = (reward + GAMMA * ongoing * best).detach()
        error = q.gather(1, batch["action"][:, None])[:, 0] - target
        return (
            {"loss": (weight * error**2).mean()},
            error.abs().detach(),
            {"q": q, "advantage": q - q.mean(1, keepdim=True)},
        )
    params, actor = loss.qvalue_network_params, loss.actor_network_params
    q = critics(loss, params, obs, batch["action"])
    with torch.no_grad():
        if name == "SAC":
            law = policy(loss, actor, after)
            action = law.rsample()
            soft = loss._alpha * law.log_prob(action)
        else:
            action, soft = policy(loss, loss.target_actor_network_params, after), 0.0
        target = reward + GAMMA * ongoing * (
            critics(loss, loss.target_qvalue_network_params, after, action).amin(0) - soft
        )
    error = (q - target).abs()
    losses = {
        "loss_qvalue": (weight * functional.smooth_l1_loss(q, target.expand_as(q), reduction="none").sum(0)).mean()
    }
    fixed = params.detach()
    if name == "SAC":
        law = policy(loss, actor, obs)
        action = law.rsample()
        log_prob = law.log_prob(action)
        losses["loss_actor"] = (loss._alpha * log_prob - critics(loss, fixed, obs, action).amin(0)).mean()
        losses["loss_alpha"] = (-loss.log_alpha * (log_prob + loss.target_entropy).detach()).mean()
        anchored = torch.cat([law.loc, law.scale.log()], -1)
    else:
        anchored = policy(loss, actor, obs)
        losses["loss_actor"] = -critics(loss, fixed, obs, anchored)[0].mean()
    return losses, error.mean(0).detach(), {"q": q.T, "policy": anchored}


def pull(name: str, key: str, batch: Any, output: Tensor) -> Tensor:
    """The explicit loss of an anchor."""
    target, strength = batch["memory", key], batch["memory", f"{key}_strength"]
    if name == "SAC" and key == "policy":
        (old_mean, old_log), (mean, log) = target.chunk(2, -1), output.chunk(2, -1)
        apart = bhattacharyya(Normal(old_mean, old_log.exp()), Normal(mean, log.exp())).sum(-1)
    else:
        apart = ((output - target) ** 2).sum(-1)
    return (strength * apart).mean()
