"""Meta-World's robot arm (Yu et al. 2019): MT50, Continual World's sequences, and short sequences of easy tasks.

`mt50`  the 50 tasks in the permutation by seed 42; orders 1 to 5 are the permutations by seeds 1 to 5.
`cw10`  the ten tasks of Continual World (Wołczyk et al. 2021), under their current names; `cw20`: twice.
`mw-N`  the first N tasks of `LADDER`.
"""

from __future__ import annotations

import re

from crystalrl.suites.benchmark import Benchmark, permuted
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Sequence, Task

REWARD = "v2"
"""Version of the reward functions; Meta-World 3 also has v1, which Continual World used."""
SIZES = Sizes((39,), (4,))
SEED = 42
MT50 = (
    "assembly", "basketball", "bin-picking", "box-close", "button-press-topdown", "button-press-topdown-wall",
    "button-press", "button-press-wall", "coffee-button", "coffee-pull", "coffee-push", "dial-turn", "disassemble",
    "door-close", "door-lock", "door-open", "door-unlock", "hand-insert", "drawer-close", "drawer-open", "faucet-open",
    "faucet-close", "hammer", "handle-press-side", "handle-press", "handle-pull-side", "handle-pull", "lever-pull",
    "pick-place-wall", "pick-out-of-hole", "pick-place", "plate-slide", "plate-slide-side", "plate-slide-back",
    "plate-slide-back-side", "peg-insert-side", "peg-unplug-side", "soccer", "stick-push", "stick-pull", "push",
    "push-wall", "push-back", "reach", "reach-wall", "shelf-place", "sweep-into", "sweep", "window-open",
    "window-close",
)  # fmt: skip
"""All tasks, in the order of the package."""
CW10 = (
    "hammer", "push-wall", "faucet-close", "push-back", "stick-pull", "handle-press-side", "push", "shelf-place",
    "window-close", "peg-unplug-side",
)  # fmt: skip
LADDER = (
    "handle-press-side", "drawer-close", "window-close", "door-close", "button-press-topdown", "plate-slide", "reach",
    "faucet-close", "door-lock", "coffee-button",
)  # fmt: skip
"""Tasks that SAC is expected to learn with few steps, the easiest first: no grasping, and a reward that leads to the
goal."""
LONG, SHORT = 500, 200
"""Steps of an episode: of the package, and of Continual World."""
NOTE = (
    "A robot arm manipulates an object at a random place. The score is the share of test episodes with a success. "
    f"Rewards are those of version {REWARD}."
)
ABOUT = {
    "mt50": "Meta-World's 50 tasks, in the permutation by seed 42; orders 1 … 5 by seeds 1 … 5",
    "cw10": "Continual World's ten Meta-World tasks, episodes of 200 steps",
    "cw20": "the same, twice",
    "mw-N": f"the first N of {len(LADDER)} Meta-World tasks that need no grasping",
}


def benchmark(name: str) -> Benchmark | None:
    """The sequence of this name; None if there is none."""
    if name == "mt50":
        tasks = tuple(_task(MT50[k], LONG) for k in permuted(SEED, len(MT50)))
        return _benchmark(tasks, LONG, SEED)
    if name in ("cw10", "cw20"):
        once = tuple(_task(task, SHORT) for task in CW10)
        again = tuple(Task(f"{t.name} again", t.make, t.options, success=True, id=t.name) for t in once)
        return _benchmark(once if name == "cw10" else (*once, *again), SHORT)
    match = re.fullmatch(r"mw-([1-9]\d*)", name)
    if match is None:
        return None
    if int(match[1]) > len(LADDER):
        raise ValueError(f"suite: wanted mw-1 to mw-{len(LADDER)}, got {name}")
    return _benchmark(tuple(_task(task, SHORT) for task in LADDER[: int(match[1])]), SHORT)


def _task(name: str, steps: int) -> Task:
    return Task(name, f"meta-world:{name}-v3", {"steps": steps, "reward": REWARD}, success=True)


def _benchmark(tasks: tuple[Task, ...], episode: int, seed: int | None = None) -> Benchmark:
    return Benchmark(Sequence(tasks), SIZES, NOTE, "metaworld", ("metaworld",), episode, seed=seed)
