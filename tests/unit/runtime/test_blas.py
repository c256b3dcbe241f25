"""Small matrices use one BLAS thread: several would wait for one another on a busy machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from levelprox import Function, LinearModel, MultinomialModel, Problem, _kernels, best_subset, path, solve
from levelprox._runtime import one_blas_thread
from levelprox.constraints import MCP


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with one_blas_thread():  # all libraries are there
        pass
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("BLAS has no two threads here")
        yield


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6))
    return X, X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(30)


def told(seen):
    def callback(*_):
        seen.append(threads())

    return callback


@pytest.mark.parametrize("classes", [1, 3])
def test_a_search_uses_one_thread(two_threads, classes):
    X, b = data()
    model = LinearModel(X, b) if classes == 1 else MultinomialModel(X, np.arange(30) % classes, fit_intercept=True)
    seen: list[set[int]] = []
    best_subset(model, 2, callback=told(seen))
    assert seen
    assert all(one == {1} for one in seen)
    assert threads() == {2}


def test_solve_and_path_use_one_thread(two_threads):
    problem, seen = Problem(LinearModel(*data()), MCP.from_threshold(1.0), 1.5), list[set[int]]()
    solve(problem, callback=told(seen))
    assert seen
    assert all(one == {1} for one in seen)
    path(problem, [0.5, 1.5])
    assert threads() == {2}


def test_functions_of_the_user_keep_their_threads(two_threads):
    seen: list[set[int]] = []

    def psi(x):
        seen.append(threads())
        return float((x - 1) @ (x - 1)), 2 * (x - 1)

    solve(Problem(Function(psi, 3, smoothness=2.0), MCP.from_threshold(1.0), 1.5), tol=1e-3)
    assert seen
    assert all(one == {2} for one in seen)


def test_the_last_of_several_blocks_restores_the_number(two_threads):
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == {2}


def test_an_error_restores_it_too(two_threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads() == {2}


def in_a_thread(what):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(what).result()


def test_a_block_that_another_thread_ends_restores_it_too(two_threads):
    block = one_blas_thread()
    in_a_thread(block.__enter__)
    assert threads() == {1}
    block.__exit__(None, None, None)
    assert threads() == {2}
    block = one_blas_thread()
    block.__enter__()
    assert threads() == {1}
    in_a_thread(lambda: block.__exit__(None, None, None))
    assert threads() == {2}


def test_other_threads_may_limit_blas_after_a_block(two_threads):
    seen = []

    def limited():
        with threadpool_limits(1, user_api="blas"):
            seen.append(threads())

    with one_blas_thread():
        pass
    in_a_thread(limited)
    assert seen == [{1}]
    assert threads() == {2}


def test_blocks_leave_the_threads_of_kernels_alone(two_threads):
    block = one_blas_thread()
    with threadpool_limits(5, user_api="openmp"):
        block.__enter__()

    def end():
        with threadpool_limits(3, user_api="openmp"):
            block.__exit__(None, None, None)
            assert _kernels.thread_count() == 3

    in_a_thread(end)
