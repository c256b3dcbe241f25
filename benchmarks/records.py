"""Fits on data of the size of health records: 847,000 people × 359,000 codes, 3e8 stored entries."""
import numpy as np, scipy.sparse
N, D, ENTRIES = 847_000, 359_000, 3e8
GROUPS = 50
PIECE = 8192

def generate(n, d, per_row, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shift, power = 20.0, 0.9
    low, high = shift ** (1 - power), (d // GROUPS + shift) ** (1 - power)
    lowa, higha = shift ** (1 - power), (d + shift) ** (1 - power)
    group_of_row = rng.integers(0, GROUPS, n)
    active = np.unique(np.geomspace(3, 0.02 * d, 40).astype(int))
    truth = np.zeros(d); truth[active] = rng.choice([-1.0, 1.0], active.size) * rng.uniform(0.4, 1.2, active.size)
    counts = rng.gamma(1.5, 1.0, n); counts = np.maximum(1, counts / counts.mean() * per_row * 1.36).astype(int)
    parts, lengths, y = [], np.zeros(n, np.int64), np.empty(n)
    for b in range(0, n, PIECE):
        e = min(n, b + PIECE)
        m = counts[b:e]
        row = np.repeat(np.arange(e - b), m)
        u = rng.random(row.size)
        own = rng.random(row.size) < 0.5
        rank = np.where(own, low + u * (high - low), lowa + u * (higha - lowa)) ** (1 / (1 - power)) - shift
        code = rank.astype(np.int64)
        code = np.where(own, code * GROUPS + group_of_row[b:e][row], code)
        code = np.minimum(code, d - 1)
        key = row * d + code
        key.sort()
        key = key[np.r_[True, key[1:] != key[:-1]]]
        row, code = np.divmod(key, d)
        lengths[b:e] = np.bincount(row, minlength=e - b)
        parts.append(code.astype(np.int32))
        z = np.bincount(row, truth[code], e - b)
        y[b:e] = z
    y = np.where(y - np.quantile(y, 0.85) + rng.logistic(size=n) > 0, 1.0, -1.0)
    indptr = np.r_[0, np.cumsum(lengths)]
    X = scipy.sparse.csr_array((n, d), dtype=dtype)
    indices = np.empty(indptr[-1], np.int32)
    at = 0
    while parts:
        p = parts.pop(0); indices[at:at + p.size] = p; at += p.size
    X.indices, X.indptr = indices, indptr
    X.data = np.ones(indptr[-1], dtype)
    return X, y
