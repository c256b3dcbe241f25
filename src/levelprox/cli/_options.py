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
        help='The column to learn (its number, with --no-header). By default the one called "target" or "y".',
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", rich_help_panel=DATA, help="Columns to leave out: id,name; may be repeated."),
]
Weight = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=DATA, help="The column of weights of the rows.")
]
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
        metavar="NAME", rich_help_panel=DATA, help="A column that is added to the linear prediction, in a regression."
    ),
]
Categorical = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=DATA,
        help="Columns that become features of 0 and 1, one for each category: city,sex; auto: all that hold text.",
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
    typer.Option(
        readable=False, metavar="FILE", rich_help_panel=DATA, help="Data to judge the model by, not used in the fit."
    ),
]
FileFormat = Annotated[
    Format | None,
    typer.Option("--format", case_sensitive=False, rich_help_panel=DATA, help="Instead of what the file's name says."),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", rich_help_panel=DATA, help="The first line of a CSV file holds data, no names.")
]
Separator = Annotated[
    str | None, typer.Option(metavar="CHAR", rich_help_panel=DATA, help="What separates the fields of a CSV file.")
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", rich_help_panel=DATA, help="A LIBSVM file counts features from 0.")
]
Chunked = Annotated[
    bool,
    typer.Option(
        "--chunked",
        rich_help_panel=DATA,
        help="Leave the data in their file, and read some rows at a time: for more than fits into memory.",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        rich_help_panel=DATA,
        help="Have the data read and kept by a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT, or local:WORKERS.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=LIMITS, help="Fit on a device of torch: cuda, cuda:1, cpu."),
]

Features = Annotated[
    str | None,
    typer.Option(
        metavar="K", rich_help_panel=MODEL, help="At most so many features: 5; several: 1,2,5, 1:10 or 0:20:5."
    ),
]
Level = Annotated[
    str | None,
    typer.Option(metavar="ETA", rich_help_panel=MODEL, help="Or g(x) ≤ η: 2.5; several: 0.5,1,2.5."),
]
FeatureCost = Annotated[
    str | None,
    typer.Option(
        metavar="COSTS", rich_help_panel=MODEL, help="What features cost: age=1,scan=250, or a file of NAME,COST lines."
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="COST",
        rich_help_panel=MODEL,
        help="With --feature-cost: what the features may cost together; several: 5,10,20.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", rich_help_panel=MODEL, help="Features that are always in the model and do not count: age,sex."
    ),
]
Positive = Annotated[bool, typer.Option("--positive", rich_help_panel=MODEL, help="No coefficient is negative.")]
PositiveFor = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", rich_help_panel=MODEL, help="The coefficients of these features are not negative: age,sex."
    ),
]
FeatureWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        rich_help_panel=MODEL,
        help="What features count under a level: age=0.5,scan=2; the others count 1.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        rich_help_panel=MODEL,
        help="Factors on the weights of classes: yes=5,no=1; balanced: all classes weigh the same.",
    ),
]
MultiClassOption = Annotated[
    MultiClass | None,
    typer.Option(
        "--multi-class", case_sensitive=False, rich_help_panel=MODEL, help="The loss of more than two classes."
    ),
]
Ridge = Annotated[
    str | None,
    typer.Option(
        metavar="LAMBDA",
        rich_help_panel=MODEL,
        help="λ of the penalty λ × sum of squared standardised coefficients: 0.01; auto, for classes: only where "
        "classes are separable. By default auto for classes, 0 for regression. Several, with --cv: 0,0.01,0.1.",
    ),
]
CriterionOption = Annotated[
    Criterion | None,
    typer.Option(
        "--criterion",
        case_sensitive=False,
        rich_help_panel=CHOICE,
        help="What decides: cv, the score over folds; aic, bic and ebic, an information criterion without folds.",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CHOICE,
        help="The score over folds, by its name in scikit-learn: accuracy, roc_auc, r2. By default the loss.",
    ),
]
OneStandardError = Annotated[
    bool,
    typer.Option(
        "--one-standard-error",
        rich_help_panel=CHOICE,
        help="The smallest budget whose score is within one standard error of the best.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", rich_help_panel=CHOICE, help="Processes that fit folds; -1: all.")
]
Memory = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SAMPLES",
        rich_help_panel=DATA,
        help="With --stream: after so many samples the weight of those before them has fallen to 1/e.",
    ),
]
SubsolverOption = Annotated[
    str | None,
    typer.Option("--subsolver", metavar="NAME", rich_help_panel=LIMITS, help=f"With --level: {', '.join(SUBSOLVERS)}."),
]
StartOption = Annotated[
    Start | None,
    typer.Option("--start", case_sensitive=False, rich_help_panel=LIMITS, help="With --level: where the fit begins."),
]
TaskOption = Annotated[
    Task | None,
    typer.Option(
        "--task", case_sensitive=False, rich_help_panel=MODEL, help="By default guessed from the loss or the target."
    ),
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
    bool, typer.Option("--standardize/--no-standardize", rich_help_panel=MODEL, help="Fit features of deviation 1.")
]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", rich_help_panel=MODEL)]
Seed = Annotated[int | None, typer.Option(min=0, rich_help_panel=MODEL, help="For subsolvers that sample.")]

Tol = Annotated[float, typer.Option(min=0, rich_help_panel=LIMITS, help="On the KKT residual.")]
MaxIter = Annotated[int, typer.Option(min=0, rich_help_panel=LIMITS, help="Outer steps, or swaps of features.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        rich_help_panel=LIMITS,
        help="For each fit, also those of --report; the best model so far is kept.",
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, rich_help_panel=LIMITS, help="By default all.")]

Json = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT, help="One JSON document on standard output, nothing else.")
]
Force = Annotated[bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Replace files that are there.")]
Accept = Annotated[
    bool, typer.Option("--accept-inaccurate", rich_help_panel=OUTPUT, help="End with 0 where it would be 3.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="Only errors and results.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", rich_help_panel=OUTPUT, help="Show progress everywhere.")]
Report = Annotated[
    Path | None,
    typer.Option(
        readable=False, metavar="PAGE.html", rich_help_panel=OUTPUT, help="Write a page to look at in a browser."
    ),
]
