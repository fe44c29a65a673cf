"""Processor time of gradient steps of a library with its own buffers and with ours, all full, in interleaved rounds."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Result, Setting, machine
from benchmarks.harness.timing import Job, interleaved, medians
from benchmarks.libraries.interface import BATCH, SLOTS, Library, library
from crystalrl import CrystalParams

NEVER = 10**9
KINDS = {
    "crystal memory without anchors": CrystalParams.anchored(every=NEVER, kappa=0.0, settle=None),
    "crystal memory": CrystalParams.anchored(every=NEVER),
}


def milliseconds(lib: Library, algorithm: str, rounds: int) -> dict[str, float]:
    """Median of a gradient step, by buffer."""
    kinds = dict(KINDS) if lib.without_anchors else {"crystal memory": KINDS["crystal memory"]}
    jobs = {kind: Job(lib.stepper(algorithm, buffer), 8) for kind, buffer in {**lib.stock, **kinds}.items()}
    return medians(interleaved(jobs, rounds), 1e-3)


def measure(setting: Setting, name: str) -> Iterator[Result]:
    lib = library(name)
    times = {algorithm: milliseconds(lib, algorithm, 1 if setting.quick else 11) for algorithm in lib.algorithms}
    described = f"{SLOTS:,} experiences, networks {lib.networks}, batch {BATCH}"
    yield {"setting": described, "algorithms": times, "machine": {**machine(), **lib.packages}}


def block(result: Result) -> str:
    kinds = list(next(iter(result["algorithms"].values())))
    rows = [[name, *(f"{each[kind]:.2f} ms" for kind in kinds)] for name, each in result["algorithms"].items()]
    setting = result["setting"].partition(", processor")[0]  # earlier results go on
    text = (
        "Processor time in interleaved rounds: draw, loss, backward pass, optimiser step, report of the TD errors; "
        f"without consolidation. {setting}. {measured_on(result['machine'])}"
    )
    return f"{table(['gradient step', *kinds], rows)}\n\n{text}"
