"""Hooks of MkDocs: pages made from files of the root, and a navigation that names the pages that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
"""Page → the file of the root that it shows."""
FOLDERS = ("decisions/",)
"""Entries of the navigation that stand for all pages of a folder."""
SOURCE_LINK = re.compile(r'href="(?!https?:)([^"#:]+)\.(?:md|ipynb)(#[^"]*)?"')
"""A link in a notebook, which MkDocs does not change."""
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^()\s]+)\)")


def on_config(config: Any) -> Any:
    """Fill in the navigation: pages that do not exist yet are left out, and pages that it does not name are added."""
    docs = Path(config["docs_dir"])
    there = sorted(path.relative_to(docs).as_posix() for kind in ("*.md", "*.ipynb") for path in docs.rglob(kind))
    nav = known(config["nav"], {*there, *FROM_ROOT})
    rest = [page for page in there if page not in set(named(nav))]
    config["nav"] = [*nav, {"More": rest}] if rest else nav
    return config


def known(entries: list[Any], pages: set[str]) -> list[Any]:
    """The entries whose pages exist; a folder becomes a list of its pages."""
    kept: list[Any] = []
    for entry in entries:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            value = known(value, pages)
        elif value in FOLDERS:
            value = sorted(page for page in pages if page.startswith(value))
        elif value not in pages:
            continue
        kept.append(value if title is None else {title: value})
    return kept


def named(entries: list[Any]) -> Iterator[str]:
    """All pages of a navigation."""
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from named(value) if isinstance(value, list) else [value]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made from files of the root."""
    from mkdocs.structure.files import File

    for page, source in FROM_ROOT.items():
        files.append(File.generated(config, page, content=moved((ROOT / source).read_text())))
    return files


def moved(text: str) -> str:
    """A page of the root as a page of docs/: its links lead to the same places."""
    pages = {source: page for page, source in FROM_ROOT.items()}

    def link(match: re.Match[str]) -> str:
        target, hash_, anchor = match[1].partition("#")
        place = pages.get(target) or target.removeprefix("docs/")
        return f"]({place}{hash_}{anchor})"

    return LINK.sub(link, text)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to source files, which the site does not hold, become their names."""
    return re.sub(r"\[(`[^`]+`)\]\((?:\.\./)+(?:src|tests|examples|benchmarks|tools|results)/[^)]*\)", r"\1", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The page of a notebook: its links lead to pages instead of their sources, and it offers the notebook itself."""
    source = Path(page.file.src_uri)
    if source.suffix != ".ipynb":
        return output
    linked = SOURCE_LINK.sub(r'href="\1.html\2"', output)
    return linked.replace("</h1>", f'</h1><p><a href="{source.name}" download>Download this notebook</a></p>', 1)
