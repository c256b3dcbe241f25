"""Which cases of parametrised tests belong to `make test`; all of them belong to `make test-all`.

`make test` has five minutes. A test with many cases runs a few of them there: every value of every parameter, and as
many pairs of values as the number of cases allows. The others carry the marker ``extended``.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest

from tests.support import ROOT

TESTS = ROOT / "tests"


class Keep:
    """How much of a test belongs to `make test`.

    Parameters
    ----------
    count : int
        Number of cases; 0 leaves out the test.
    without : str
        Parts of the names of cases that are left out: those that take longest.
    """

    def __init__(self, count: int, *without: str) -> None:
        self.count, self.without = count, without

    def chosen(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Return the cases that belong to `make test`."""
        left = [item for item in items if not any(part in item.name for part in self.without)]
        if len(left) <= self.count:
            return left
        pairs = [_pairs(item) for item in left]
        order = [(-len(pairs[i]), i) for i in range(len(left))]  # a heap: most pairs first
        heapq.heapify(order)
        seen: set[object] = set()
        chosen: list[pytest.Item] = []
        while order and len(chosen) < self.count:
            new, i = heapq.heappop(order)
            if -new > (now := len(pairs[i] - seen)):  # some of its pairs have been seen since
                heapq.heappush(order, (-now, i))
                continue
            seen |= pairs[i]
            chosen.append(left[i])
        return chosen


def _pairs(item: pytest.Item) -> set[object]:
    """Values of the parameters of a case, and pairs of them."""
    values = sorted(getattr(item, "callspec").indices.items()) if hasattr(item, "callspec") else []  # noqa: B009
    return {*values, *combinations(values, 2)}


def marker_of(path: Path) -> str | None:
    """Return the marker of all tests of a file or of a folder, if they have one."""
    name = _name(path)
    return next((marker for beginning, marker in WHOLE.items() if name.startswith(beginning)), None)


def _name(path: Path) -> str:
    """Return a path below tests/, with slashes."""
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else path.name


def mark(items: list[pytest.Item], whole: bool) -> None:
    """Mark what `make test` leaves out.

    Parameters
    ----------
    items : list of pytest.Item
    whole : bool
        Whether these are all tests, so that every name of the table must be there.
    """
    found = defaultdict(list)
    for item in items:
        if marker := marker_of(item.path):
            item.add_marker(marker)
            if marker in ("faults", "browser"):
                item.add_marker("process")
        name = f"{_name(item.path)}::{getattr(item, 'originalname', item.name)}"
        if name in TABLE:
            found[name].append(item)
    if whole and (gone := [name for name in TABLE if name not in found]):
        raise pytest.UsageError(f"tests/support/selection.py names tests that are not there: {', '.join(gone)}")
    for name, cases in found.items():
        chosen = {id(item) for item in TABLE[name].chosen(cases)}
        for item in cases:
            if id(item) not in chosen:
                item.add_marker(pytest.mark.extended)


#: Markers of whole folders and files.
WHOLE = {
    "faults/": "faults",
    "studies/": "studies",
    "unit/backends/test_gpu.py": "torch",
    "unit/report/test_page_browser.py": "browser",
}

_SLOW_LOSSES = ("hinge ovr", "sigmoid ovr", "softmax", "sigmoid-level", "hinge-at most k", "quantile-at most k")

