"""The main job: a classifier with at most 8 of 30 features, and the proof of what came back.

    make demo        (or: python examples/demo.py)

The data set ships with scikit-learn: 569 tumours, 30 measurements each, benign or malignant.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from levelprox import SparseClassifier, SparseClassifierCV

BUDGET = 8


def main() -> None:
    """Fit under a budget of features, then under a level, then let cross-validation choose."""
    data = load_breast_cancer()
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.3, random_state=0, stratify=data.target)
    print(f"{X.shape[0]} training samples, {X.shape[1]} features; at most {BUDGET} of them may be used.\n")

    began = time.perf_counter()
    model = SparseClassifier(n_features=BUDGET).fit(X, y)
    seconds = time.perf_counter() - began
    assert model.get_support().sum() <= BUDGET, "more features than the budget allows"
    print(f"SparseClassifier(n_features={BUDGET}), {seconds:.2f} s: {model.message_}")
    show(model, data.feature_names)
    error = 1 - model.score(X_test, y_test)
    print(f"\nTest error {100 * error:.1f} % of {len(y_test)} samples.\n")
    print(f"Certificate, recomputed from the data:\n{model.certificate_}\n")

    # A level is a finer budget: each feature costs a part while its coefficient is small, and one from a threshold on.
    # Half-way between whole features it holds the model back, and its multiplier is the price of budget.
    level = BUDGET - 0.5
    model = SparseClassifier(level=level).fit(X, y)
    spent = model.constraint_.value(model.scale_ * model.coef_)
    assert spent <= level, "the level is broken"
    print(f"SparseClassifier(level={level}): {model.message_}")
    print(f"The loss falls at the rate {model.multiplier_:.2g} per feature of budget.\n")

    began = time.perf_counter()
    chosen = SparseClassifierCV(n_features=range(1, 6), one_standard_error=True).fit(X, y)
    seconds = time.perf_counter() - began
    k, error = chosen.best_params_["n_features"], 1 - chosen.score(X_test, y_test)
    print(f"SparseClassifierCV over 1..5 features, one-standard-error rule, {seconds:.2f} s: {k} features,")
    print(f"test error {100 * error:.1f} %:")
    show(chosen, data.feature_names)


def show(model: SparseClassifier | SparseClassifierCV, names: np.ndarray) -> None:
    """Print the selected features, with the coefficients of their standardised values."""
    coefficients = (model.scale_ * model.coef_)[0]
    for j in sorted(model.selected_features_, key=lambda j: -abs(coefficients[j])):
        print(f"  {names[j]:<24} {coefficients[j]:+8.3f}")


if __name__ == "__main__":
    main()
