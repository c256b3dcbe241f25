"""Figures of a run, from its rows alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bars import CONTINUATION, DIRECT, SUBSET, answered, pairs
from benchmarks.measurements import Row
from experiments.results import COLORS, panels, save


def draw(rows: list[Row], folder: Path) -> None:
    """Draw the figures for which there are rows."""
    starts = [pair for start in (DIRECT, CONTINUATION) for pair in pairs(rows, "skglm", start, "skglm")]
    if any(answered(ours) and answered(theirs) for ours, theirs in starts):
        _skglm(rows, folder / "skglm.png")
    peers = {row["peer"] for row in rows if row["table"] == "at most k"} - {SUBSET}
    subsets = [pair for peer in peers for pair in pairs(rows, "at most k", SUBSET, peer)]
    if any(answered(ours) and answered(theirs) for ours, theirs in subsets):
        _subsets(rows, folder / "at_most_k.png")


def _skglm(rows: list[Row], path: Path) -> None:
    """Draw the ratios of loss and time to skglm at its points against its nonzeros."""
    figure, axes = panels(1, 2, 4.0, 3.2)
    for start, color in ((DIRECT, COLORS[0]), (CONTINUATION, COLORS[1])):
        both = [pair for pair in pairs(rows, "skglm", start, "skglm") if answered(pair[0]) and answered(pair[1])]
        alone = [p for p in pairs(rows, "skglm", start, "skglm from zero") if answered(p[0]) and answered(p[1])]
        name = start.removeprefix("levelprox ")
        for axis, column, compared in ((axes[0, 0], "loss", both), (axes[0, 1], "seconds", alone)):
            kept = [(ours, theirs) for ours, theirs in compared if theirs[column] > 0]
            axis.plot(
                [theirs["nonzeros"] for _, theirs in kept],
                [ours[column] / theirs[column] for ours, theirs in kept],
                ".",
                color=color,
                markersize=4,
                label=name,
            )
    for axis, title in ((axes[0, 0], "loss over skglm's"), (axes[0, 1], "seconds over skglm's")):
        axis.axhline(1.0, color="0.4", linewidth=0.8)
        axis.set(xscale="log", xlabel="nonzeros of skglm's point", ylabel=title)
    axes[0, 1].set_yscale("log")
    axes[0, 0].legend(fontsize=7)
    save(figure, path)


def _subsets(rows: list[Row], path: Path) -> None:
    """Draw the ratios of loss at equal k and of time to levelprox, for every competitor."""
    figure, axes = panels(1, 2, 4.6, 3.6)
    names = dict.fromkeys(row["peer"] for row in rows if row["table"] == "at most k" and row["peer"] != SUBSET)
    for peer, color in zip(names, COLORS, strict=False):
        both = [pair for pair in pairs(rows, "at most k", SUBSET, peer) if answered(pair[0])]
        good = [(ours, theirs) for ours, theirs in both if answered(theirs) and ours["loss"] > 0]
        axes[0, 0].plot(
            [ours["loss"] for ours, _ in good],
            [theirs["loss"] / ours["loss"] for ours, theirs in good],
            ".",
            color=color,
            label=peer,
        )
        timed = [(ours, theirs) for ours, theirs in both if theirs["seconds"] != ""]
        axes[0, 1].loglog(
            [ours["seconds"] for ours, _ in timed], [theirs["seconds"] for _, theirs in timed], ".", color=color
        )
    axes[0, 0].axhline(1.0, color="0.4", linewidth=0.8)
    axes[0, 0].set(xscale="log", xlabel="loss of levelprox", ylabel="loss over that of levelprox")
    axes[0, 0].xaxis.set_minor_formatter("")  # over less than a decade the minor ticks write over each other
    axes[0, 1].axline((1.0, 1.0), (2.0, 2.0), color="0.4", linewidth=0.8)
    axes[0, 1].set(xlabel="seconds of levelprox", ylabel="seconds of the others")
    if axes[0, 0].get_legend_handles_labels()[0]:
        axes[0, 0].legend(fontsize=7)
    save(figure, path)
