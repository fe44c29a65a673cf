"""`python -m tools.links`: every link in the markdown files leads to a file, and every anchor to a heading."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.site import FROM_ROOT

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^()\s]+)(?: \"[^\"]*\")?\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")


def pages(root: Path = ROOT) -> list[Path]:
    """The markdown files of the project."""
    return [
        *sorted(root.glob("*.md")),
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / ".github").rglob("*.md")),
    ]


def broken(page: Path, text: str | None = None) -> Iterator[str]:
    """The broken links of a page, or of a text in its place."""
    for link in LINK.findall(CODE.sub("", FENCE.sub("", page.read_text() if text is None else text))):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        place = _source(page.parent / target) if target else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place.read_text())):
            yield link


def _source(place: Path) -> Path:
    """The file itself, or the file of the root that the site shows in its place."""
    try:
        name = place.resolve().relative_to(ROOT / "docs").as_posix()
    except ValueError:
        return place
    return ROOT / FROM_ROOT[name] if name in FROM_ROOT else place


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, and those it sets itself."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M)
    return {slug(heading) for heading in headings} | set(re.findall(r"(?:\{#|id=\")([\w-]+)", text))


def slug(heading: str) -> str:
    """The anchor that MkDocs and GitHub give to a heading."""
    plain = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower())
    return re.sub(r"[\s]+", "-", plain)


def main() -> int:
    """Print every broken link; the exit status."""
    found = [f"{page.relative_to(ROOT)}: {link}" for page in pages() for link in broken(page)]
    for line in found:
        print(f"links: wanted a file or a heading, got {line}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
