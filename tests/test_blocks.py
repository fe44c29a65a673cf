"""Every block of code in README and docs is executed: programs run, files are read and planned, commands run or parse.

Programs and commands of a page run in order, in an empty folder. What a page takes for granted (your environment, your
network, files that other pages show) is in `BEFORE` and `_give_files`. Numbers that would take hours are made smaller,
by `SHORTER` in programs and by `smaller` in files and built-in studies; the demo runs as it is.
"""

from __future__ import annotations

import re
import shlex
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from crystalrl import CrystalMemory, Evaluation, Transition, results
from crystalrl.cli import main, theory
from crystalrl.cli.commands import Command
from crystalrl.cli.parsing import parsed, take_sections
from crystalrl.study.definition import load_study, study_values
from crystalrl.study.plan import plan
from crystalrl.study.spec import parse_seeds, to_toml
from crystalrl.study.task_files import sequence_from
from crystalrl.study.tuning import load_search

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TINY = ["--steps", "80", "--capacity", "64", "--batch", "16", "--episodes", "2", "--points", "1", "--seeds", "0"]
SMALL = {"steps": 80, "capacity": 64, "trials": 3}
TRIPLES = ("capacity", "batch")
"""Settings of a memory whose lists are one value, by phase."""
RUN = "run nav-1 --steps 80 --capacity 64 --batch 16 --episodes 2 --points 1 --memory crystal --out"
FIRST = {"docs/looking.md": [f"{RUN} runs/{name}" for name in ("mine", "a", "b")]}
"""Commands whose results a page takes for granted."""
SB3 = """
import gymnasium
from stable_baselines3 import DQN, SAC
env = gymnasium.make("Pendulum-v1")
"""
BEFORE = {
    "README.md": SB3,
    "docs/integrations/sb3.md": SB3,
    "docs/integrations/cleanrl.md": """
import torch
from crystalrl import CrystalMemory, Evaluation, Transition
from crystalrl.integrations.anchors import advantage_pull
from crystalrl.losses import advantages, huber
network = torch.nn.Linear(4, 2)
def td_errors(batch):
    q = network(batch.obs)
    return q, batch.reward - q[:, 0]
obs = next_obs = torch.rand(4, 4)
action, reward = torch.zeros(4, dtype=torch.long), torch.ones(4)
ended = terminated = truncated = torch.zeros(4, dtype=torch.bool)
""",
    "docs/integrations/minari.md": """
import gymnasium, minari, torch
from tests.integrations.test_minari import record
record(name="mine/recorded-v0")
network = torch.nn.Linear(4, 2)
target = lambda batch: batch.reward
critic = lambda obs, action: network(obs)[:, 0]
""",
    "docs/integrations/tianshou.md": """
import gymnasium
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
model = Net(state_shape=(4,), action_shape=2, hidden_sizes=[32])
policy = DiscreteQLearningPolicy(model=model, action_space=gymnasium.spaces.Discrete(2))
algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=100)
""",
    "docs/integrations/torchrl.md": """
from tensordict.nn import NormalParamExtractor, TensorDictModule
from tests.integrations.torchrl_models import A, D, data as recorded, mlp
from torch import nn
from torchrl.data import Bounded, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss
inner = TensorDictModule(nn.Sequential(mlp(D, 2 * A), NormalParamExtractor()), ["observation"], ["loc", "scale"])
actor = ProbabilisticActor(inner, in_keys=["loc", "scale"], spec=Bounded(-1, 1, (A,)), distribution_class=TanhNormal)
qvalue = ValueOperator(mlp(D + A, 1), in_keys=["observation", "action"])
data = recorded("SAC", 300)
""",
    "docs/studies.md": """
from crystalrl.cli import main
main("run nav-1 --steps 80 --capacity 64 --batch 16 --episodes 2 --points 1 --out runs/mine".split())
""",
}
SHORTER = {
    "1_000_000": "120",
    "100_000, callback": "200, callback",
    'SAC("MlpPolicy", env, ': 'SAC("MlpPolicy", env, learning_starts=50, ',
    'DQN("MlpPolicy", env, ': 'DQN("MlpPolicy", "CartPole-v1", learning_starts=50, ',
    "for step in range(3_000)": "for step in range(2_600)",
}


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text()) if language in languages]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


SLOW = ("docs/integrations/sb3.md", "docs/integrations/tianshou.md", "docs/reference/commands.md",
        "docs/reference/integrations.md", "docs/start.md", "docs/studies.md")  # fmt: skip
"""Pages whose programs or commands take seconds; README's programs and the other pages run in `make test`."""


def having(*languages: str, slow: tuple[str, ...] = ()) -> Any:
    """The pages with blocks in a language, as parameters."""
    pages = [page for page in PAGES if blocks(page, *languages)]
    marked = [pytest.param(page, marks=[pytest.mark.slow] * (name(page) in slow)) for page in pages]
    return pytest.mark.parametrize("page", marked, ids=[name(page) for page in pages])


