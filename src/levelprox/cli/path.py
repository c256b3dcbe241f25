"""levelprox path: one fit for every budget, in a table."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli._data import (
    NameLookup,
    check_files,
    errors_as_bad_data,
    infer_task,
    infer_task_from_target,
    labels_of,
    page_of,
    read,
    read_test,
    reading_options,
    score_of,
    write_text,
)
from levelprox.cli._options import Options, Task, between, command
from levelprox.cli._output import csv_lines, heading, is_formula, plain, print_json, print_line, print_table, score_name
from levelprox.cli._process import Exit, UsageError, exit_code_of_status, print_notice
from levelprox.exceptions import counted

if TYPE_CHECKING:
    from levelprox.io.data import Data


@command(
    "data",
    *between("target", "zero_based"),
    *between("features", "seed"),
    *between("subsolver", "threads"),
    "out",
    *between("report", "verbose"),
    out=("TABLE.csv", "Write the table: .csv or .json."),
)
def path(options: Options, warned: list[str]) -> int:
    """Fit one model for each budget and show them in a table.

    [bold]levelprox path train.csv --target price --features 0:10 --report page.html[/bold]

    Budgets are numbers of features, levels, or costs (--feature-cost with --budget 5,10,20). By default: 0, 1, 2, ...,
    10 features.
    """
    options.check_model()
    data, test, out, report = options.data, options.test, options.out, options.report
    if out is not None and out.suffix.lower() not in (".csv", ".json"):
        raise UsageError(f"{out}: a table is written as .csv or .json")
    check_files((data, test), (out, report), options.force)
    how = reading_options(options)
    training = read(data, how)
    task = infer_task(options, *infer_task_from_target(training.y))
    path = _Path(options, task, training, None if test is None else read_test(test, training, how))
    fits, interruption = path.fits()
    rows = path.rows(fits)
    _print(path, rows, score_name(fits[0]), warned)  # before the files, which may fail
    for one in _written(path, fits, rows, None if interruption else report):
        if not options.quiet:
            print_notice(f"levelprox: wrote {one}")
    if interruption is not None:
        if report is not None:
            print_notice("levelprox: the page was not written")
        raise interruption
    return max((exit_code_of_status(int(fit.status_), options.accept_inaccurate) for fit in fits), default=Exit.OK)


@dataclass(frozen=True, eq=False)
class _Path:
    """One fit for each budget."""

    options: Options
    task: Task
    data: Data
    test: Data | None

    def fits(self) -> tuple[list[Any], KeyboardInterrupt | None]:
        """Return the fitted models in ascending order of their budgets, and the interrupt if there was one."""
        X, y, weight = self.data.X, labels_of(self.data, self.task), self.data.weight
        known = NameLookup.of(self.data, y)
        model = self.options.estimator(self.task, known)
        with errors_as_bad_data():
            if self.options.level is None:
                return self._one_by_one(model, X, y, weight)
            fits = model.fit_path(X, y, level=self.options.level, sample_weight=weight, **self.data.more)
            return list(fits), None

    def _one_by_one(self, model: Any, X: Any, y: Any, weight: Any) -> tuple[list[Any], KeyboardInterrupt | None]:
        """Fit each budget as `fit` does, with progress over the budgets."""
        from sklearn.base import clone

        costs, features = self.options.budget, self.options.features
        by, budgets = ("n_features", features) if costs is None else ("budget", costs)
        if budgets is None:
            budgets = list(range(min(10, self.data.shape[1]) + 1))
            if not self.options.quiet:
                print_notice(f"levelprox: 0 to {budgets[-1]} features (--features overrides this)")
        done: list[Any] = []
        try:
            with self.options.progress("path", len(budgets), "fits") as advance:
                for one in budgets:
                    done.append(clone(model).set_params(**{by: one}, verbose=0).fit(X, y, weight, **self.data.more))
                    advance()
        except KeyboardInterrupt as signal:
            if not done:
                raise
            return done, signal
        return done, None

    def rows(self, fits: list[Any]) -> list[dict[str, Any]]:
        """Return the rows of the table."""
        from levelprox.report.fitted import feature_names

        rows = []
        for fit in fits:
            row: dict[str, Any] = {"level": fit.level_}
            if self.options.budget is not None:
                row = {"budget": fit.budget_, "spent": fit.certificate_.spent}
            elif self.options.level is None:
                row = {"n_features": int(fit.level_)}
            row |= {"n_selected": int(fit.selected_features_.size), "loss": fit.certificate_.psi}
            row["multiplier"] = fit.multiplier_
            for part, data in (("train", self.data), ("test", self.test)):
                if data is not None:
                    row[f"{part}_score"] = score_of(fit, data, self.task)
            names = feature_names(fit)
            row |= {"status": str(fit.status_), "features": [names[j] for j in fit.selected_features_]}
            rows.append(row)
        return rows


def _written(path: _Path, fits: list[Any], rows: list[dict[str, Any]], report: Path | None) -> Iterator[Path]:
    """Write the output files; yield each of them."""
    out, force = path.options.out, path.options.force
    if out is not None:
        is_json = out.suffix.lower() == ".json"
        text = json_.dumps(plain(rows), indent=2, allow_nan=False) + "\n" if is_json else _csv(rows)
        write_text(out, [text], force)
        yield out
    if report is not None:
        write_text(report, [page_of(fits[-1], path.data, path.test, path.task, fits)], force)
        yield report


def _csv(rows: list[dict[str, Any]]) -> str:
    cells = ([_cell(value) if isinstance(value, list) else value for value in row.values()] for row in rows)
    return csv_lines([list(rows[0]), *cells])


def _cell(names: list[str]) -> str:
    """Join names with ;, or return a JSON list if that would be ambiguous or a formula.

    In the list ; is escaped, so that no spreadsheet takes a part of it for a formula.
    """
    joined = ";".join(names)
    if is_formula(joined) or any(";" in name or not name.isprintable() or is_formula(name) for name in names):
        return json_.dumps(names).replace(";", "\\u003b")
    return joined


def _print(path: _Path, rows: list[dict[str, Any]], score: str, warned: list[str]) -> None:
    n, d = path.data.shape
    if path.options.json:
        about = {"path": path.data.path, "n_samples": n, "n_features": d, "target": path.data.target_name}
        document = {**heading("path"), "task": path.task, "data": about, "score": score, "path": rows}
        print_json({**document, "warnings": warned})
        return
    names = {"n_features": "k", "n_selected": "used", "multiplier": "price", "train_score": score}
    names["test_score"] = f"{score}, test"
    print_line(f"{path.task} on {path.data.path}: {counted(n, 'sample')}, {counted(d, 'feature')}")
    before: list[str] = []
    shown = []
    for row in rows:
        shown.append([*list(row.values())[:-1], _changes(before, row["features"])])
        before = row["features"]
    print_table([*(names.get(key, key) for key in list(rows[0])[:-1]), "features: + in, - out"], shown)
    print_line(
        "price: by how much the loss would fall with one more feature"
        if path.options.level is None
        else "price: how fast the loss falls as the level rises"
    )


def _changes(before: list[str], after: list[str]) -> str:
    """Return which features entered (+) and left (-)."""
    words = [f"+{name}" for name in after if name not in before] + [f"-{name}" for name in before if name not in after]
    return ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
