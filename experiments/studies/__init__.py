"""The paper's figures and tables, one file each."""

from __future__ import annotations

from experiments.reproduce.study import Study
from experiments.studies.fig_dccp import FigDCCP
from experiments.studies.fig_error_nnz import FigErrorNnz
from experiments.studies.table_errors import TableErrors

STUDIES: dict[str, Study] = {study.name: study for study in (FigDCCP(), FigErrorNnz(), TableErrors())}