OUTPUT = ("text", "bibtex")
"""Languages of blocks that are read, not run; each has a test of its own."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_is_overlooked(page: Path) -> None:
    """Each begins at the start of a line and names its language: without that, no test below would see it."""
    text = page.read_text()
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.M)) == 2 * len(FENCE.findall(text))
    assert {language for language, _ in FENCE.findall(text)} <= {"python", "toml", "bash", *OUTPUT}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    (tmp_path / "results").symlink_to(ROOT / "results")


@pytest.mark.filterwarnings("default")  # other libraries warn; the tests of each integration are strict
@having("python", slow=SLOW)
def test_programs_run_in_the_order_of_the_page(page: Path) -> None:
    torch.manual_seed(0)
    program: dict[str, Any] = {"__name__": "page"}
    exec(BEFORE.get(name(page), ""), program)
    for number, text in enumerate(blocks(page, "python"), 1):
        for long, short in SHORTER.items():
            text = text.replace(long, short)
        exec(compile(text, f"{page.name}, program {number}", "exec"), program)


@having("toml")
def test_files_are_read_and_planned(page: Path) -> None:
    for text in blocks(page, "toml"):
        values = tomllib.loads(text)
        Path("page.toml").write_text(text)
        if "trials" in values:
            assert load_search(Path("page.toml")).trials == values["trials"]
        elif "tasks" in values and "rows" not in values:
            assert len(sequence_from(values).ids) == len(values["tasks"])
        else:
            if not {"rows", "tables"} & set(values):  # a part of a file
                Path("page.toml").write_text(f'{text}\n[rows.anchored]\nmemory = "crystal"\n')
            assert all(plan(table.runs()) for table in load_study("page.toml").values())


def commands(page: Path) -> list[list[str]]:
    lines = [line for text in blocks(page, "bash") for line in text.replace("\\\n", " ").splitlines()]
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def parse(words: list[str]) -> None:
    if words[:1] == ["theory"]:
        parsed(theory.Choices, words[1:], "crystalrl theory")
    elif words != ["--version"]:
        parsed(Command, take_sections(words)[0])


@having("bash")
def test_commands_are_ones_that_exist(page: Path) -> None:
    """Of crystalrl, make, pip (extras), and python -m."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for program, *words in commands(page):
        if program == "crystalrl":
            parse(words)
        elif program == "make":
            assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.M), words
        else:
            assert program == "pip", program
            assert set(re.findall(r"\w+", "".join(re.findall(r"\[(.*?)\]", " ".join(words))))) <= set(extras)


def shorter(words: list[str]) -> list[str]:
    """The same command with fewer steps; a built-in study as a file of the same name, with fewer seeds and values."""
    if words[0] == "study" and not words[1].endswith(".toml"):
        tables = study_values(words[1])
        Path(f"{words[1]}.toml").write_text(to_toml(smaller({"tables": tables})))
        return ["study", f"{words[1]}.toml", *words[2:]]
    return [*words, *[option for option in TINY if words[0] == "run"]]


@having("bash", slow=("README.md", "docs/looking.md", *SLOW))
def test_commands_run(page: Path) -> None:
    """In the order of the page. The demo has a test of its own, and so have pages that are served until Ctrl-C."""
    _give_files(page)
    for line in FIRST.get(name(page), []):
        main(line.split())
    for program, *words in commands(page):
        if program == "crystalrl" and words[0] != "demo" and "--live" not in words:
            main(shorter(words))


def _give_files(page: Path) -> None:
    """The files that a page names, with fewer steps: those that it shows, or else those that other pages show."""
    for source in (ROOT / "docs/studies.md", ROOT / "docs/tasks.md", page):
        for text in blocks(source, "toml"):
            values = tomllib.loads(text)
            file = "search.toml" if "trials" in values else "mine.toml" if "rows" in values else "tasks.toml"
            if file != "tasks.toml" or "tasks" in values:
                Path(file).write_text(to_toml(smaller(values)))
    memory = CrystalMemory(64, obs=(2,), action=2, anchor={"q": (2,)}, seed=0)
    for step in range(400):
        obs = torch.rand(2, generator=torch.Generator().manual_seed(step))
        memory.add(Transition(obs, step % 2, float(obs[0]), obs, terminated=step % 20 == 19))
        if memory.due:
            memory.consolidate(lambda batch: Evaluation(batch.reward, {"q": batch.obs}))
    memory.save("memory.safetensors")


def smaller(values: Any, key: str = "") -> Any:
    """The values of a file with two seeds, few steps, slots and trials, and at most two values of each setting."""
    if isinstance(values, list):
        numbers = all(isinstance(value, int | float) for value in values)
        return values[:2] if numbers and key not in TRIPLES else [smaller(value, key) for value in values]
    if not isinstance(values, dict):
        return SMALL[key] if key in SMALL and isinstance(values, int) else values
    made = {name: smaller(value, name) for name, value in values.items()}
    made |= {name: list(parse_seeds(values[name])[:2]) for name in ("seeds", "tuning_seeds") if name in values}
    few = {"batch": 16, "episodes": 2, "points": 1}
    return {**made, **few} if isinstance(values.get("capacity"), int) else made


@pytest.mark.slow
def test_the_demo_is_over_in_a_few_minutes_and_shows_all_its_rows() -> None:
    """As it is: `crystalrl demo`, `make demo` and the container run the same."""
    started = time.process_time()
    main(["demo"])
    assert time.process_time() - started < 240  # seconds of one core
    (table,) = load_study("demo").values()
    scores = results.load("runs/demo")["scores"]
    assert set(scores["method"]) == set(table.rows)
    assert all(set(rows["seed"]) == set(range(5)) for _, rows in scores.groupby("method"))
    page = Path("runs/demo/report.html").read_text()
    assert all(row in page for row in table.rows)
