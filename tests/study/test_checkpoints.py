"""Interrupted runs end with the same bytes, no matter when they were killed and saved."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from crystalrl.memory.storage.checkpoint import CheckpointError
from crystalrl.study.checkpoints import Checkpoints
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.recorder import Recorder
from crystalrl.study.run import Progress, Scored, Trainer, run
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store
from crystalrl.suites.tasks import Sequence
from tests.study.own_tasks import OWN

SMALL = {"steps": 480, "capacity": 256, "batch": 32, "episodes": 4, "points": 2, "agent_params": {"width": 16}}
RUNS = [
    ("nav-2", {"memory": "crystal", "preset": "anchored"}),
    ("nav-2", {"memory": "crystal", "preset": "paper", "params": {"every": 200}}),
    ("nav-2", {"memory": "reservoir", "method": "distill"}),
    ("nav-2", {"memory": "uniform", "method": "ewc"}),
    ("reach-2", {"agent": "sac", "memory": "reservoir"}),
    ("drift-2", {"memory": "crystal", "preset": "anchored"}),
    ("cartpole", {"memory": "prioritized"}),
    (OWN, {"memory": "crystal", "preset": "anchored", "episodes": 2}),
    *(
        pytest.param(*each, marks=pytest.mark.slow)
        for each in (
            ("cartpole", {"memory": "crystal", "preset": "anchored", "params": {"boost": True, "every_episode": True}}),
            ("pendulum-2", {"agent": "sac", "memory": "uniform"}),
        )
    ),
]


def stored(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*.parquet/part-*")}


@pytest.mark.parametrize(("suite", "design"), RUNS, ids=str)
def test_a_run_that_is_interrupted_at_any_step_and_continued_ends_with_the_same_bytes(
    suite: str | Sequence, design: dict[str, object], tmp_path: Path
) -> None:
    steps = 960 if suite == "cartpole" else 480  # 120 rounds or more in all
    groups = plan({"row": RunSpec(suite, seeds=(3, 5), **{**SMALL, "steps": steps, **design})})
    list(execute(groups, Store(tmp_path / "whole", "")))
    for stop in (1, 37, 61, None):
        begun = execute(groups, Store(tmp_path / "parts", ""), minutes=0.0)
        leave((event for _, event in begun if isinstance(event, Progress)), stop)
        assert any((tmp_path / "parts" / "checkpoints").iterdir()) == (stop is not None)
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")


def leave(steps: Iterable[Progress], stop: int | None) -> None:
    for number, _ in enumerate(steps, 1):
        if number == stop:
            return


def test_checkpoints_are_saved_at_the_interval_and_always_at_the_end_of_a_task(tmp_path: Path) -> None:
    (group,) = plan({"row": RunSpec("nav-2", **SMALL)})
    for minutes, wanted in ((1e9, ["Scored"] * 3), (0.0, ["Scored", *["Progress"] * 60] * 2 + ["Scored"])):
        checkpoints, saved = Checkpoints(tmp_path, minutes), []
        trainer, recorder = Trainer(group, torch.device("cpu")), Recorder(group)
        checkpoints.restore(trainer, recorder)
        for event in run(group, "cpu", trainer):
            recorder.record(event)
            before = trainer_file(tmp_path)
            checkpoints.save_if_due(event, trainer, recorder)
            if trainer_file(tmp_path) != before:
                saved.append(type(event).__name__)
        assert saved == wanted
        checkpoints.discard(group)
        assert not any((tmp_path / "checkpoints").iterdir())


def trainer_file(folder: Path) -> list[tuple[int, int]]:
    return [(path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("checkpoints/*.safetensors")]


def test_cartpole_is_restored_from_the_actions_of_the_current_episodes_only() -> None:
    (group,) = plan({"row": RunSpec("cartpole", **SMALL)})
    trainer = Trainer(group, torch.device("cpu"))
    trainer.begin(0)
    for _ in range(150):
        trainer.collect()
    trainer.step = 150
    state = trainer.state()
    assert state is not None
    assert 0 < int(state["world.length"].sum()) < 8 * 150 / 2
    other = Trainer(group, torch.device("cpu"))
    other.load(state)
    for _ in range(100):
        trainer.collect()
        other.collect()
    assert torch.equal(trainer.world.obs, other.world.obs)


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused_by_name(tmp_path: Path) -> None:
    one, other = (plan({"row": RunSpec("nav-2", seeds=(seed,), **SMALL)})[0] for seed in (0, 1))
    checkpoints = Checkpoints(tmp_path)
    trainer, recorder = Trainer(one, torch.device("cpu")), Recorder(one)
    for event in run(one, "cpu", trainer):
        recorder.record(event)
        if isinstance(event, Scored):
            break
    checkpoints.save_if_due(event, trainer, recorder)
    (file,) = (tmp_path / "checkpoints").iterdir()
    content = file.read_bytes()
    file.rename(file.with_name(f"{other.key}.safetensors"))
    with pytest.raises(CheckpointError, match=f"wanted a checkpoint of run {other.key}, got {one.key}"):
        checkpoints.restore(Trainer(other, torch.device("cpu")), Recorder(other))
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoints.restore(trainer, recorder)


KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from crystalrl import cli

def start(arguments):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            cli.main(arguments)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child

def kept(folder):
    return any(Path(folder).glob("checkpoints/*.safetensors"))

def wait_until(child, good):
    while not good() and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.005)

kills, seed, *line = sys.argv[1:]
line += ["--checkpoint-minutes", "0.0005", "--device", "cpu"]
child, begun = start([*line, "--out", "whole"]), time.monotonic()
wait_until(child, lambda: kept("whole"))
first = time.monotonic()
wait_until(child, lambda: not kept("whole"))
learning = time.monotonic() - first
os.waitpid(child, 0)
random.seed(int(seed))
left = unfinished = 0
while left < int(kills):
    folder = f"killed{left}"
    for attempt in range(4):
        known = Path(folder, "spec.toml").exists()
        child = start(["resume", folder, *line[-4:]] if known else [*line, "--out", folder])
        if attempt == 0:  # then it may be anywhere between the start and the first task's end
            wait_until(child, lambda: kept(folder))
        time.sleep(random.uniform(0, learning / 3))
        os.kill(child, signal.SIGKILL)
        left += os.waitpid(child, 0)[1] == signal.SIGKILL
        unfinished += kept(folder)
    assert os.waitpid(start(["resume", folder, *line[-4:]]), 0)[1] == 0, "could not be resumed"
print(left, unfinished)
"""
LINES = {
    "nav": "run nav-2 --memory crystal --preset anchored --steps 400 --capacity 300 --batch 32 --episodes 4",
    "cartpole": "run cartpole --memory prioritized --steps 800 --capacity 500 --batch 32 --episodes 4",
}


def killed_and_resumed(line: str, kills: int, folder: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(kills), "1", *line.split(), "--seeds", "0:2"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left, unfinished = map(int, done.stdout.split())
    assert left >= kills
    assert unfinished >= kills // 2  # killed while it learnt, with something to go on from
    whole = stored(folder / "whole")
    assert len(whole) == 3
    again = list(folder.glob("killed*"))
    assert len(again) >= kills // 4
    for one in again:
        assert stored(one) == whole
        assert not any((one / "checkpoints").iterdir())


@pytest.mark.slow  # tests/chaos has a few kills of a study in the fast suite
@pytest.mark.parametrize("suite", LINES)
def test_kill_nine_at_twenty_five_random_moments_changes_nothing(suite: str, tmp_path: Path) -> None:
    killed_and_resumed(LINES[suite], 25, tmp_path)
