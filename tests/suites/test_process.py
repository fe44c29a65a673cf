"""A worker process answers through shared memory, and does not outlive its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Task
from tests.suites.own_environments import ECHO

ROOT = Path(__file__).parents[2]


def pool(workers: int = 1, **options: int):
    world = GymSuite([[Task("echo", ECHO, options)]] * 2, Sizes((2,), 2), [0, 1], workers=workers).world(1)
    world.reset(torch.zeros(2, dtype=torch.int64))
    return world.pool


def test_steps_say_nothing_on_the_pipes_and_count_on() -> None:
    own = pool()
    (worker,) = own._workers
    asked = worker.asked.get()
    for _ in range(5):
        own.step()
    assert worker.asked.get() == worker.answered.get() == asked + 5
    assert own.arrays["age"].tolist() == [0, 0]  # five steps are an episode
    own.close()


def test_this_process_is_free_while_workers_step() -> None:
    own = pool(workers=2, length=50)
    own.start_step()
    until = time.monotonic() + 20
    while not own.arrays["done"].all() and time.monotonic() < until:
        time.sleep(0.001)
    assert own.arrays["age"].tolist() == [1, 1]  # before anybody waited for them
    own.finish_step()
    own.close()


def test_a_long_request_does_not_block() -> None:
    own = pool(length=40_000)
    request = {**own._requests[0], "actions": [0, 1] * 15_000}  # far more than a pipe holds
    own.begin([request])
    assert own.arrays["age"].tolist() == [30_000, 0]
    own.close()


def test_a_worker_ends_when_its_parent_is_killed() -> None:
    code = """
import time
from tests.suites.test_process import pool
own = pool()
print(own._workers[0].process.pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(child)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
