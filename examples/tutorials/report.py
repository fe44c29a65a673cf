# %% [markdown]
# # Read a report
#
# `crystalrl report FOLDER` prints tables and writes a page, `report.html`; a run does the same at its end. Here is how to read
# the numbers, on a small run. The page draws them and much more: [Looking at results](../looking.md) explains it. Needs
# `pip install 'crystalrl[fast,study]'`.

# %%
# !crystalrl run nav-3 --memory crystal --seeds 0:3 --steps 3000 --capacity 600 --out runs/small

# %% [markdown]
# The columns:
#
# - **AP**, average performance: the mean final score over all tasks, in square brackets its 95 % interval over seeds.
# - **IQM**: the mean of the middle half of all final scores, which outliers hardly move.
# - **learned**: the score on a task right after learning it. If it is low, the tasks were not learnt, and there is nothing to
#   forget.
#
# So first look at *learned*, then at AP. AP near *learned* means that nothing was forgotten. The difference, task by task, is
# **BT** (backward transfer); negative is forgetting.
#
# The same numbers, from the stored tables. `after` = 0 is the untrained network; the row `after` = 3 is the end.

# %%
from crystalrl import results

tables = results.load("runs/small")
matrix = tables["scores"].groupby(["after", "task"])["score"].mean().unstack()
matrix.round(2)

# %% [markdown]
# Read down a column: the task is learnt in the first row with a high score, and kept or forgotten in the rows below.

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
for task in matrix:
    axis.plot(matrix.index, matrix[task], "o-", label=f"task {task + 1}")
axis.set_xlabel("tasks learnt")
axis.set_ylabel("score")
axis.set_xticks(matrix.index)
axis.legend()
plt.show()

# %% [markdown]
# What the memory did, one row per consolidation and seed. The gap at the top is the slots that a consolidation leaves free for
# new experiences:

# %%
memory = tables["memory"].query("seed == 0").set_index("step")
colours = ["#4c9fd6", "#a9bccb", "#1c3a5e"]
memory[["liquid", "glass", "crystal"]].plot.area(figsize=(6, 2.4), ylabel="experiences", color=colours, linewidth=0)
plt.show()

# %%
memory[["crystal", "melted", "contradicted", "error", "anchor_weight_crystal"]].tail(3).round(3)

# %% [markdown]
# - `crystal` should rise once learning has begun. If it stays 0, nothing is kept: [what to change](../choose.md#symptom-setting).
# - `melted` should be near 0, with a burst when a task is redefined.
# - `anchor_weight_crystal` near 1: the crystals carry the anchor loss.
#
# Comparisons between rows add three more things to look at: the **difference** with its effect size, **P(better)**, and
# **Holm's p**, which counts all tests of the family. A lead with a large p, or from fewer than ten seeds, is no lead. See
# [Statistics](../studies.md#statistics).
