# %% [markdown]
# # Stop a Stable-Baselines3 agent forgetting
#
# A DQN agent learns CartPole, then CartPole with the motor mirrored. We train it twice: with SB3's own replay buffer, and with
# a crystal memory. Two lines change. Needs `pip install 'crystalrl[sb3,fast,study]'`.
#
# These are the tasks. The observation says which one it is: without that, no agent could do both.

# %%
import gymnasium
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer


class Cart(gymnasium.Wrapper):
    """CartPole with the task appended to the observation; in task 1 left and right are exchanged."""

    def __init__(self, task):
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=200))
        self.task = task
        space, one = self.observation_space, np.ones(1, np.float32)
        self.observation_space = gymnasium.spaces.Box(np.append(space.low, -one), np.append(space.high, one))

    def seen(self, obs):
        return np.append(obs, 2 * self.task - 1).astype(np.float32)

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        return self.seen(obs), info

    def step(self, action):
        obs, *rest = self.env.step(1 - action if self.task else action)
        return self.seen(obs), *rest


# %% [markdown]
# Train on one task after the other, and measure both after each stage. The buffer holds 1,000 experiences, a sixth of those of
# a task. `learn` is called twice, as usual.


# %%
def mean_return(model, task):
    return evaluate_policy(model, Monitor(Cart(task)), n_eval_episodes=10)[0]


def train(callback=None, **buffer):
    model = DQN(
        "MlpPolicy",
        Cart(0),
        buffer_size=1_000,
        learning_rate=1e-3,
        learning_starts=500,
        train_freq=2,
        batch_size=64,
        gamma=0.98,
        target_update_interval=200,
        exploration_fraction=0.5,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [64, 64]},
        seed=0,
        **buffer,
    )
    scores = []
    for task in (0, 1):
        model.set_env(Cart(task))
        model.learn(6_000, callback=callback() if callback else None, reset_num_timesteps=True)
        scores.append([mean_return(model, 0), mean_return(model, 1)])
    return model, np.array(scores)


_, plain = train()
print("after task 0 and after task 1, return on both tasks:")
print(plain.round())

# %% [markdown]
# Now with the memory. These are the two lines: the buffer's class, and the callback that consolidates.

# %%
model, kept = train(callback=Consolidate, replay_buffer_class=CrystalReplayBuffer)
print(kept.round())

# %% [markdown]
# What is in the memory? Crystals of both tasks, and a few words on whether it works:

# %%
memory = model.replay_buffer.memory
print(memory.summary())
crystals = memory.experiences("crystal")["obs"]
print("crystals of task 0 and task 1:", int((crystals[:, 4] < 0).sum()), int((crystals[:, 4] > 0).sum()))

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(7, 2.4), sharey=True, layout="constrained")
for axis, scores, title in zip(axes, (plain, kept), ("SB3's own buffer", "CrystalReplayBuffer"), strict=True):
    for task in (0, 1):
        axis.plot([0, 1], scores[:, task], "o-", label=f"task {task}")
    axis.set_xticks([0, 1], ["after task 0", "after task 1"])
    axis.set_title(title, fontsize=9)
axes[0].set_ylabel("return (at most 200)")
axes[0].legend()
plt.show()

# %% [markdown]
# One seed is an illustration, not evidence: [ten seeds, three tasks and the costs](../integrations/sb3.md) are measured.
# Next: [which settings matter](../choose.md), [what is logged](../integrations/sb3.md#what-is-logged).
