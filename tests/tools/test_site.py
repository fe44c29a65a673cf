"""The site: its navigation, its pages, and a strict build."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
import yaml

import crystalrl
from crystalrl import losses, results, theory
from crystalrl.integrations import anchors, minari, sb3, tianshou, torchrl
from tools.site import FROM_ROOT, ROOT, known, moved, named

OTHER = {"crystalrl.Task", "crystalrl.Sequence"}
"""Names of `crystalrl` that are on another page than its memories."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "JUPYTER_PLATFORM_DIRS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_strict_build_has_every_page_search_and_a_dark_mode(site: Path) -> None:
    sources = [path.relative_to(ROOT / "docs") for kind in ("*.md", "*.ipynb") for path in (ROOT / "docs").rglob(kind)]
    assert [str(path) for path in sources if not (site / path.with_suffix(".html")).is_file()] == []
    assert all((site / page).with_suffix(".html").is_file() for page in FROM_ROOT)
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert len({entry["location"].partition("#")[0] for entry in found}) > 40
    front = (site / "index.html").read_text()
    assert 'data-md-color-scheme="slate"' in front
    assert "fonts.googleapis.com" not in front


@pytest.mark.slow
def test_the_pages_of_a_version_are_published_next_to_earlier_ones(tmp_path: Path) -> None:
    """`make docs-version`, as the workflow of a release runs it, in a clone, without pushing."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True)
    author = {
        f"GIT_{role}_{what}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    env = {**os.environ, **author, "NO_MKDOCS_2_WARNING": "1", "JUPYTER_PLATFORM_DIRS": "1"}
    command = ["make", "--silent", "-o", "setup", f"BIN={Path(sys.executable).parent}", "docs-version"]
    done = subprocess.run(command, cwd=tmp_path / "clone", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    def published(path: str) -> str:
        shown = ["git", "show", f"gh-pages:{path}"]
        return subprocess.run(shown, cwd=tmp_path / "clone", check=True, capture_output=True, text=True).stdout

    (version,) = json.loads(published("versions.json"))
    assert (version["version"], version["aliases"]) == (crystalrl.__version__, ["latest"])
    assert "crystalrl" in published(f"{crystalrl.__version__}/index.html")
    assert "latest/" in published("index.html")


def test_notebooks_show_what_they_printed_and_drew(site: Path) -> None:
    page = (site / "tutorials/own-loop.html").read_text()
    assert "return on both tasks after each, crystal" in page
    assert "data:image/png;base64" in page


def references(page: str) -> list[str]:
    """What a page links to or shows from the site itself."""
    found = re.findall(r'(?:href|src)="?([^"\s>]+)', page)
    return [unescape(unquote(link)) for link in found if not re.match(r"(https?|data|mailto|javascript):", link)]


def test_every_link_leads_to_a_page_and_a_heading(site: Path) -> None:
    """Those of notebooks, too, which the strict build does not check. The page for errors 404 links to the root."""
    pages = {page.resolve(): page.read_text() for page in site.rglob("*.html") if page.name != "404.html"}
    anchors = {page: set(re.findall(r'\b(?:id|name)="?([^"\s>]+)', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for link in references(text):
            target, _, anchor = link.partition("#")
            place = (page.parent / target).resolve() if target else page
            place = place / "index.html" if place.is_dir() else place
            if not place.exists() or (anchor and anchor not in anchors.get(place, {anchor})):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_a_notebook_links_to_pages_and_can_be_downloaded(site: Path) -> None:
    found = references((site / "tutorials/own-study.html").read_text())
    assert {"../studies.html", "../tasks.html", "report.html", "own-study.ipynb"} <= set(found)
    assert (site / "tutorials/own-study.ipynb").is_file()


def test_the_reference_comes_from_the_docstrings(site: Path) -> None:
    page = re.sub(r"<[^>]+>", "", (site / "reference/memories.html").read_text())
    assert "Replay memory in which every experience has a state c in [0, 1]" in page


def defined(module: ModuleType) -> list[str]:
    """The public names that a module without `__all__` defines itself."""
    return [name for name, value in vars(module).items() if name[0] != "_" and _home(value) == module.__name__]


def _home(value: object) -> str:
    return getattr(value, "__module__", "") if callable(value) else ""


def public() -> dict[str, set[str]]:
    """Page of the reference → public names, with their modules, that it must explain."""
    listed = {module: module.__all__ for module in (sb3, torchrl, tianshou, theory)}
    listed |= {module: defined(module) for module in (minari, anchors, results, losses)}
    names = {module: {f"{module.__name__}.{name}" for name in found} for module, found in listed.items()}
    top = {f"crystalrl.{name}" for name in crystalrl.__all__ if name != "__version__"}
    names[losses] -= {"crystalrl.losses.Penalty", "crystalrl.losses.with_penalty"}  # of agents and methods
    return {
        "memories.md": {*(top - OTHER), "crystalrl.memory.crystal.background.Background"},
        "losses.md": names[losses] | names[anchors],
        "integrations.md": names[sb3] | names[torchrl] | names[tianshou] | names[minari],
        "studies.md": OTHER | names[results],
        "theory.md": names[theory],
    }


def used(programs: Iterable[str]) -> set[str]:
    """Names, with their modules, that programs import and then use; one after another, in one namespace."""
    places: dict[str, str] = {}
    found: set[str] = set()
    for node in (node for program in programs for node in ast.walk(ast.parse(program))):
        if isinstance(node, ast.ImportFrom):
            places |= {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Name) and node.id in places:
            found.add(places[node.id])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in places:
            found.add(f"{places[node.value.id]}.{node.attr}")
    return found


@pytest.mark.parametrize("page", public())
def test_every_public_name_is_explained_and_used_in_an_example(page: str) -> None:
    """`test_blocks` executes the examples."""
    text = (ROOT / "docs/reference" / page).read_text()
    explained = set(re.findall(r"^::: ([\w.]+)", text, re.M))
    assert public()[page] - explained == set()
    assert public()[page] - used(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)) == set()


def test_a_name_that_is_only_imported_or_is_of_another_module_is_not_an_example() -> None:
    programs = ["from crystalrl import Anchor, Task, results\nresults.load(1)", "from other import Anchor\nAnchor()"]
    assert used(programs) == {"crystalrl.results", "crystalrl.results.load", "other.Anchor"}


def test_the_navigation_names_no_page_twice_and_leaves_out_what_is_missing() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = list(named(nav))
    assert len(pages) == len(set(pages))
    shown = known([{"A": ["a.md", "b.md"]}, {"All": "decisions/"}], {"a.md", "decisions/x.md"})
    assert shown == [{"A": ["a.md"]}, {"All": ["decisions/x.md"]}]


def test_links_of_a_page_of_the_root_lead_to_the_same_places() -> None:
    text = "[a](docs/tasks.md#x) [b](CONTRIBUTING.md#y) [c](https://example.org/docs/z)"
    assert moved(text) == "[a](tasks.md#x) [b](contributing.md#y) [c](https://example.org/docs/z)"
