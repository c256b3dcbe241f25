"""The paper's figures and tables, one file each."""

from __future__ import annotations

from experiments.reproduce.study import Study
from experiments.studies.fig_constraints import FigConstraints
from experiments.studies.fig_dccp import FigDCCP
from experiments.studies.fig_error_nnz import FigErrorNnz
from experiments.studies.fig_subsolvers import FigSubsolvers
from experiments.studies.penalty_weight import PenaltyWeight
from experiments.studies.rates import Rates
from experiments.studies.table_datasets import TableDatasets
from experiments.studies.table_errors import TableErrors

#: In the order of the paper.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        PenaltyWeight(),
        Rates(),
        FigConstraints(),
        TableDatasets(),
        FigDCCP(),
        FigErrorNnz(),
        FigSubsolvers(),
        TableErrors(),
    )
}
