"""Debian's Chromium, without a window, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> str:
    """The program; the test is skipped where there is none."""
    pytest.importorskip("playwright.sync_api", reason="needs the package playwright: pip install playwright")
    path = next((path for path in map(shutil.which, NAMES) if path), None)
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    return path


@contextmanager
def browser() -> Iterator[Any]:
    """A browser that is closed at the end."""
    program = found()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def opened(chromium: Any, path: Path, width: int = 1200, scheme: str = "light") -> Iterator[Any]:
    """A page in a window of this width. Afterwards: nothing was logged on the console, nothing was loaded."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page, said, loaded = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("figure svg")
    yield page
    context.close()
    assert said == []
    assert [url for url in loaded if url != path.as_uri() and not url.startswith(("data:", "blob:"))] == []


def scrolled(page: Any) -> None:
    """Scroll through the whole page, so that all charts are drawn."""
    page.evaluate(
        "async () => { for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {"
        " scrollTo(0, y); await new Promise((done) => setTimeout(done, 30)); } scrollTo(0, 0); }"
    )


def figure(page: Any, title: str) -> Any:
    """The chart with this title, drawn and in view."""
    found = page.locator("figure", has=page.locator("h3", has_text=title))
    found.evaluate("one => one.scrollIntoView({ block: 'center' })")
    found.locator("svg").first.wait_for()
    found.evaluate("one => one.scrollIntoView({ block: 'center' })")
    return found
