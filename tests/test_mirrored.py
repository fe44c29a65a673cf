"""Every module has its own test file, and every test file its module."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "crystalrl"
UNTESTED = ("__init__", "__main__", "_version")
"""Modules that need no test file of their own, but may have one."""
CROSSING = {
    "integrations/sb3/test_assumptions.py": "what the adapters rely on in Stable-Baselines3",
    "integrations/sb3/test_equivalence.py": "an agent learns the same with our buffer as with theirs",
    "integrations/sb3/test_frames.py": "an agent learns the same if the frames of its images are stored once",
    "integrations/test_killed.py": "a run of any library that is killed goes on from its file",
    "integrations/tianshou/test_assumptions.py": "what the adapters rely on in Tianshou",
    "integrations/tianshou/test_copies.py": "saved and copied buffers go on like the original",
    "integrations/torchrl/test_assumptions.py": "what the adapters rely on in TorchRL",
    "memory/crystal/test_contexts.py": "many contexts one after another, and one that is redefined",
    "memory/crystal/test_lanes.py": "a lane among others is that seed alone",
    "memory/crystal/test_limits.py": "where a crystal memory must be something simpler",
    "memory/crystal/test_machines.py": "random operations on a crystal memory and on its twin",
    "memory/crystal/test_reward_scale.py": "the unit of rewards does not matter to a crystal memory",
    "memory/crystal/test_plans.py": "planning changes nothing, applying skips what was rewritten",
    "memory/storage/test_damaged_files.py": "damaged files and files of other memories are refused",
    "memory/storage/test_failed_saves.py": "a save that fails or is killed leaves the file of before",
    "memory/test_copies.py": "copies of memories of every kind",
    "memory/test_defaults.py": "memories of every kind under another default dtype or device of torch",
    "memory/test_machines.py": "random operations on memories of every kind and on their twins",
    "methods/test_every_method.py": "killed runs go on, lanes do not mix, all that is kept is counted",
    "memory/test_vector_environments.py": "from the steps of an environment to the batches of a memory",
    "study/test_ladders.py": "every row of the built-in ladders with its real environments",
    "suites/test_published.py": "published benchmarks whose environments fail, and runs that are killed",
    "study/test_holm.py": "Holm's correction gives the digits of statsmodels",
    "study/test_learning.py": "runs of every design learn a task, and forget as expected",
    "study/test_baselines.py": "the rows of the study of baselines run, with equal numbers of trials",
    "report/test_side_by_side.py": "several studies on one page, in Chromium",
    "report/test_browser.py": "pages in a real browser",
    "report/test_browser_memory.py": "pages of memories, notebooks and live pages in a real browser",
    "report/test_browser_paper.py": "pages on paper, in a real browser",
    "test_benchmarks.py": "the scripts in benchmarks/",
    "test_blocks.py": "the code in README and docs",
    "test_distribution.py": "wheel and sdist",
    "test_docs.py": "the hand-written pages",
    "test_import.py": "importing the package as a whole",
    "test_mirrored.py": "this file",
    "test_pages.py": "the generated pages",
    "test_seams.py": "which parts need which, and what tests may replace",
    "test_sizes.py": "how long files and functions are",
}
"""Test files about a property that crosses modules, or about what is no module, and what each is about."""


def mirrored(module: Path) -> list[str]:
    """Where the tests of a module may be: `a/b.py` → `a/test_b.py`; the tests of `a/__init__.py` are `test_a.py`,
    next to the folder or in it."""
    here = module.relative_to(PACKAGE)
    if module.stem != "__init__":
        return [(here.parent / f"test_{module.stem.strip('_')}.py").as_posix()]
    name = f"test_{module.parent.name}.py"
    return [(folder / name).as_posix() for folder in (here.parent, here.parent.parent)]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def files_of_tests() -> list[str]:
    """The test files in folders that mirror a folder of the package."""
    found = (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
    return sorted(path.as_posix() for path in found if (PACKAGE / path.parent).is_dir())


def test_every_module_has_its_test_file() -> None:
    wanted = [mirrored(module)[0] for module in modules() if module.stem not in UNTESTED]
    assert len(wanted) > 100
    assert [name for name in wanted if not (TESTS / name).exists()] == []


def test_every_test_file_has_its_module_or_a_reason() -> None:
    known = {name for module in modules() for name in mirrored(module)}
    there = files_of_tests()
    assert [name for name in there if name not in known and name not in CROSSING] == []
    assert [name for name in CROSSING if name not in there or name in known] == []
