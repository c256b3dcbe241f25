"""The main job: a sparse logistic model with at most 8 of 30 features, and the proof of what came back.

    make demo        (or: python examples/demo.py)

The data set ships with scikit-learn: 569 tumours, 30 measurements each, benign or malignant.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from levelprox import LinearModel, Problem, best_subset, certify, constraints, report, solve

BUDGET = 8
THRESHOLD = 0.2  # a coefficient this large costs one whole feature; smaller ones cost a part


def main() -> None:
    """Select, refit, certify."""
    data = load_breast_cancer()
    labels = 2.0 * data.target - 1
    X, X_test, b, b_test = train_test_split(data.data, labels, test_size=0.3, random_state=0, stratify=labels)
    scaler = StandardScaler().fit(X)
    X, X_test = (np.column_stack([scaler.transform(part), np.ones(len(part))]) for part in (X, X_test))
    n, d = X.shape[0], X.shape[1] - 1
    intercept_is_free = np.append(np.ones(d), 0.0)
    print(f"{n} training samples, {d} features; at most {BUDGET} of them may be used.\n")

    # Half a feature below the budget: seven features paid in full and one in part, so that the level
    # holds the model back and its multiplier means something.
    problem = Problem(
        LinearModel(X, b, "logistic"),
        constraints.MCP.from_threshold(THRESHOLD),
        level=BUDGET - 0.5,
        weights=intercept_is_free,
    )
    began = time.perf_counter()
    progress = report.ProgressLine(sys.stdout, every=0.0)
    selection = solve(problem, callback=progress)
    progress.close()
    print(f"\n{selection.message}")
    print(f"Here the loss falls at the rate {selection.multiplier:.2g} per feature of budget (the multiplier).\n")

    # Refit the chosen features under the whole budget: now each is paid in full.
    chosen = np.flatnonzero(selection.x)
    whole_budget = replace(problem, level=float(BUDGET))
    refit = solve(whole_budget.restrict(chosen))
    x = np.zeros(d + 1)
    x[chosen] = refit.x
    seconds = time.perf_counter() - began

    kept = np.flatnonzero(x[:d])
    assert np.all(np.abs(x[kept]) >= THRESHOLD), "a kept coefficient is below the threshold"
    assert len(kept) <= BUDGET, "more features than the budget allows"
    print(f"{len(kept)} features, each coefficient above the threshold {THRESHOLD}, {seconds:.2f} s:")
    for j in kept[np.argsort(-np.abs(x[kept]))]:
        print(f"  {data.feature_names[j]:<24} {x[j]:+8.3f}")

    error = np.mean(np.where(X_test @ x > 0, 1, -1) != b_test)
    print(f"\nTest error {100 * error:.1f} % of {len(b_test)} samples.\n")
    print("Certificate, recomputed from the data:")
    print(certify(whole_budget, x))

    # The same in one call, where features are to be counted and nothing else: no threshold, no level.
    best = best_subset(problem.objective, BUDGET, keep=[d])
    print(f"\nbest_subset: {best.message}")
    print(f"  {', '.join(data.feature_names[best.support])}")
    if best.addition is not None:
        print(f"  One more, {data.feature_names[best.addition]}, would gain {best.multiplier:.2g}.")


if __name__ == "__main__":
    main()