_TABLES: dict[str, dict[str, Keep]] = {
    "unit/subset/test_best_subset.py": {
        "test_far_units_cost_nothing_and_prove_the_same": Keep(4, "multinomial"),
        "test_answers_depend_neither_on_other_calls_nor_on_threads": Keep(2, "multinomial"),
        "test_units_of_columns_do_not_matter": Keep(5, "multinomial"),
        "test_columns_that_are_almost_equal_overflow_nothing": Keep(1, "[17]"),
    },
    "unit/subset/test_best_subset_data.py": {
        "test_kept_features_are_in_the_fit_and_never_count": Keep(2, "multinomial"),
        "test_more_features_than_samples": Keep(5),
    },
    "unit/subset/test_best_subset_limits.py": {
        "test_any_start_leads_to_a_set_that_no_swap_improves": Keep(10),
    },
    "unit/certificate/test_certificate.py": {
        "test_the_multiplier_is_the_best_one": Keep(8),
        "test_residuals_are_zero_at_hand_made_kkt_points": Keep(44),
    },
    "unit/driver/test_checkpoint.py": {
        "test_entries_that_changed_places_are_noticed": Keep(5, "cv", "True-hinge"),
    },
    "estimators/test_choosing.py": {
        "test_criteria_equal_their_formulas": Keep(3, "softmax", "quantile", "absolute", "logistic"),
        "test_folds_are_given_as_everywhere_in_scikit_learn": Keep(4),
        "test_scores_are_those_of_the_scorer": Keep(2),
        "test_the_last_fit_is_the_single_fit_of_all_data": Keep(3, "softmax", "logistic"),
    },
    "integration/test_out_of_core.py": {
        "test_a_solved_model_is_that_in_memory": Keep(2, "4000"),
        "test_value_gradient_and_hessian_are_those_in_memory": Keep(6, "one row"),
        "test_the_memory_of_a_fit_is_far_below_the_file": Keep(0),
        "test_two_chunks_are_in_memory_at_a_time": Keep(2),
    },
    "estimators/test_claims.py": {
        "test_claims_of_every_fit_hold": Keep(10),
        "test_every_changed_figure_is_detected": Keep(20),
    },
    "cli/test_remote_data.py": {
        "test_a_cluster_started_for_it_gives_the_same_model_and_is_gone": Keep(0),
        "test_workers_read_csv_parquet_and_chunks": Keep(0),
        "test_folds_on_a_cluster_and_the_chosen_budget_is_printed": Keep(0),
        "test_what_is_wrong_in_a_late_part_is_an_error_in_the_data": Keep(0),
        "test_75_no_scheduler_answers": Keep(0),
        "test_75_the_scheduler_is_killed_in_the_middle": Keep(0),
        "test_a_cluster_is_closed_whatever_happens": Keep(0),
    },
    "unit/constraints/test_constraints.py": {
        "test_slope_and_curvature_are_derivatives": Keep(12),
        "test_lipschitz_constant_holds_and_is_attained": Keep(12),
        "test_h_is_convex_and_smooth": Keep(12),
        "test_g_is_a_sparsity_measure": Keep(12),
    },
    "unit/methods/test_continuation.py": {
        "test_options_of_the_problem_are_obeyed": Keep(9),
        "test_every_constraint_ends_feasible_certified_and_no_worse": Keep(10),
        "test_every_kind_of_loss_does": Keep(6, "cauchy"),
    },
    "unit/subset/test_costs.py": {
        "test_equal_costs_are_a_number_of_features": Keep(1, "absolute", "logistic"),
        "test_a_search_is_resumed_with_the_same_bits": Keep(1, "absolute"),
        "test_the_budget_holds_however_a_search_ends": Keep(1, "absolute"),
        "test_files_and_certificates": Keep(2, "absolute-4", "squared-7"),
        "test_a_budget_that_pays_for_nothing": Keep(3),
    },
    "integration/test_dask.py": {
        "test_the_same_model": Keep(2, "20"),
        "test_the_same_objective_and_the_same_bits_for_any_workers": Keep(4, "20"),
        "test_nothing_is_left_behind": Keep(0),
        "test_x_is_read_once": Keep(0),
    },
    "unit/designs/test_designs.py": {
        "test_every_design_knows_the_magnitudes_of_its_columns": Keep(27),
        "test_every_design_equals_dense": Keep(81),
    },
    "unit/report/test_displays.py": {
        "test_labels_neither_overlap_nor_leave_the_axes": Keep(12),
    },
    "estimators/test_diverging_choices.py": {
        "test_a_score_that_is_not_finite_in_one_fold_does_not_decide": Keep(3),
    },
    "integration/test_remote_data.py": {
        "test_the_same_model": Keep(14, "tensor"),
        "test_predictions_are_where_x_is": Keep(6, "tensor"),
        "test_the_score_is_the_loss_of_what_was_held_out": Keep(0),
        "test_criteria_are_those_of_data_in_memory": Keep(0),
        "test_constant_columns": Keep(1, "tensor", "frame"),
        "test_float32_and_whole_numbers": Keep(1, "tensor"),
        "test_folds_are_those_of_the_seed": Keep(1, "tensor"),
        "test_predictions_keep_float32_and_labels": Keep(1, "tensor"),
        "test_rows_that_cannot_be_used": Keep(2, "tensor"),
        "test_a_warm_start_is_of_the_same_classes": Keep(1, "tensor"),
        "test_a_model_pickles_and_is_saved": Keep(1, "tensor"),
        "test_chunks_of_any_kind": Keep(0),
        "test_a_cluster_gives_the_bits_of_threads_and_goes_on_with_them": Keep(0),
    },
    "estimators/test_budget.py": {
        "test_threads_change_no_bit": Keep(0),
        "test_processes_change_no_bit": Keep(0),
        "test_the_answer_at_k_is_that_of_the_single_fit_at_k_whatever_else_is_tried": Keep(0),
        "test_at_most_k_features_and_the_figures_are_those_of_the_coefficients": Keep(16, "[6]", "[31]"),
        "test_the_level_holds_exactly_for_what_is_handed_out": Keep(16, "[15]", "[10]"),
    },
    "estimators/test_scikit_learn_checks.py": {
        "test_scikit_learn_accepts": Keep(
            10**6,
            "check_estimator_sparse_matrix",
            "SparseClassifier()-check_estimator_sparse_array",
            "SparseClassifier()-check_sample_weight_equivalence",
            "SparseRegressor(loss='absolute')-check_sample_weight_equivalence",
        ),
    },
    "estimators/test_containers.py": {
        "test_any_way_to_store_a_sparse_matrix": Keep(20),
        "test_numbers_of_all_types": Keep(11),
        "test_the_layout_of_x_does_not_matter": Keep(12),
        "test_inputs_are_not_changed": Keep(8),
        "test_all_sparse_formats": Keep(6),
        "test_missing_values_of_frames_are_errors": Keep(3),
    },
    "estimators/test_input.py": {
        "test_the_unit_of_x_does_not_matter": Keep(6),
        "test_columns_that_do_not_vary": Keep(4),
        "test_nonfinite_entries_of_x_are_named": Keep(12),
        "test_wide_and_long_data": Keep(2, "Classifier-n_features"),
        "test_weights_of_any_size": Keep(2, "Classifier-n_features"),
        "test_probabilities_at_extreme_margins": Keep(6),
        "test_constant_targets": Keep(14),
        "test_the_unit_of_y_does_not_matter": Keep(5),
    },
    "estimators/test_overhead.py": {
        "test_an_estimator_costs_at_most_10_ms_more_than_the_solver": Keep(0),
    },
    "estimators/test_parameters.py": {
        "test_parameters_set_in_a_search": Keep(1, "Classifier"),
    },
    "estimators/test_symmetries.py": {
        "test_sparse_is_dense_and_a_column_of_zeros_is_nothing": Keep(9, *_SLOW_LOSSES),
        "test_a_weight_of_2_is_a_repeated_row_and_a_weight_of_0_a_removed_one": Keep(9, *_SLOW_LOSSES),
        "test_a_column_in_another_unit_has_a_coefficient_in_another_unit": Keep(9, *_SLOW_LOSSES),
        "test_a_second_fit_gives_the_same_bits_and_batches_the_same_predictions": Keep(9, *_SLOW_LOSSES),
        "test_rows_and_columns_in_another_order_and_with_other_signs": Keep(9, *_SLOW_LOSSES),
        "test_softmax_is_never_above_softmax_on_the_features_of_one_against_the_others": Keep(2, "[7]", "[0]", "[3]"),
        "test_weights_are_repetitions_with_balanced_classes_and_sparse_data": Keep(3, "softmax"),
        "test_targets_of_the_other_sign_have_the_opposite_coefficients": Keep(4),
        "test_swapped_classes_have_the_opposite_coefficients": Keep(4),
    },
    "estimators/test_in_scikit_learn.py": {
        "test_float32_is_kept_and_close_to_float64": Keep(9, "hinge ovr", "sigmoid ovr"),
        "test_a_search_over_the_parameters_of_a_step": Keep(1),
        "test_cross_validation_of_sorted_classes_is_stratified": Keep(1, "CV"),
    },
    "properties/test_exact_level.py": {
        "test_the_level_holds_in_exact_arithmetic": Keep(3, "[0]"),
    },
    "unit/subset/test_swap_bounds.py": {
        "test_near_a_fit_estimates_are_close": Keep(4, "multinomial"),
        "test_features_are_taken_in_where_psi_is_straight": Keep(2, "one vs rest"),
    },
    "unit/methods/test_groups.py": {
        "test_spectral_steps_reach_kkt_points_on_every_constraint": Keep(22),
    },
    "unit/report/test_tables.py": {
        "test_estimators_that_choose_show_the_last_fit": Keep(1, "Classifier"),
    },
    "unit/subset/test_nonsmooth_search.py": {
        "test_the_best_of_all_sets_is_found": Keep(6, "1-2-hinge", "1-2-quantile"),
        "test_proofs_are_true": Keep(1, "hinge", "quantile"),
        "test_the_same_bits_with_any_other_options": Keep(1, "hinge", "quantile"),
        "test_weights_signs_kept_features_and_no_intercept": Keep(4, "weighted-hinge"),
        "test_units_do_not_matter": Keep(1, "hinge", "quantile"),
        "test_every_storage_gives_the_same_set": Keep(0),
        "test_a_weight_of_two_is_a_repeated_sample": Keep(1, "hinge", "quantile"),
    },
    "properties/test_nonsmooth_claims.py": {
        "test_claims_are_true": Keep(40),
        "test_errors_of_refits_and_costs_of_removal_are_bounded": Keep(20),
    },
    "integration/test_nonsmooth_losses.py": {
        "test_samples_of_weight_zero_change_nothing": Keep(3),
        "test_units_do_not_matter": Keep(8),
        "test_an_unpenalized_intercept_and_one_class_in_the_majority": Keep(8),
        "test_a_time_stamp_beside_an_intercept_is_no_obstacle": Keep(5),
    },
    "unit/methods/test_lcpp.py": {
        "test_every_iterate_is_feasible_and_psi_falls": Keep(22),
        "test_kkt_points_are_reached": Keep(11, "Log(theta=1000.0)"),
    },
    "unit/io/test_libsvm.py": {
        "test_memory_is_what_is_returned_whatever_the_length_of_file_and_lines": Keep(0),
    },
    "integration/test_time_limits.py": {
        "test_no_pass_over_all_features_is_done_where_a_limit_could_not_end_it": Keep(
            30, "ovr hinge-searched", "ovr sigmoid-searched"
        ),
    },
    "integration/test_log_link_losses.py": {
        "test_a_sample_far_out_does_not_end_a_search": Keep(0),
        "test_fits_with_weights_exposures_and_an_intercept": Keep(6),
    },
    "unit/losses/test_losses.py": {
        "test_fifteen_digits_for_margins_up_to_1e308_and_no_warning": Keep(19),
        "test_a_mean_of_a_million_equal_losses_is_that_loss": Keep(6),
        "test_no_chord_of_the_derivative_breaks_the_constants": Keep(9),
        "test_no_margin_is_steeper_than_stated": Keep(9),
    },
    "unit/methods/subsolvers/test_minibatch_steps.py": {
        "test_every_step_is_feasible_in_exact_arithmetic": Keep(6),
        "test_steps_equal_the_twin_for_every_kind_of_set": Keep(32),
    },
    "estimators/test_model_files.py": {
        "test_every_kind_of_model_comes_back_the_same": Keep(5, "CV"),
        "test_inconsistent_contents_are_refused": Keep(20),
        "test_every_loss_comes_back_the_same": Keep(8, "sigmoid", "softmax"),
    },
    "unit/theory/test_approximate_kkt.py": {
        "test_the_preset_runs_what_the_corollaries_assume": Keep(9, "Stochastic1"),
    },
    "properties/test_newton_and_spectral.py": {
        "test_newton_and_spectral_agree": Keep(66),
        "test_the_number_of_threads_does_not_show": Keep(2, "classes", "C"),
    },
    "integration/test_nonconvex_losses.py": {
        "test_solve_is_no_worse_than_by_way_of_the_convex_loss": Keep(6, "0-MCP"),
        "test_a_weight_of_two_is_a_repeated_sample": Keep(2, "0-Sigmoid", "1-Sigmoid"),
        "test_the_order_and_the_signs_of_columns_do_not_matter": Keep(2, "1-Sigmoid"),
        "test_best_subset_is_no_worse_than_by_way_of_the_convex_loss": Keep(3),
    },
    "unit/objectives/test_objectives.py": {
        "test_the_linear_model_agrees_with_its_twin": Keep(100),
        "test_an_offset_is_a_column_with_coefficient_one": Keep(100),
    },
    "unit/objectives/test_one_vs_rest.py": {
        "test_it_is_the_sum_of_the_models_of_its_classes": Keep(72),
        "test_at_most_k_features_for_all_classes_together": Keep(2, "smoothed", "sigmoid"),
        "test_the_best_pair_is_that_of_brute_force": Keep(1, "smoothed", "squared"),
        "test_solve_ends_at_a_kkt_point_within_the_level": Keep(6),
        "test_a_class_without_samples_is_no_obstacle": Keep(1, "Multinomial"),
    },
    "unit/report/test_page.py": {
        "test_every_estimator_has_a_page_and_it_says_what_was_fitted": Keep(7, "ovr", "quantile-n", "hinge-n"),
        "test_the_same_page_from_every_container": Keep(2),
    },
    "properties/test_paper.py": {
        "test_theorem_complexity_main": Keep(0),
        "test_proposition_acsa": Keep(0),
        "test_corollary_unified_complexity_main": Keep(0),
        "test_corollary_unified_complexity_convex": Keep(0),
    },
    "estimators/test_partial_fit.py": {
        "test_the_budget_holds_after_every_batch_and_the_model_beats_one_without_features": Keep(
            6, "ovr", "sigmoid", "softmax"
        ),
    },
    "integration/test_path.py": {
        "test_every_level_is_certified_and_losses_never_rise": Keep(5),
        "test_levels_are_as_good_as_single_fits": Keep(0),
    },
    "unit/io/test_plain.py": {
        "test_a_small_file_never_takes_much_memory": Keep(2, "records"),
    },
    "unit/methods/test_restricted.py": {
        "test_residuals_are_squared_by_every_step": Keep(16),
    },
    "unit/test_projection.py": {
        "test_a_start_saves_passes_and_changes_nothing_else": Keep(2),
    },
    "unit/certificate/test_residual.py": {
        "test_the_best_multiplier_and_its_residuals_are_those_of_the_twin": Keep(30),
    },
    "unit/driver/test_resume.py": {
        "test_a_search_is_resumed_from_any_checkpoint": Keep(3, "hinge", "intercept", "multinomial", "nonnegative"),
        "test_a_solve_is_resumed_from_any_of_its_steps": Keep(18, "sigmoid-by default"),
        "test_a_model_is_the_same_after_a_break_at_any_step": Keep(2, "cv", "three classes", "classifier"),
        "test_a_search_ended_by_a_limit_is_resumed_as_if_there_had_been_none": Keep(1, "hinge"),
        "test_a_path_is_resumed_from_any_checkpoint": Keep(2, "multinomial", "intercept"),
        "test_work_cut_short_by_a_limit_is_not_recorded_as_finished": Keep(1, "115"),
    },
    "unit/objectives/test_ridge.py": {
        "test_claims_hold_with_a_ridge": Keep(32),
    },
    "unit/backends/test_partitioned.py": {
        "test_queries_of_partitions_equal_those_of_all_data": Keep(26),
        "test_at_most_k_features": Keep(2, "poisson", "gamma", "squared_hinge"),
        "test_at_most_k_features_where_the_curvature_changes_with_every_fit": Keep(0),
        "test_the_solved_model_is_the_same": Keep(5, "200"),
        "test_features_that_are_kept_and_signs": Keep(0),
    },
    "integration/test_solve.py": {
        "test_steps_at_the_floor_of_rounding_leave_no_negligible_coefficients": Keep(2),
    },
    "unit/online/test_stream.py": {
        "test_hard_batches_leave_the_model_finite": Keep(15),
        "test_the_budget_and_signs_hold_after_every_batch": Keep(11),
        "test_features_that_are_swapped_half_way_are_followed": Keep(2, "-20]"),
        "test_a_stationary_stream_approaches_the_fit_of_all_data": Keep(4, "cauchy"),
    },
    "unit/methods/subsolvers/test_subsolvers.py": {
        "test_auto_takes_one_that_can": Keep(11, "Stochastic1"),
    },
    "unit/methods/test_surrogate.py": {
        "test_the_surrogate_majorises_g_and_touches_it": Keep(22),
    },
    "unit/theory/test_dual.py": {
        "test_eta0_keeps_the_denominator_above_half_of_z": Keep(15),
        "test_z_with_weights_is_a_lower_bound": Keep(10),
        "test_z_is_a_lower_bound_and_attained": Keep(10),
        "test_the_uniform_bound_is_the_weaker_one_for_every_point": Keep(10),
    },
    "unit/runtime/test_threads.py": {
        "test_large_passes_equal_numpy": Keep(6, "dense C short"),
        "test_the_number_of_threads_does_not_show_in_the_bits": Keep(6, "dense C short"),
    },
    "properties/test_units.py": {
        "test_slow_steps_end_at_a_vertex": Keep(1),
        "test_a_vertex_is_the_least_of_its_convex_set": Keep(2),
    },
    "unit/methods/test_working_set.py": {
        "test_ctrl_c_anywhere_gives_the_best_point_so_far": Keep(0),
        "test_a_start_at_which_psi_hardly_bends_is_left": Keep(8, "very far out"),
        "test_first_order_subsolvers_reach_the_same_certificate": Keep(4),
    },
}

TABLE = {f"{file}::{name}": keep for file, names in _TABLES.items() for name, keep in names.items()}
