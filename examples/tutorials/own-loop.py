# %% [markdown]
# # Your own loop
#
# A memory in a training loop of your own, in plain PyTorch, on two tasks. Three things differ from a loop with an ordinary
# buffer: the weight in the loss, the anchor loss, and the consolidation. Needs `pip install 'crystalrl[fast]' gymnasium
# matplotlib`.

# %%
from copy import deepcopy

import gymnasium
import numpy as np
import torch
from torch import nn

from crystalrl import CrystalMemory, Evaluation, Transition, UniformMemory
from crystalrl.losses import advantages, anchor_loss

# %% [markdown]
# The tasks: CartPole, and CartPole with left and right exchanged. The observation ends with the task, −1 or 1.

# %%
env = gymnasium.make("CartPole-v1", max_episode_steps=200)


def seen(obs, task):
    return torch.as_tensor(np.append(obs, 2 * task - 1), dtype=torch.float32)


def act(network, obs):
    with torch.no_grad():
        return int(network(obs).argmax())


def score(network, task, episodes=5):
    """Mean return of the greedy policy."""
    total = 0.0
    for seed in range(episodes):
        obs, over = env.reset(seed=1_000 + seed)[0], False
        while not over:
            action = act(network, seen(obs, task))
            obs, reward, terminated, truncated, _ = env.step(1 - action if task else action)
            total += reward
            over = terminated or truncated
    return total / episodes


# %% [markdown]
# The learner. `errors` is what every DQN has. `evaluate` is what the memory calls when it consolidates: TD errors, and the
# outputs that are anchored. `learn` multiplies the loss by `batch.weight` and adds the anchor loss if the batch has anchors, so
# it works with every memory.


# %%
class Learner:
    def __init__(self, memory):
        torch.manual_seed(0)
        self.memory = memory
        self.network = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.target = deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)

    def errors(self, batch):
        q = self.network(batch.obs)
        with torch.no_grad():
            goal = batch.reward + batch.discount * self.target(batch.next_obs).max(-1).values
        return q, goal - q.gather(1, batch.action[:, None])[:, 0]

    @torch.no_grad()
    def evaluate(self, batch):
        q, td_error = self.errors(batch)
        return Evaluation(td_error, {"advantage": advantages(q)})

    def learn(self):
        batch = self.memory.sample(64)
        q, td_error = self.errors(batch)
        loss = (batch.weight * td_error**2).mean()
        if batch.anchor is not None:
            loss = loss + anchor_loss(advantages(q), batch.anchor["advantage"])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.memory.update(batch, td_error.detach())


# %% [markdown]
# The loop. `memory.due` says when it is time to consolidate; before learning has begun nothing should be consolidated, because
# the outputs of an untrained network would count as settled.


# %%
def train(memory, steps=6_000):
    learner, scores, reports = Learner(memory), [], []
    rng = np.random.default_rng(0)
    for task in (0, 1):
        obs = env.reset(seed=task)[0]
        for step in range(steps):
            explore = rng.random() < max(0.05, 1 - 2 * step / steps)
            action = int(rng.integers(2)) if explore else act(learner.network, seen(obs, task))
            next_obs, reward, terminated, truncated, _ = env.step(1 - action if task else action)
            memory.add(Transition(seen(obs, task), action, reward, seen(next_obs, task), terminated, truncated))
            obs = env.reset()[0] if terminated or truncated else next_obs
            if task == 0 and step < 500:
                continue
            if step % 2 == 0:
                learner.learn()
            if step % 200 == 0:
                learner.target.load_state_dict(learner.network.state_dict())
            if memory.due:
                reports.append(memory.consolidate(learner.evaluate))
        scores.append([score(learner.network, 0), score(learner.network, 1)])
    return np.array(scores), reports


options = {"obs": (5,), "action": 2, "gamma": 0.98, "seed": 0}
plain, _ = train(UniformMemory(1_000, **options))
kept, reports = train(memory := CrystalMemory(1_000, anchor={"advantage": (2,)}, **options))
print("return on both tasks after each, uniform:", plain.round().tolist())
print("return on both tasks after each, crystal:", kept.round().tolist())

# %% [markdown]
# What happened inside: the phases over the consolidations. `report.scalars()` is meant for your logger.

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 2.4), layout="constrained")
for phase in ("liquid", "glass", "crystal"):
    axis.plot([report.scalars()[phase] for report in reports], label=phase)
axis.set_xlabel("consolidation")
axis.set_ylabel("experiences")
axis.legend()
plt.show()
print(memory.summary())

# %% [markdown]
# Save and go on: the next batches are the same as without the interruption.

# %%
from crystalrl import load_memory

memory.save("memory.safetensors")
again = load_memory("memory.safetensors")
assert torch.equal(again.sample(64).index, memory.sample(64).index)

# %% [markdown]
# One seed is an illustration, not evidence: see [Evidence](../default.md). For many seeds at once, and statistics, use
# [a study](own-study.ipynb).
