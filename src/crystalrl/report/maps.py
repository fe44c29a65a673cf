"""Maps of the experiences in a memory: similar observations lie close together.

PCA needs nothing else; t-SNE, silhouettes and UMAP need `pip install 'crystalrl[inspect]'`.
"""

from __future__ import annotations

import base64
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.dynamics import PHASES
from crystalrl.params import CrystalParams
from crystalrl.report.chart import Chart
from crystalrl.report.memory_charts import RETURN
from crystalrl.study.inspection import Inspected

HINT = "pip install 'crystalrl[inspect]'"
MOST = 2000
"""Experiences on a map: t-SNE and UMAP take seconds for this many."""
FRAMES = 300
"""Experiences on a map whose observation can be seen as a frame; every further one would make the page larger."""
NUMBERS = 16
"""Numbers of an observation or action that are shown with an experience; of longer ones, none."""
COLOURS = ("phase", "task", "c", "interference", "change of c", "melting", "utility", "TD error", "reward", "age")
AXES = {"PCA": "principal component", "t-SNE": "t-SNE", "UMAP": "UMAP"}
"""What the axes of each map are called, before their number. Only PCA has a unit: standard deviations."""
Columns = Mapping[str, NDArray[Any]]


def last_contents(one: Inspected) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """The contents at the last known moment, at most `MOST` evenly spaced ones, and their places in `one.contents`."""
    table = one.contents or {}
    if not table:
        return {}, np.empty(0, np.int64)
    at = np.flatnonzero(table["step"] == table["step"].max()) if "step" in table else np.arange(len(table["c"]))
    at = at[np.arange(min(MOST, len(at))) * len(at) // max(min(MOST, len(at)), 1)]
    return {name: column[at] for name, column in table.items()}, at


def vectors(held: Columns, scaled: bool = True) -> NDArray[np.float64]:
    """Observations [n, D]; numbers that never change are left out. scaled: every number in its standard deviations."""
    names = numbered("v", held)
    found = np.stack([held[name].astype(float) for name in names], axis=1) if names else np.empty((len(held["c"]), 0))
    spread = found.std(axis=0)
    kept = np.isfinite(spread) & (spread > 0)
    return np.asarray((found[:, kept] - found[:, kept].mean(axis=0)) / (spread[kept] if scaled else 1.0))


def pca(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two directions of largest variance."""
    flat = np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))
    _, _, axes = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # the same signs on every machine
    return np.asarray(flat @ (axes * signs[:, None])[:2].T)


def tsne(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """t-SNE by scikit-learn, started from PCA: deterministic."""
    from sklearn.manifold import TSNE

    made = TSNE(perplexity=min(30.0, (len(points) - 1) / 3), init="pca", random_state=0, n_jobs=1)
    return np.asarray(made.fit_transform(points), float)


def umap(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """UMAP by umap-learn with a fixed seed: deterministic."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from umap import UMAP

        made = UMAP(n_neighbors=min(15, len(points) - 1), random_state=0, n_jobs=1)
        return np.asarray(made.fit_transform(points), float)


METHODS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {"PCA": pca, "t-SNE": tsne, "UMAP": umap}


def maps(one: Inspected, quick: bool = False) -> tuple[list[Chart], list[str]]:
    """A map by each method, and messages about methods whose package is missing. quick: by PCA only."""
    held, at = last_contents(one)
    if len(held.get("c", ())) < 10:
        return [], []
    points, found, missing = vectors(held), [], []
    for method, place in METHODS.items() if not quick else [("PCA", pca)]:
        try:
            found.append(_map(one, held, at, method, place(points if points.shape[1] else np.zeros((len(points), 2)))))
        except ModuleNotFoundError as error:
            missing.append(f"{method} needs the package {error.name}: {HINT}")
    return found, missing


def _map(one: Inspected, held: Columns, at: NDArray[np.int64], method: str, places: NDArray[np.float64]) -> Chart:
    now = float(held["step"].max()) if "step" in held else float(held["number"].max()) + 1
    change = drifts(one.params, held)
    data = {
        "x": places[:, 0],
        "y": places[:, 1],
        "number": held["number"],
        "phase": np.array([PHASES[int(phase)] for phase in held["phase"]], object),
        "task": np.array(
            [f"task {task + 1}" if task >= 0 else "not known" for task in held["arrived"].tolist()], object
        ),
        "c": held["c"],
        "interference": held["interference"],
        "change of c": change,
        "melting": np.where(change < 0, "c falls", "c does not fall").astype(object),
        "utility": held["utility"],
        "TD error": held["error"],
        "reward": held["reward"],
        "age": now - held["number"],
        "slot": held["slot"],
    }
    known = "episode_return" in held and bool(np.isfinite(held["episode_return"].astype(float)).any())
    data |= {RETURN: held["episode_return"].astype(float)} if known else {}
    data |= shown("observation", "v", held) if one.frames is None else {}
    data |= shown("action", "a", held)
    part = "" if len(at) >= one.stored else f"{len(at):,} of {one.stored:,} experiences, evenly spaced over the slots. "
    about = (
        f"{part}Similar observations lie close together. {silhouettes(places, data)}Contradicted experiences have a "
        f"high interference; those whose c falls melt: {int((change < 0).sum()):,} of these. Click a point, or press "
        "Enter, to see the experience."
    )
    options = {} if one.frames is None else {"frames": pictures(one.frames[at])}
    name = f"map-{method.lower().replace('-', '')}"
    unit = " (standard deviations)" if method == "PCA" else ""
    return Chart(
        name, f"Map of the experiences: {method}", about, "points", data, x=f"{AXES[method]} 1{unit}",
        y=f"{AXES[method]} 2{unit}", colours=(*COLOURS, *((RETURN,) if known else ())), options=options,
    )  # fmt: skip


def shown(what: str, letter: str, held: Columns) -> dict[str, NDArray[Any]]:
    """The numbered columns of a letter as one column of text; none if they are many, as what is stored of very long
    observations is projected, and none where they were not recorded.
    """
    names = numbered(letter, held)
    if not 0 < len(names) <= NUMBERS:
        return {}
    lines = np.stack([held[name] for name in names], axis=1)
    return {what: np.array([", ".join(f"{value:.3g}" for value in line) for line in lines], object)}


def numbered(letter: str, held: Columns) -> list[str]:
    """Names such as v0, v1, …"""
    return [name for name in held if name[:1] == letter and name[1:].isdigit()]


def drifts(params: CrystalParams, held: Columns) -> NDArray[np.float64]:
    """Expected change of c per unit of time if all outputs are settled: negative where an experience melts."""
    c, interference, utility = (held[name].astype(float) for name in ("c", "interference", "utility"))
    gain, leak = float(np.max(params.alpha)) * utility, float(np.max(params.leak))
    if params.melt is None:
        return np.asarray(gain * (1 - c) - (float(np.max(params.beta)) * interference + leak) * c)
    return np.asarray(gain * (1 - interference) * (1 - c) - (float(np.max(params.melt)) * interference + leak) * c)


def silhouettes(places: NDArray[np.float64], data: Columns) -> str:
    """How clearly phases and tasks are apart on a map, in a sentence; empty without scikit-learn."""
    try:
        from sklearn.metrics import silhouette_score
    except ModuleNotFoundError:
        return ""
    known = {name: data[name] for name in ("phase", "task") if 1 < len(set(data[name].tolist())) < len(places)}
    scores = [f"{name}s {silhouette_score(places, labels):.2f}" for name, labels in known.items()]
    return f"Silhouette (1: clearly apart, 0: mixed) of {', '.join(scores)}. " if scores else ""


def pictures(frames: NDArray[Any]) -> list[str]:
    """Images as data addresses; empty ones where there would be too many."""
    shown = set((np.arange(min(FRAMES, len(frames))) * len(frames) // max(min(FRAMES, len(frames)), 1)).tolist())
    return [png(frame) if place in shown else "" for place, frame in enumerate(frames)]


def png(frame: NDArray[Any]) -> str:
    """An image [height, width] or [height, width, 3] as a data address of a PNG file."""
    low, high = float(frame.min()), float(frame.max())
    plain = frame if frame.dtype == np.uint8 else 255.0 * (frame - low) / max(high - low, 1e-9)
    pixels = np.ascontiguousarray(plain, np.uint8)
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + pixels[line].tobytes() for line in range(height))
    kind = 2 if pixels.ndim == 3 else 0
    head = struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)
    parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(rows, 9)), _chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
