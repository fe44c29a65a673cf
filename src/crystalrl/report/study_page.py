"""The report of one or several studies as an HTML page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from crystalrl.report import origin, study_charts, text
from crystalrl.report.chart import escape
from crystalrl.report.html import Page, contents, definitions, messages, row_switches, study
from crystalrl.report.running import running
from crystalrl.report.text import Grid
from crystalrl.study.analysis import Results, load_results
from crystalrl.study.schema import ALL
from crystalrl.study.store import stored_parts

TESTS = (
    "Welch’s test; Cohen’s d and Hedges’ g are differences in pooled standard deviations; P(better) is the probability "
    "that a learner of the reference beats one of the row."
)
ORDERS = (
    "sd over orders: standard deviation over the orders of one seed, averaged over seeds; then the components of "
    "order, seed and rest; p: test of equal means of all orders."
)
BEST = (
    "Mean over seeds and 95 % interval (bootstrap over seeds). Bold: better than every row of another method, with at "
    "least ten seeds and p < .05 in all these tests after Holm’s correction. The interquartile mean is not tested."
)

NONE_FINISHED = "No run is finished yet. Tables, tests and curves follow with the first one."
FEW = 3
"""Studies whose titles the title of their page names."""
CHANGED = '<p class="about">A + after a commit: the source had changes that were not committed.</p>'


@dataclass(frozen=True)
class Source:
    """A results folder, what it holds, or why it cannot be shown."""

    folder: Path
    results: Results | None
    problem: str = ""

    @property
    def title(self) -> str:
        """The title of the study, or the name of its folder."""
        named = self.results and (self.results.table.title or str(self.results.table.suite))
        return named or self.folder.name


def source(folder: Path) -> Source:
    """What can be read of a results folder."""
    try:
        return Source(folder, load_results(folder, lenient=True))
    except (ValueError, OSError) as error:
        return Source(folder, None, str(error))


def write_report(folders: Sequence[Path], path: Path) -> Path:
    """Render results folders to one HTML file."""
    return write_page([source(folder) for folder in folders], path)


def write_page(sources: Sequence[Source], path: Path) -> Path:
    """Render what was read of results folders to one HTML file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(sources, path.parent), encoding="utf-8")
    return path


def page(sources: Sequence[Source], place: Path, live: str = "") -> str:
    """The whole page. place: its folder, for links to the data, which a live page has not; live: `Page.document`."""
    made, different = Page(), list(dict.fromkeys(each.title for each in sources))
    title = " · ".join(different) if len(different) <= FEW else f"{len(sources)} studies"
    body, named = [f"<h1>{escape(title)}</h1>"], titles(sources)
    if len(sources) > 1:
        known = {name: each.results for name, each in zip(named, sources, strict=True) if each.results is not None}
        grid, chart = side_by_side(known), study_charts.averages(known)
        body += [contents("study", named), "<h2>Side by side</h2>", made.table(grid), made.figure(chart)]
    for number, (name, each) in enumerate(zip(named, sources, strict=True)):
        heading = f'<h2 class="study" id="study-{number}">{escape(name)}</h2>' if len(sources) > 1 else ""
        body += [heading, _section(made, number, each, None if live else place)]
    return made.document(title, body, live)


def titles(sources: Sequence[Source]) -> list[str]:
    """The title of every study; with its folder, where several have the same."""
    found, top = [each.title for each in sources], os.path.commonpath([each.folder.absolute() for each in sources])
    own = [Path(os.path.relpath(each.folder.absolute(), top)).as_posix() for each in sources]
    return [f"{name} ({at})" if found.count(name) > 1 else name for name, at in zip(found, own, strict=True)]


def side_by_side(studies: Mapping[str, Results], metric: str = "AP") -> Grid:
    """A metric of every row in every study, by their titles; rows of the same name are in one line."""
    cells: dict[str, dict[str, str]] = {}
    for title, results in studies.items():
        for row in results.rows:
            cells.setdefault(row.name, {})[title] = text.interval(row.chosen.metrics[metric])
    lines = [[name, *(mine.get(title, "") for title in studies)] for name, mine in cells.items()]
    return Grid([f"{metric} of", *studies], lines)


def _section(made: Page, number: int, each: Source, place: Path | None) -> str:
    results = each.results
    if results is None:
        begun = running(made, each.folder)
        problem = NONE_FINISHED if begun and not stored_parts(each.folder, "scores", []) else each.problem
        return study(number, [], [messages([problem]), begun, _links(each.folder, place)])
    names, first = [row.chosen.name for row in results.rows], len(made.parts)
    known = {word: row.chosen.name for row in results.rows for word in (row.name, row.chosen.name)}
    begin = [messages([*results.problems, *origin.incomplete(results)]), *_overview(results)]
    begin.append(running(made, each.folder))
    parts = [
        *_main(made, results, known),
        *_over_time(made, results),
        *_tests(made, results, known),
        *_origin(made, each, place, known),
    ]
    switches = row_switches(names) if len(names) > 1 else ""
    bar = f'<div class="bar">{contents("part", made.parts[first:], first)}{switches}</div>'
    return study(number, names, [*begin, bar, *parts])


