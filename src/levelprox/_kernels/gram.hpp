// X' diag(D) X: by the pairs of entries of each row, where rows have few; as dense blocks of rows for BLAS, where many.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "passes.hpp"
#include "slices.hpp"

namespace levelprox {

// Adds weight_s x_j x_k to sum[(j - known) d + k] for the pairs k <= j of entries of slices begin..end with j >= known.
template <class T, class I>
void add_pairs(const SparseSlices<T, I> &X, std::int64_t begin, std::int64_t end, const double *weight, std::int64_t known, double *sum) {
    std::vector<std::pair<I, double>> row;
    for (std::int64_t s = begin; s < end; ++s) {
        if (weight[s] == 0) continue;
        row.clear();
        for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p) row.emplace_back(X.indices[p], double(X.data[p]));
        const auto before = [](const auto &a, const auto &b) { return a.first < b.first; };
        if (!std::is_sorted(row.begin(), row.end(), before)) std::sort(row.begin(), row.end(), before);
        const std::size_t fresh = std::partition_point(row.begin(), row.end(), [&](const auto &a) { return a.first < known; }) - row.begin();
        for (std::size_t p = fresh; p < row.size(); ++p) {
            const double c = weight[s] * row[p].second;
            double *to = sum + (row[p].first - known) * X.length;
            for (std::size_t q = 0; q <= p; ++q) to[row[q].first] += c * row[q].second;
        }
    }
}

// Rows and columns known.. of out = X' diag(weight) X for slices that are rows; out's leading block is left alone. No index
// may occur twice in a row. Rows are cut into chunks by sizes alone; all but the first have triangles of their own.
template <class T, class I>
void sparse_gram(const SparseSlices<T, I> &X, const double *weight, std::int64_t known, double *out, Poll &poll) {
    constexpr std::int64_t MOST = 16, ALLOWED = std::int64_t(1) << 23;  // entries of triangles: 64 MiB
    const std::int64_t d = X.length, size = (d - known) * d;
    double pairs = 0;
    for (std::int64_t s = 0; s < X.count; ++s) pairs += 0.5 * double(X.stored(s, s + 1)) * double(X.stored(s, s + 1) + 1);
    const double worth = std::min(pairs / double(2 * GRAIN), pairs / (32.0 * double(std::max<std::int64_t>(size, 1))));
    const std::int64_t spared = std::max<std::int64_t>(ALLOWED / std::max<std::int64_t>(size, 1), 1);
    const std::int64_t most = std::max<std::int64_t>(std::min({MOST, std::int64_t(std::min(worth, 1e6)), 1 + spared}), 1);

    // Chunks of equal pairs, then rounds of some work: row `s` of chunk k ends it when its share is reached.
    std::vector<std::int64_t> cuts(1, 0);
    double seen = 0;
    for (std::int64_t s = 0; s < X.count; ++s) {
        seen += 0.5 * double(X.stored(s, s + 1)) * double(X.stored(s, s + 1) + 1);
        if (std::int64_t(cuts.size()) < most && seen * double(most) >= pairs * double(cuts.size())) cuts.push_back(s + 1);
    }
    if (cuts.back() != X.count || cuts.size() == 1) cuts.push_back(X.count);
    const std::int64_t chunks = std::int64_t(cuts.size()) - 1;

    double *const first = out + known * d;
    const auto rest = std::make_unique_for_overwrite<double[]>(std::size_t((chunks - 1) * size));
    const auto sum_of = [&](std::int64_t k) { return k == 0 ? first : rest.get() + (k - 1) * size; };
    parallel_for(chunks, [&](std::int64_t k) { std::fill_n(sum_of(k), size, 0.0); });
    std::vector<std::int64_t> reached(cuts.begin(), cuts.end() - 1);
    const double step = double(ROUND) / double(chunks);
    for (bool more = true; more;) {
        parallel_for(chunks, [&](std::int64_t k) {
            std::int64_t end = reached[k];
            for (double work = 0; end < cuts[k + 1] && work < step; ++end) work += 1 + 0.5 * std::pow(double(X.stored(end, end + 1)), 2);
            add_pairs(X, reached[k], end, weight, known, sum_of(k));
            reached[k] = end;
        });
        poll.check();
        more = false;
        for (std::int64_t k = 0; k < chunks; ++k) more |= reached[k] < cuts[k + 1];
    }
    if (chunks > 1)
        for_ranges(size, GRAIN, [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t k = 1; k < chunks; ++k)
                for (std::int64_t i = from; i < to; ++i) first[i] += sum_of(k)[i];
        });

    // The other half. In tiles: a column of the triangle is a new cache line for every entry.
    constexpr std::int64_t TILE = 32;
    for (std::int64_t left = 0; left < d; left += TILE) {
        for (std::int64_t top = left; top < d; top += TILE)
            for (std::int64_t k = left; k < std::min(left + TILE, d); ++k)
                for (std::int64_t j = std::max({top, known, k + 1}); j < std::min(top + TILE, d); ++j) out[k * d + j] = out[j * d + k];
        poll.check();
    }
}

// out, dense and row after row, = the rows named in `chosen`, times `scale`: from rows, dense and compressed, and from columns.
template <class T>
void scaled_rows(const DenseSlices<T> &X, bool by_rows, const std::int64_t *chosen, const double *scale, std::int64_t n, double *out) {
    const std::int64_t d = by_rows ? X.length : X.count;
    for_ranges(n, std::max<std::int64_t>(GRAIN / std::max<std::int64_t>(d, 1), 16), [&](std::int64_t begin, std::int64_t end) {
        if (by_rows) {
            for (std::int64_t i = begin; i < end; ++i) {
                const T *a = X.data + chosen[i] * d;
                for (std::int64_t j = 0; j < d; ++j) out[i * d + j] = scale[i] * double(a[j]);
            }
            return;
        }
        constexpr std::int64_t LINE = 8;  // columns at a time fill a cache line of `out`
        for (std::int64_t left = 0; left < d; left += LINE)
            for (std::int64_t i = begin; i < end; ++i)
                for (std::int64_t j = left; j < std::min(left + LINE, d); ++j)
                    out[i * d + j] = scale[i] * double(X.data[j * X.length + chosen[i]]);
    });
}

template <class T, class I>
void scaled_rows(const SparseSlices<T, I> &X, const std::int64_t *chosen, const double *scale, std::int64_t n, double *out) {
    const std::int64_t d = X.length;
    for_ranges(n, std::max<std::int64_t>(GRAIN / std::max<std::int64_t>(d, 1), 16), [&](std::int64_t begin, std::int64_t end) {
        std::fill(out + begin * d, out + end * d, 0.0);
        for (std::int64_t i = begin; i < end; ++i)
            for (std::int64_t p = X.indptr[chosen[i]]; p < X.indptr[chosen[i] + 1]; ++p)
                out[i * d + X.indices[p]] = scale[i] * double(X.data[p]);
    });
}

}  // namespace levelprox
