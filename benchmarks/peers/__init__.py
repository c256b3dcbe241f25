"""Competitors by name, one file each."""

from __future__ import annotations

from importlib import import_module

from benchmarks.peers.base import Peer

#: name → the module that has it, imported only where it runs.
PEERS = {
    "levelprox direct": "levelprox",
    "levelprox continuation": "levelprox",
    "levelprox best_subset": "levelprox",
    "levelprox path": "levelprox",
    "levelprox subset_path": "levelprox",
    "spectral": "spectral",
    "skglm": "skglm",
    "skglm cut to k": "skglm",
    "abess k": "abess",
    "abess 1..k": "abess",
    "abess path": "abess",
    "l0learn": "l0learn",
    "l0learn swaps": "l0learn",
    "skscope": "skscope",
    "omp": "omp",
    "celer": "celer",
    "adelie": "adelie",
    "liblinear": "liblinear",
    "convex-concave": "convex_concave",
}


def peer_by_name(name: str) -> Peer:
    """Return a competitor that is not loaded yet."""
    if name not in PEERS:
        raise SystemExit(f"no competitor {name!r}; there are {', '.join(PEERS)}")
    module = import_module(f"benchmarks.peers.{PEERS[name]}")
    kinds: dict[str, type[Peer]] = module.KINDS
    return kinds[name]()
