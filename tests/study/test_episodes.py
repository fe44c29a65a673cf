"""The returns of episodes, found again by the arrival numbers of their experiences."""

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, Transition
from crystalrl.study.episodes import EpisodeReturns
from crystalrl.study.events import Progress
from crystalrl.study.plan import Group, plan
from crystalrl.study.recorder import Recorder
from crystalrl.study.run import Trainer, run
from crystalrl.study.spec import RunSpec
from tests.inspected_run import FAST, SMALL

ENVS, STEPS = 3, 60
CPU = torch.device("cpu")


def a_group() -> Group:
    spec = RunSpec("nav-2", memory="crystal", steps=ENVS * STEPS, envs=ENVS, seeds=(0, 1), params={"kappa": [0.1, 1.0]})
    return plan({"row": spec})[0]


def a_life(n_step: int, known: EpisodeReturns, seed: int = 0) -> tuple[CrystalMemory, dict[tuple[int, int], float]]:
    """Two tasks of random episodes in four lanes, in a memory where nothing is ever overwritten.

    Also the return of the episode of every (step, environment) of lane 2, counted one step at a time. Observations are
    step and environment.
    """
    random = np.random.default_rng(seed)
    memory = CrystalMemory(8 * ENVS * STEPS, obs=(2,), action=2, lanes=4, envs=ENVS, n_step=n_step, seed=[0, 1, 2, 3])
    returns, running = {}, [[] for _ in range(ENVS)]
    for step in range(2 * STEPS):
        if step == STEPS:
            known.cut()
            running = [[] for _ in range(ENVS)]
        reward = random.normal(size=(4, ENVS)).astype(np.float32)
        over = random.random((4, ENVS)) < 0.15
        obs = np.stack(np.broadcast_arrays(float(step), np.arange(ENVS), np.zeros((4, ENVS)))[:2], -1)
        given = Transition(
            torch.as_tensor(obs, dtype=torch.float32), torch.zeros(4, ENVS, dtype=torch.int64), torch.as_tensor(reward),
            torch.zeros(4, ENVS, 2), torch.as_tensor(over & (reward > 0)), torch.as_tensor(over & (reward <= 0)),
        )  # fmt: skip
        memory.add(given)
        known.step(given)
        for env in range(ENVS):
            running[env].append((step, float(reward[2, env])))
            if over[2, env]:
                total = sum(value for _, value in running[env])
                returns |= {(past, env): total for past, _ in running[env]}
                running[env] = []
    return memory, returns


@pytest.mark.parametrize("n_step", [1, 3])
def test_every_experience_is_given_the_return_of_its_own_episode(n_step: int) -> None:
    group = a_group()
    assert group.first_lanes == (0, 2)  # two cells of two seeds
    known = EpisodeReturns(group, n_step, CPU)
    memory, returns = a_life(n_step, known)
    held = memory.experiences(lane=2)
    found = known.of(2, held["number"].numpy())
    expected = [returns.get((int(step), int(env)), np.nan) for step, env in held["obs"].tolist()]
    assert len(expected) > 2 * STEPS * ENVS - n_step * ENVS
    assert 0 < np.isnan(expected).sum() < len(expected) / 4  # cut off by the second task, or not ended yet
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_restored_log_knows_the_same_returns() -> None:
    whole, saved, other = (EpisodeReturns(a_group(), 1, CPU) for _ in range(3))
    a_life(1, whole)
    random = np.random.default_rng(1)
    rewards, over = random.normal(size=(40, 4, ENVS)), random.random((40, 4, ENVS)) < 0.2
    steps = [
        Transition(0, 0, torch.as_tensor(reward), 0, torch.as_tensor(ended), torch.zeros(4, ENVS))
        for reward, ended in zip(rewards, over, strict=True)
    ]
    for step in steps[:25]:
        saved.step(step)
    other.load(saved.state(), 25)
    for step in steps[25:]:
        saved.step(step)
        other.step(step)
    numbers = np.arange(40 * ENVS)
    np.testing.assert_array_equal(other.of(0, numbers), saved.of(0, numbers))
    assert np.isfinite(saved.of(0, numbers)).mean() > 0.7


def test_after_a_checkpoint_of_an_older_version_only_whole_episodes_have_a_return() -> None:
    known = EpisodeReturns(a_group(), 1, CPU)
    known.load({}, 10)
    for over in (False, True, False, True):
        known.step(Transition(0, 0, torch.ones(4, ENVS), 0, torch.full((4, ENVS), over), torch.zeros(4, ENVS)))
    found = known.of(0, np.arange(14 * ENVS)).reshape(14, ENVS)
    assert np.isnan(found[:12]).all()  # before the checkpoint, and the episode during which it was written
    assert (found[12:] == 2).all()


def test_a_run_records_the_returns_of_the_stored_episodes() -> None:
    """Counted again from the transitions of the run."""
    (group,) = plan({"crystal": RunSpec(memory="crystal", seeds=(0, 1), params=FAST, **SMALL)})  # type: ignore[arg-type]
    trainer, recorder, given = Trainer(group, CPU), Recorder(group), []
    for event in run(group, "cpu", trainer):
        recorder.record(event)
        if isinstance(event, Progress):
            now = trainer.transition
            given.append([part[0].clone() for part in (now.reward, now.terminated | now.truncated)])
    reward, ended = (torch.stack(part).numpy() for part in zip(*given, strict=True))
    stored, half = recorder.tables()["contents"], len(given) // 2
    for number, step, value in zip(stored["number"], stored["step"], stored["episode_return"], strict=True):
        at, env = divmod(int(number), reward.shape[1])
        first, last = (0, half) if at < half else (half, 2 * half)
        before = np.flatnonzero(ended[first:at, env])
        begun = first + before[-1] + 1 if len(before) else first
        after = np.flatnonzero(ended[at : min(last, step // reward.shape[1]), env])
        expected = reward[begun : at + after[0] + 1, env].sum(dtype=float) if len(after) else np.nan
        assert value == pytest.approx(expected, rel=1e-5, nan_ok=True)
    assert np.isfinite(stored["episode_return"]).sum() > 30
