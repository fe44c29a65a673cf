# %% [markdown]
# # A study of your own tasks
#
# Compare memories and methods on your own environments: one TOML file, one command, one report. Needs
# `pip install 'crystalrl[fast,study]'`. In a notebook `!` calls the command line.
#
# The file names the tasks, the settings that all rows share, and the rows to compare. Scores are (return − low)/(high − low).

# %%
from pathlib import Path

file = """
title = "Two carts, one after the other"
reference = "crystal"          # the other rows are tested against this one
family = ["AP"]

[defaults]
seeds = "0:3"
steps = 8000                   # per task
capacity = 1000
episodes = 5
agent_params.width = 64

[[tasks]]
name = "cart"
make = "CartPole-v1"
options = { max_episode_steps = 200 }
low = 20
high = 200

[[tasks]]
name = "mirrored"
make = "CartPole-v1"
options = { max_episode_steps = 200 }
physics = { force_mag = -10.0 }  # an attribute of the environment
low = 20
high = 200

[rows.crystal]
memory = "crystal"
preset = "anchored"

[rows.reservoir]
memory = "reservoir"

[rows.uniform]
memory = "uniform"
"""
written = Path("mine.toml").write_text(file)

# %% [markdown]
# First try the tasks. This shows their spaces, lengths of episodes and scores of random actions, and what is wrong.

# %%
# !crystalrl check-tasks mine.toml

# %% [markdown]
# What will it cost? Speeds are measured on your machine.

# %%
# !crystalrl study mine.toml --dry-run

# %% [markdown]
# Run it. If it is killed at any moment, `crystalrl resume runs/mine` continues and gives the same results.

# %%
# !crystalrl study mine.toml

# %% [markdown]
# The stored tables are pandas DataFrames:

# %%
from crystalrl import results

scores = results.load("runs/mine")["scores"]
scores.query("after == after.max()").groupby(["method", "task"])["score"].mean().unstack().round(2)

# %% [markdown]
# Uniform replay forgets the first cart. Three seeds cannot tell whether the crystal memory or the reservoir is better, and the
# report says so; with two tasks and 1,000 slots a reservoir is hard to beat. For a real comparison use ten seeds or more, tune
# each row on other seeds (`tuning_seeds`), and name the tests beforehand (`family`): see [Studies](../studies.md) and
# [Your own tasks](../tasks.md). What the report shows is in [Read a report](report.ipynb).
