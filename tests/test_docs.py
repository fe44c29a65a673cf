"""Hand-written pages name only files and modules that exist, and programs do what their pages say."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from crystalrl import Task, __version__, load_memory
from crystalrl.cli import main
from crystalrl.integrations.sb3.adapters import ADAPTERS
from crystalrl.integrations.tianshou import adapters as tianshou
from crystalrl.integrations.torchrl import adapters as torchrl
from crystalrl.memory import ReplayMemory
from crystalrl.study.task_files import sequence_from
from crystalrl.suites.sizes import Sizes, sizes_of_all

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs/how-it-works.md", *sorted((ROOT / "docs/decisions").glob("*.md"))]
PACKAGE = ROOT / "src" / "crystalrl"
PARTS = "agents|backends|crystalrl|dynamics|integrations|lanes|losses|memory|methods|random|study|suites|theory"


def is_file(name: str) -> bool:
    return any((top / name).exists() for top in (ROOT, PACKAGE, PACKAGE / "integrations", ROOT / "tests/integrations"))


def is_module_or_attribute(name: str) -> bool:
    """`a.b.c`: a module of the package, or a name defined in module `a.b`, or a method of a memory, `memory.add`."""
    *parents, last = name.removeprefix("crystalrl.").split(".")
    folder = PACKAGE.joinpath(*parents)
    if (folder / last).is_dir() or (folder / f"{last}.py").exists():
        return True
    if parents == ["memory"]:
        return hasattr(ReplayMemory, last)
    modules = [path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.exists()]
    return any(re.search(rf"^(class|def) {last}\b", path.read_text(), re.M) for path in modules)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_module_named_on_the_page_exists(page: Path) -> None:
    quoted = re.findall(r"`([^`\n]+)`", page.read_text())
    files = [name for name in quoted if re.fullmatch(r"[\w/-]+\.(py|md|toml)", name)]
    modules = [name for name in quoted if re.fullmatch(rf"({PARTS})(\.(?!parquet)\w+)+", name)]
    missing = [name for name in files if not is_file(name)]
    missing += [name for name in modules if not is_module_or_attribute(name)]
    assert not missing


def snippets(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def test_the_agent_on_the_first_page_learns_consolidates_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns, consolidates only after it began to learn, and saves what it holds."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    program: dict[str, Any] = {}
    exec(compile(snippets("docs/start.md", "python")[1], "start.md", "exec"), program)
    memory, report = program["memory"], program["report"]
    assert report.values["evaluated"][0] > 1_000
    assert int(memory.consolidations[0]) >= 1
    assert torch.isfinite(program["loss"])
    again = load_memory("memory.safetensors")
    batch = memory.sample(64)
    assert torch.equal(again.sample(64).index, batch.index)
    assert not program["evaluate"](batch).td_error.requires_grad


def test_the_citation_names_this_version() -> None:
    (entry,) = snippets("docs/faq.md", "bibtex")
    assert f"version = {{{__version__}}}" in entry
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_pictures_in_the_readme_exist() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert shown
    assert [path for path in shown if not (ROOT / path).is_file()] == []


def without_times(table: str) -> list[str]:
    """The lines of a table without its last column, whose numbers depend on the machine, and without rules."""
    lines = [line for line in table.splitlines() if line[:1] not in "┏┡└"]
    return [re.sub(r"│[^│]*│$", "", line).rstrip() for line in lines]


def test_the_tasks_on_the_page_are_what_the_command_says_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "tasks.toml").write_text(snippets("docs/tasks.md", "toml")[0])
    main(["check-tasks", f"{tmp_path}/tasks.toml"])
    assert without_times(capsys.readouterr().out) == without_times(snippets("docs/tasks.md", "text")[0])


def test_every_key_of_a_task_is_on_the_page() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/tasks.md").read_text(), re.M)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert keys == {f.name for f in fields(Task)}


def test_the_tasks_on_the_page_go_together() -> None:
    made = sequence_from(tomllib.loads(snippets("docs/tasks.md", "toml")[0]))
    assert made.ids == (0, 1, 0)
    assert sizes_of_all(made.tasks) == Sizes((4,), 3)


def test_the_readme_fits_on_one_screen_and_has_what_a_new_user_looks_for() -> None:
    text = (ROOT / "README.md").read_text()
    sb3, ten = snippets("README.md", "python")
    assert len(text.splitlines()) <= 80
    assert len([line for line in sb3.splitlines() if line]) == 3
    assert len([line for line in ten.splitlines() if line and "import" not in line]) <= 10
    assert ten == snippets("docs/start.md", "python")[0]
    assert [line.split()[:2] for line in snippets("README.md", "bash")[0].splitlines()] == [
        ["crystalrl", "demo"],
        ["crystalrl", "study"],
    ]


def test_a_sequence_of_own_tasks_is_learnt_as_the_page_says() -> None:
    program: dict[str, Any] = {}
    exec(compile(snippets("docs/tasks.md", "python")[0], "tasks.md", "exec"), program)
    assert program["event"].after == 2
    assert program["event"].score.shape == (1, 2)
    assert torch.isfinite(program["event"].score).all()


def test_the_notebook_on_the_page_about_looking_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program: dict[str, Any] = {}
    exec(compile(snippets("docs/looking.md", "python")[0], "looking.md", "exec"), program)
    assert list(program["tables"]) == ["scores", "curves", "memory", "histograms", "followed", "contents", "runs"]
    assert len(program["frame"]) == 4 * (1 + 3)  # tasks × (mean and three seeds)
    assert not program["residents"].empty


def anchors_on(page: str) -> dict[str, str]:
    """Algorithm → its anchor, by the table of an integration's page."""
    rows = re.findall(r"^\| `?([\w, -]+?)`? \| `(\w+)`:", (ROOT / "docs/integrations" / page).read_text(), re.M)
    return {name: anchor for names, anchor in rows for name in names.split(", ")}


def test_the_pages_about_integrations_name_the_anchors_that_the_code_has() -> None:
    models = {False: SimpleNamespace(action_space=Box(-1, 1, (2,))), True: SimpleNamespace(action_space=Discrete(2))}
    names = {"SAC": "SAC", "TD3": "TD3", "DDPG": "TD3", "DQN": "DQN", "QR-DQN": "QRDQN"}  # TQC is "as SAC"
    made = {name: ADAPTERS[kind](models["DQN" in kind]).anchors() for name, kind in names.items()}
    assert anchors_on("sb3.md") == {name: anchor for name, (anchor,) in made.items()}
    assert anchors_on("tianshou.md") == {name: getattr(tianshou, name).anchored for name in ("DQN", "SAC")}
    assert anchors_on("torchrl.md") == {
        f"{name}Loss": getattr(torchrl, name).anchored for name in ("DQN", "SAC", "TD3")
    }
