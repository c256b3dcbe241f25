"""Options that commands share: their types, names and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelprox.cli._parsing import CONSTRAINTS, LOSSES, SUBSOLVERS, Criterion, Format, Imputing, MultiClass, Start, Task

#: Panels of the help.
DATA, MODEL, CHOICE, LIMITS, OUTPUT = "Data", "Model", "Choice of the budget", "Limits", "Output"

DataFile = Annotated[
    Path, typer.Argument(readable=False, metavar="DATA", help="LIBSVM, CSV, TSV, Parquet or npz.", show_default=False)
]
ModelFile = Annotated[
    Path, typer.Argument(readable=False, metavar="MODEL", help="A .levelprox file.", show_default=False)
]

Target = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=DATA,
        help='The target column (its number, with --no-header). By default the column named "target" or "y".',
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", rich_help_panel=DATA, help="Columns to leave out, such as id,name; may be repeated."),
]
Weight = Annotated[str | None, typer.Option(metavar="NAME", rich_help_panel=DATA, help="The column of sample weights.")]
Exposure = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=DATA,
        help="The column of exposures, with --loss poisson or gamma: the mean is exposure × rate.",
    ),
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=DATA, help="A column that is added to the linear predictor of a regression."
    ),
]
Categorical = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=DATA,
        help="Columns to encode as one 0/1 feature for each category, such as city,sex; auto: all text columns.",
    ),
]
Impute = Annotated[
    Imputing | None,
    typer.Option(
        "--impute",
        case_sensitive=False,
        rich_help_panel=DATA,
        help="Replace missing numbers by this value of their column, and missing text by the most frequent one.",
    ),
]
Test = Annotated[
    Path | None,
    typer.Option(readable=False, metavar="FILE", rich_help_panel=DATA, help="Test data, not used in the fit."),
]
FileFormat = Annotated[
    Format | None,
    typer.Option(
        "--format", case_sensitive=False, rich_help_panel=DATA, help="Format of the file; by default from its name."
    ),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", rich_help_panel=DATA, help="The first line of a CSV file is data, not names.")
]
Separator = Annotated[
    str | None, typer.Option(metavar="CHAR", rich_help_panel=DATA, help="Separator of the fields of a CSV file.")
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", rich_help_panel=DATA, help="Indices of a LIBSVM file start at 0.")
]
Chunked = Annotated[
    bool,
    typer.Option(
        "--chunked",
        rich_help_panel=DATA,
        help="Read the file in chunks, for data larger than memory.",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        rich_help_panel=DATA,
        help="Read and keep the data on a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT or local:WORKERS.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=LIMITS, help="Fit on a device of torch: cuda, cuda:1, cpu."),
]

Features = Annotated[
    str | None,
    typer.Option(
        metavar="K", rich_help_panel=MODEL, help="Maximal number of features: 5; several: 1,2,5, 1:10 or 0:20:5."
    ),
]
Level = Annotated[
    str | None,
    typer.Option(
        metavar="ETA", rich_help_panel=MODEL, help="Level of the constraint g(x) ≤ η: 2.5; several: 0.5,1,2.5."
    ),
]
FeatureCost = Annotated[
    str | None,
    typer.Option(
        metavar="COSTS", rich_help_panel=MODEL, help="Costs of features: age=1,scan=250, or a file of NAME,COST lines."
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="COST",
        rich_help_panel=MODEL,
        help="With --feature-cost: maximal total cost; several: 5,10,20.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=MODEL,
        help="Features that are always in the model and do not count towards the budget: age,sex.",
    ),
]
Positive = Annotated[bool, typer.Option("--positive", rich_help_panel=MODEL, help="All coefficients are nonnegative.")]
PositiveFor = Annotated[
    str | None,
    typer.Option(metavar="NAMES", rich_help_panel=MODEL, help="Features with nonnegative coefficients: age,sex."),
]
FeatureWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        rich_help_panel=MODEL,
        help="With --level: weights of features, such as age=0.5,scan=2; by default 1.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        rich_help_panel=MODEL,
        help="Weights of classes: yes=5,no=1; balanced: all classes have the same total weight.",
    ),
]
MultiClassOption = Annotated[
    MultiClass | None,
    typer.Option(
        "--multi-class", case_sensitive=False, rich_help_panel=MODEL, help="The loss for more than two classes."
    ),
]
Ridge = Annotated[
    str | None,
    typer.Option(
        metavar="LAMBDA",
        rich_help_panel=MODEL,
        help="λ of the penalty λ × sum of squared standardised coefficients: 0.01; auto: only for "
        "separable classes. By default auto for classification, 0 for regression. Several, with --cv: 0,0.01,0.1.",
    ),
]
CriterionOption = Annotated[
    Criterion | None,
    typer.Option(
        "--criterion",
        case_sensitive=False,
        rich_help_panel=CHOICE,
        help="Criterion of the choice: cv (cross-validation), or the information criterion aic, bic or ebic.",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CHOICE,
        help="Score of the cross-validation, by its name in scikit-learn: accuracy, roc_auc, r2. By default the loss.",
    ),
]
OneStandardError = Annotated[
    bool,
    typer.Option(
        "--one-standard-error",
        rich_help_panel=CHOICE,
        help="Choose the smallest budget whose score is within one standard error of the best.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", rich_help_panel=CHOICE, help="Number of processes; -1: all processors."),
]
Memory = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SAMPLES",
        rich_help_panel=DATA,
        help="With --stream: number of samples after which the weight of a sample has fallen to 1/e.",
    ),
]
SubsolverOption = Annotated[
    str | None,
    typer.Option("--subsolver", metavar="NAME", rich_help_panel=LIMITS, help=f"With --level: {', '.join(SUBSOLVERS)}."),
]
StartOption = Annotated[
    Start | None,
    typer.Option(
        "--start", case_sensitive=False, rich_help_panel=LIMITS, help="With --level: starting point of the fit."
    ),
]
TaskOption = Annotated[
    Task | None,
    typer.Option("--task", case_sensitive=False, rich_help_panel=MODEL, help="By default from the loss or the target."),
]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss",
        metavar="NAME",
        rich_help_panel=MODEL,
        help=f"{', '.join(LOSSES['classification'])}; {', '.join(LOSSES['regression'])}. Also huber:1.5, quantile:0.9.",
    ),
]
ConstraintOption = Annotated[
    str | None,
    typer.Option(
        "--constraint", metavar="NAME", rich_help_panel=MODEL, help=f"With --level: {', '.join(CONSTRAINTS)}."
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize/--no-standardize",
        rich_help_panel=MODEL,
        help="Scale features to standard deviation 1 for the fit.",
    ),
]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", rich_help_panel=MODEL)]
Seed = Annotated[int | None, typer.Option(min=0, rich_help_panel=MODEL, help="Seed of subsolvers that sample.")]

Tol = Annotated[float, typer.Option(min=0, rich_help_panel=LIMITS, help="Tolerance on the KKT residual.")]
MaxIter = Annotated[
    int, typer.Option(min=0, rich_help_panel=LIMITS, help="Maximal number of outer steps, or of swaps.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        rich_help_panel=LIMITS,
        help="Time limit of each fit, including those of --report; the best model so far is kept.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, rich_help_panel=LIMITS, help="Maximal number of threads; by default all."),
]

Json = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON document on standard output.")
]
Force = Annotated[bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Replace existing files.")]
Accept = Annotated[bool, typer.Option("--accept-inaccurate", rich_help_panel=OUTPUT, help="Exit with 0 instead of 3.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="Print only errors and results.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", rich_help_panel=OUTPUT, help="Show progress, also if standard error is no terminal."
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(readable=False, metavar="PAGE.html", rich_help_panel=OUTPUT, help="Write an HTML report."),
]
