"""What the experiments share: their options, a CSV file, the look of a figure."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

#: Distinguishable without colour vision, too (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def options(doc: str) -> argparse.ArgumentParser:
    """`--quick` and `--out`, with the first line of the module's docstring as the description."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small settings: under a minute")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for CSV files and figures")
    return parser


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """One line per row, under the names of the first row; floats with all their digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {path}")


def panels(rows: int, columns: int, width: float = 3.1, height: float = 2.7) -> tuple[Figure, NDArray[np.object_]]:
    """Return a figure of rows × columns panels, each with a light grid and no frame on top and right."""
    figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        _style(axis)
    return figure, axes


def legend_below(figure: Figure, axes: NDArray[np.object_]) -> None:
    """One legend for all panels, with the names that any of them has, where it covers no curve."""
    named = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if named:
        columns = max(1, int(figure.get_figwidth() / 1.5))  # as many names as have room side by side
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, fontsize=8)


def save(figure: Figure, path: Path) -> None:
    """Write the figure as PNG, or in the format of the file name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"written: {path}")


def _style(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(True, which="major", linewidth=0.4, color="0.85")
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.xaxis.label.set_size(8)
    axis.yaxis.label.set_size(8)
