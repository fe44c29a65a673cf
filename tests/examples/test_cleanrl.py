"""The single-file agents learn, and their losses are weighted and anchored correctly."""

from __future__ import annotations

import importlib
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.distributions import Normal

from crystalrl import Anchor, Batch, CrystalParams, Transition, load_memory
from tests.examples.conftest import EXAMPLES, RunHere
from tests.experience import bhattacharyya
from tests.integrations.gradients import difference, varied
from tests.integrations.twins import QUICK


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.mark.parametrize("name", ["cleanrl_dqn", "cleanrl_sac"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_short_run_ends_and_saves_its_memory(name: str, tmp_path: Path, run_here: RunHere) -> None:
    assert "mean return" in run_here(f"{name}.py", "--steps", "900", "--out", name)
    assert len(load_memory(tmp_path / name / "memory.safetensors")) > 800


@pytest.mark.parametrize("name", ["cleanrl_dqn", "cleanrl_sac"])
def test_a_seed_decides_everything(name: str, example: Any) -> None:
    file = example(name)
    one, two, other = (file.train(file.Args(steps=700, seed=seed)) for seed in (1000, 1000, 1001))
    assert one == two != other


def test_the_dqn_s_loss_equals_a_loop_over_the_samples(example: Any) -> None:
    dqn = example("cleanrl_dqn")
    size, generator = 12, torch.Generator().manual_seed(0)
    q = torch.randn(size, 2, generator=generator, requires_grad=True)
    error = torch.randn(size, generator=generator) * 2 - q[:, 0]
    weight, target, strength = (torch.rand(size, *s, generator=generator) for s in ((), (2,), ()))
    nothing = torch.zeros(size)
    held = {"advantage": Anchor(target, strength)}
    batch = Batch(nothing, nothing, nothing, nothing, nothing, weight, nothing, anchor=held)
    loss = torch.zeros(())
    for b in range(size):
        huber = error[b] ** 2 / 2 if abs(error[b]) <= 1 else abs(error[b]) - 0.5
        loss = loss + (weight[b] * huber + strength[b] * ((q[b] - q[b].mean() - target[b]) ** 2).sum()) / size
    ours, theirs = (torch.autograd.grad(x, q, retain_graph=True)[0] for x in (dqn.loss_of(q, error, batch), loss))
    assert float((ours - theirs).abs().max() / theirs.abs().max()) <= 1e-6


def test_the_sac_s_gradients_are_those_of_explicit_losses(example: Any) -> None:
    sac, env = example("cleanrl_sac"), gym.make("Pendulum-v1")
    args = sac.Args(capacity=400)
    torch.manual_seed(0)
    agent, memory = sac.Agent(args, env), sac.make_memory(args, env, CrystalParams.anchored(**QUICK, kappa=0.7))
    rng, drawn, found = np.random.default_rng(0), [], {}
    for k in range(300):
        obs, after = rng.normal(size=(2, 3)).astype(np.float32)
        action = rng.uniform(-2, 2, 1).astype(np.float32)
        memory.add(Transition(obs, action, float(rng.normal()), after, bool(rng.random() < 0.1)))
        if k > 64:
            agent.update(memory)
        if k > 64 and memory.due:
            memory.consolidate(agent.evaluate)
    twin, sample = deepcopy(agent), memory.sample
    memory.sample = lambda size: drawn.append(sample(size)) or drawn[0]

    def note(optimizer: Any, *_: Any) -> None:
        name = "actor" if optimizer is agent.actor_optimizer else "critics"
        found[name] = [p.grad.clone() for p in getattr(agent, name).parameters()]

    for optimizer in (agent.actor_optimizer, agent.critic_optimizer):
        optimizer.register_step_pre_hook(note)
    torch.manual_seed(3)
    agent.update(memory)
    (batch,) = drawn
    assert varied(batch.weight)
    assert float((batch.anchor["policy"].coefficient > 0).float().mean()) > 0.3

    def act(obs: Any) -> tuple[Any, Any, Any]:
        mean, log_std = twin.policy(obs)
        law = Normal(mean, log_std.exp())
        raw = law.rsample()
        inside = torch.log(2 * (1 - torch.tanh(raw) ** 2) + 1e-6)
        return 2 * torch.tanh(raw), (law.log_prob(raw) - inside).sum(-1), law

    def values(critics: Any, obs: Any, action: Any) -> Any:
        return torch.stack([critic(torch.cat([obs, action], 1))[:, 0] for critic in critics], 1)

    torch.manual_seed(3)
    temperature = float(twin.log_temperature.detach().exp())
    with torch.no_grad():
        action, log_prob, _ = act(batch.next_obs)
        soft = values(twin.targets, batch.next_obs, action).amin(1) - temperature * log_prob
        target = batch.reward + batch.discount * soft
    action, log_prob, law = act(batch.obs)
    q, (old_mean, old_log) = values(twin.critics, batch.obs, batch.action), batch.anchor["policy"].target.chunk(2, 1)
    critic = actor = torch.zeros(())
    best, apart = values(twin.critics, batch.obs, action).amin(1), bhattacharyya(Normal(old_mean, old_log.exp()), law)
    for b in range(args.batch_size):
        for k in range(2):
            critic = critic + batch.weight[b] * (target[b] - q[b, k]) ** 2 / 2 / args.batch_size
        pull = batch.anchor["policy"].coefficient[b] * apart[b].sum()
        actor = actor + (temperature * log_prob[b] - best[b] + pull) / args.batch_size
    for name, loss in (("critics", critic), ("actor", actor)):
        wanted = torch.autograd.grad(loss, list(getattr(twin, name).parameters()), retain_graph=True)
        assert difference(found[name], list(wanted)) <= 1e-6, name


def test_gymnasium_resets_in_the_step_after_the_end_of_an_episode(example: Any) -> None:
    """Both files rely on it. If this fails, change `valid=~ended` in examples/cleanrl_dqn.py and in the docs."""
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    assert envs.metadata["autoreset_mode"] == gym.vector.AutoresetMode.NEXT_STEP


@pytest.mark.slow
def test_a_small_dqn_with_a_crystal_memory_learns(example: Any) -> None:
    dqn = example("cleanrl_dqn")
    returns = dqn.train(dqn.Args(steps=4_000, seed=1001, exploration=0.3))
    assert np.mean(returns[-10:]) > 100  # at random 22
