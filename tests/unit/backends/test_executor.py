"""How long an executor waits for a cluster: no longer than workers are active."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from levelprox.backends.executor import Cluster
from levelprox.exceptions import BackendError


def cluster(*workers: dict[str, Any]) -> Cluster:
    """Return the executor of a scheduler with these workers."""
    identity = {"workers": dict(enumerate(workers))}
    client = SimpleNamespace(
        asynchronous=False,
        status="running",
        scheduler=SimpleNamespace(identity=None, address="tcp://nowhere"),
        sync=lambda *_, **__: identity,
    )
    return Cluster(client)


def worker(status: str, **counts: int) -> dict[str, Any]:
    return {"status": status, "metrics": {"task_counts": counts}}


@pytest.mark.parametrize("state", ["executing", "flight"])
@pytest.mark.parametrize("status", ["running", "paused"])
def test_a_busy_worker_is_waited_for(status, state):
    long_ago = time.monotonic() - 10_000
    answered, active = cluster(worker("paused"), worker(status, **{state: 1}))._check_active(long_ago, long_ago)
    assert answered == active > long_ago


@pytest.mark.parametrize(
    ("workers", "seconds", "words"),
    [
        ([], 31, "no worker is left, and for 30 s"),
        ([worker("paused", memory=3), worker("paused")], 31, "all 2 workers have paused"),
        ([worker("running", memory=3), worker("paused")], 301, "none of 2 workers has a task to work on"),
    ],
)
def test_workers_that_do_nothing_are_an_error(workers, seconds, words):
    now, executor = time.monotonic(), cluster(*workers)
    assert executor._check_active(now, now - seconds + 10)[1] == now - seconds + 10
    with pytest.raises(BackendError, match=words):
        executor._check_active(now, now - seconds)


def test_metrics_of_older_versions():
    old = {"status": "paused", "metrics": {"executing": 0}}
    with pytest.raises(BackendError, match="all 1 workers have paused"):
        cluster(old)._check_active(0.0, time.monotonic() - 31)
    assert cluster({"status": "paused", "metrics": {"executing": 1}})._check_active(0.0, 0.0)[1] > 0
