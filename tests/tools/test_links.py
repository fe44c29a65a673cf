"""Links in the markdown files lead somewhere."""

from pathlib import Path

import pytest

from tools.links import ROOT, broken, pages, slug

PAGE = """# One page

[a file](other.md) [no file](nowhere.md) [a heading](#one-page) [no heading](#two-pages)
[there](other.md#in-words) [not there](other.md#out) [away](https://example.org/x) [a picture](a(b).svg)
`[code](nothing.md)`

```text
[in a block](nothing.md)
```
"""


def test_links_to_no_file_and_to_no_heading_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("## In words\n")
    (tmp_path / "page.md").write_text(PAGE)
    assert list(broken(tmp_path / "page.md")) == ["nowhere.md", "#two-pages", "other.md#out"]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("In words", "in-words"), ("`CrystalParams`: what for?", "crystalparams-what-for"), ("[A](b.md) C", "a-c")],
)
def test_anchors_are_those_of_the_site(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_pages_that_the_site_makes_from_files_of_the_root_are_there() -> None:
    page = ROOT / "docs" / "page.md"
    link = "contributing.md#versions-and-deprecations"
    assert list(broken(page, f"[a]({link}) [b](contributing.md#no-such)")) == ["contributing.md#no-such"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_page_of_the_project_has_a_broken_link(page: Path) -> None:
    assert list(broken(page)) == []