def _overview(results: Results) -> list[str]:
    count = len(set(results.tasks))
    again = f", then {redefined} of them redefined" if (redefined := len(results.tasks) - count) else ""
    budgets = {row.spec.budget_mb for row in results.rows}
    room = f"{_span(budgets)} MB" if all(budgets) else f"{_span(row.capacity for row in results.rows)} experiences"
    steps = _span(each for row in results.rows for each in row.stage_steps)
    setup = f"{text.sequence(count)}{again}, {steps} steps each. The memory holds {room}. "
    said = f'<p class="seen">{escape(text.headline(results))}</p>'
    return [f"<p>{escape(setup + results.suite_note)}</p>", said]


def _span(values: Iterable[float]) -> str:
    """The smallest and the largest of several numbers, or the one that all are."""
    known = set(values)
    return " to ".join(f"{each:,}" if each == int(each) else f"{each:g}" for each in sorted({min(known), max(known)}))


def _main(made: Page, results: Results, names: Mapping[str, str]) -> list[str]:
    return [
        made.heading("Results"),
        made.figure(study_charts.average(results)),
        made.table(text.main_table(results), names),
        f'<p class="about">{escape(BEST)}</p>' + _glossary(results, text.SHORT),
        "<h3>The paper’s numbers and ours</h3>" + paper
        if (paper := made.table(text.paper_table(results), names))
        else "",
        made.figure(study_charts.profiles(results)),
        "<h3>Methods compared</h3>" + made.table(text.design_table(results), names, "words"),
    ]


def _over_time(made: Page, results: Results) -> list[str]:
    charts = (
        study_charts.course, study_charts.tasks_over_time, study_charts.learning_matrix, study_charts.learning_curves,
        study_charts.forgetting_by_task, study_charts.phases,
    )  # fmt: skip
    missing = "" if results.memory else "There is no memory table that can be read: phases and bytes are not known."
    tasks = text.task_table(results)
    titled = "<h3>Each task right after learning it → at the end</h3>" if tasks.lines else ""
    drawn = [made.figure(chart(results)) for chart in charts]
    return [made.heading("Over time"), *drawn, messages([missing] if missing else []), titled + made.table(tasks)]


def _tests(made: Page, results: Results, names: Mapping[str, str]) -> list[str]:
    parts = []
    if len(results.rows) > 1:
        family = f'<p class="about">{escape(text.family(results))} {escape(TESTS)}</p>'
        parts = [made.heading("Tests"), made.table(text.comparison_table(results), names), family]
        parts += [made.figure(study_charts.better(results)), made.figure(study_charts.differences(results))]
    titled = (
        ("One setting at a time", text.sensitivity_table(results), ""),
        ("Task orders", text.order_table(results), ORDERS),
        ("All values tried", text.tuning_table(results), "◂ was chosen on the tuning seeds only."),
        ("More metrics", text.main_table(results, text.MORE), ""),
    )
    parts.append(made.figure(study_charts.sensitivity(results)))
    for title, grid, note in titled:
        if grid.lines:
            parts += [
                f"<h3>{title}</h3>",
                made.table(grid, names),
                f'<p class="about">{escape(note)}</p>' if note else "",
            ]
    return [*parts, _glossary(results, text.MORE)]


def _origin(made: Page, each: Source, place: Path | None, names: Mapping[str, str]) -> list[str]:
    assert each.results is not None
    shared, varied = origin.settings(each.results)
    found, cost = origin.versions(each.folder), origin.cost_table(each.results, each.folder)
    return [
        made.heading("What was run"),
        made.table(varied, names, "words"),
        "<details open><summary>Settings of all rows</summary>" + definitions(shared) + "</details>",
        "<h3>Computed with</h3>" + definitions(found.items()) + CHANGED * ("+" in found["commit"]),
        "<h3>Cost</h3>" + (made.table(cost, names) or messages(["Memory and time were not recorded."])),
        _links(each.folder, place),
        "<h3>Cite</h3>" + made.copied(origin.bibtex(found)),
    ]


def _links(folder: Path, place: Path | None) -> str:
    """Relative links to the stored files that exist."""
    if place is None:
        return ""
    links = []
    for name in ("spec.toml", "versions.json", "runs", *(f"{table}.parquet" for table in reversed(ALL))):
        if (folder / name).exists():
            where = Path(os.path.relpath(folder / name, place)).as_posix()
            links.append(f'<a href="{escape(_quoted(where))}">{name}</a>')
    return f"<h3>Data</h3><nav>{''.join(links)}</nav>" if links else ""


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path) if not path.startswith("/") else f"file://{quote(path)}"


def _glossary(results: Results, names: tuple[str, ...]) -> str:
    shown = [name for name in names if name == "IQM" or name in results.rows[0].chosen.metrics]
    return definitions((name, text.DEFINITIONS[name]) for name in shown)
