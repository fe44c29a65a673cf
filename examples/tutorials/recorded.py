# %% [markdown]
# # A memory from recorded data
#
# A dataset becomes a memory; with a fitted critic its experiences crystallize; the best are exported. Needs
# `pip install 'crystalrl[fast,minari]' matplotlib`. Nothing is downloaded: the data are recorded here, by a CartPole policy
# that acts at random half of the time.

# %%
import os
import warnings
from tempfile import mkdtemp

import gymnasium
import minari
import numpy as np
import torch
from minari.data_collector import EpisodeBuffer
from torch import nn

from crystalrl.integrations.minari import export, memory_of, ranked

warnings.filterwarnings("ignore")  # Minari asks for links and requirements of the dataset
os.environ["MINARI_DATASETS_PATH"] = mkdtemp()


def record(seed, env=gymnasium.make("CartPole-v1")):
    rng, over = np.random.default_rng(seed), False
    observations, steps = [env.reset(seed=seed)[0]], []
    while not over:
        obs = observations[-1]
        action = int(obs[2] + obs[3] > 0) if rng.random() < 0.5 else int(rng.integers(2))
        after, reward, terminated, truncated, _ = env.step(action)
        observations.append(after)
        steps.append((action, reward, terminated, truncated))
        over = terminated or truncated
    actions, rewards, terminations, truncations = map(np.array, zip(*steps, strict=True))
    return EpisodeBuffer(
        observations=np.array(observations),
        actions=actions,
        rewards=rewards,
        terminations=terminations,
        truncations=truncations,
        infos={},
    )


dataset = minari.create_dataset_from_buffers(
    "tutorial/recorded-v0",
    buffer=[record(seed) for seed in range(20)],
    env=gymnasium.make("CartPole-v1"),
    algorithm_name="half balanced",
    author="tutorial",
    description="recorded in a tutorial",
)
print(dataset.total_episodes, "episodes,", dataset.total_steps, "steps")

# %% [markdown]
# The memory holds the whole dataset, in the order of recording. Fit a critic on its batches:

# %%
memory = memory_of(dataset, gamma=0.95)
torch.manual_seed(0)
network, slow = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)


def errors(batch):
    with torch.no_grad():
        goal = batch.reward + batch.discount * slow(batch.next_obs).amax(1)
    return goal - network(batch.obs).gather(1, batch.action[:, None])[:, 0]


for _ in range(1_000):
    optimizer.zero_grad()
    (errors(memory.sample(128)) ** 2).mean().backward()
    optimizer.step()
    for a, b in zip(slow.parameters(), network.parameters(), strict=True):
        a.data.lerp_(b.data, 0.02)

# %% [markdown]
# Consolidate. No environment runs, so each call is one unit of time.

# %%
for _ in range(20):
    report = memory.consolidate(lambda batch: errors(batch).detach())
print(memory.summary())

# %% [markdown]
# Which experiences have the highest c? Those with large errors, rare ones, and ones on which much depends: here, states in
# which the pole is about to fall.

# %%
import matplotlib.pyplot as plt

best = ranked(memory)
figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
points = axis.scatter(best["obs"][:, 2], best["obs"][:, 3], c=best["c"], s=6, cmap="Blues")
axis.set_xlabel("angle of the pole")
axis.set_ylabel("angular velocity")
figure.colorbar(points, label="c")
plt.show()

# %% [markdown]
# Export the best as a dataset of their own. To put demonstrations into the memory of a learning agent, use
# `fill(memory, dataset, demonstrations=True)`: see [Minari](../integrations/minari.md).

# %%
kept = export(memory, "tutorial/kept-v0", like=dataset, top=200, algorithm_name="ranked", author="tutorial")
print(f"exported {kept.total_steps} of {dataset.total_steps} steps")
