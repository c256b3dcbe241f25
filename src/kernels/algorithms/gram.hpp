// X' diag(D) X: by the pairs of entries of each row, where rows have few; by dense tiles, where many.
//
// Not by BLAS, whose sums depend on the number of threads and on the processor.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/passes.hpp"
#include "algorithms/slices.hpp"

namespace levelprox {

// Copies the lower triangle of out, from row `known` on, to the upper one. In tiles: a column is a new cache line for
// every entry.
inline void mirror(std::int64_t d, std::int64_t known, double *out, Poll &poll) {
    constexpr std::int64_t TILE = 32;
    for (std::int64_t left = 0; left < d; left += TILE) {
        for (std::int64_t top = left; top < d; top += TILE)
            for (std::int64_t k = left; k < std::min(left + TILE, d); ++k)
                for (std::int64_t j = std::max({top, known, k + 1}); j < std::min(top + TILE, d); ++j)
                    out[k * d + j] = out[j * d + k];
        poll.check();
    }
}

// Adds weight_s x_j x_k to sum[(j - known) d + k] for the pairs k <= j of entries of slices begin..end with j >= known.
template <class T, class I>
void add_pairs(const SparseSlices<T, I> &X, std::int64_t begin, std::int64_t end, const double *weight,
               std::int64_t known, double *sum) {
    std::vector<std::pair<I, double>> row;
    for (std::int64_t s = begin; s < end; ++s) {
        if (weight[s] == 0) continue;
        const std::int64_t first = X.indptr[s], last = X.indptr[s + 1];
        if (known == 0 && std::is_sorted(X.indices + first, X.indices + last)) {  // as they lie
            for (std::int64_t p = first; p < last; ++p) {
                const double c = weight[s] * double(X.data[p]);
                double *to = sum + X.indices[p] * X.length;
                for (std::int64_t q = first; q <= p; ++q) to[X.indices[q]] += c * double(X.data[q]);
            }
            continue;
        }
        row.clear();
        for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p) row.emplace_back(X.indices[p], double(X.data[p]));
        const auto before = [](const auto &a, const auto &b) { return a.first < b.first; };
        if (!std::is_sorted(row.begin(), row.end(), before)) std::sort(row.begin(), row.end(), before);
        const std::size_t fresh =
            std::partition_point(row.begin(), row.end(), [&](const auto &a) { return a.first < known; }) - row.begin();
        for (std::size_t p = fresh; p < row.size(); ++p) {
            const double c = weight[s] * row[p].second;
            double *to = sum + (row[p].first - known) * X.length;
            for (std::size_t q = 0; q <= p; ++q) to[row[q].first] += c * row[q].second;
        }
    }
}

// Rows and columns known.. of out = X' diag(weight) X for slices that are rows; out's leading block is left alone. No
// index may occur twice in a row. Rows are cut into chunks by sizes alone; all but the first have triangles of their
// own.
template <class T, class I>
void sparse_gram(const SparseSlices<T, I> &X, const double *weight, std::int64_t known, double *out, Poll &poll) {
    constexpr std::int64_t MOST = 16, ALLOWED = std::int64_t(1) << 23;  // entries of triangles: 64 MiB
    const std::int64_t d = X.length, size = (d - known) * d;
    double pairs = 0;
    for (std::int64_t s = 0; s < X.count; ++s)
        pairs += 0.5 * double(X.stored(s, s + 1)) * double(X.stored(s, s + 1) + 1);
    const double worth = std::min(pairs / double(2 * GRAIN), pairs / (32.0 * double(std::max<std::int64_t>(size, 1))));
    const std::int64_t spared = std::max<std::int64_t>(ALLOWED / std::max<std::int64_t>(size, 1), 1);
    const std::int64_t most =
        std::max<std::int64_t>(std::min({MOST, std::int64_t(std::min(worth, 1e6)), 1 + spared}), 1);

    // Chunks of equal pairs, then rounds of some work: row `s` of chunk k ends it when its share is reached.
    std::vector<std::int64_t> cuts(1, 0);
    double seen = 0;
    for (std::int64_t s = 0; s < X.count; ++s) {
        seen += 0.5 * double(X.stored(s, s + 1)) * double(X.stored(s, s + 1) + 1);
        if (std::int64_t(cuts.size()) < most && seen * double(most) >= pairs * double(cuts.size()))
            cuts.push_back(s + 1);
    }
    if (cuts.back() != X.count || cuts.size() == 1) cuts.push_back(X.count);
    const std::int64_t chunks = std::int64_t(cuts.size()) - 1;

    double *const first = out + known * d;
    const auto rest = std::make_unique_for_overwrite<double[]>(std::size_t((chunks - 1) * size));
    const auto sum_of = [&](std::int64_t k) { return k == 0 ? first : rest.get() + (k - 1) * size; };
    parallel_for(chunks, chunks * size / 2, [&](std::int64_t k) { std::fill_n(sum_of(k), size, 0.0); });
    std::vector<std::int64_t> reached(cuts.begin(), cuts.end() - 1);
    const double step = double(ROUND) / double(chunks);
    for (bool more = true; more;) {
        parallel_for(chunks, 4 * std::int64_t(std::min(pairs, double(ROUND))), [&](std::int64_t k) {
            std::int64_t end = reached[k];
            for (double work = 0; end < cuts[k + 1] && work < step; ++end)
                work += 1 + 0.5 * std::pow(double(X.stored(end, end + 1)), 2);
            add_pairs(X, reached[k], end, weight, known, sum_of(k));
            reached[k] = end;
        });
        poll.check();
        more = false;
        for (std::int64_t k = 0; k < chunks; ++k) more |= reached[k] < cuts[k + 1];
    }
    if (chunks > 1)
        for_ranges(size, GRAIN, chunks * size, [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t k = 1; k < chunks; ++k)
                for (std::int64_t i = from; i < to; ++i) first[i] += sum_of(k)[i];
        });

    mirror(d, known, out, poll);
}

// A block of rows, dense and packed for panel_product: entry j of row i is at [j / PANEL][i][j % PANEL].
constexpr std::int64_t BLOCK_ROWS = 256, FEW = 8;
constexpr std::int64_t PRODUCTS = 8;  // of panel_product in the time of one number from memory
inline double *packed(double *block, std::int64_t i, std::int64_t j) {
    return block + (j / PANEL) * BLOCK_ROWS * PANEL + i * PANEL + j % PANEL;
}

template <class T>
void pack_rows(const DenseSlices<T> &X, bool by_rows, const std::int64_t *rows, std::int64_t n, double *block) {
    const std::int64_t d = by_rows ? X.length : X.count;
    for (std::int64_t left = 0; left < d; left += PANEL) {
        const std::int64_t width = std::min<std::int64_t>(PANEL, d - left);
        for (std::int64_t i = 0; i < n; ++i) {
            double *to = packed(block, i, left);
            for (std::int64_t j = 0; j < width; ++j)
                to[j] = double(by_rows ? X.data[rows[i] * d + left + j] : X.data[(left + j) * X.length + rows[i]]);
        }
    }
}

template <class T, class I>
void pack_rows(const SparseSlices<T, I> &X, bool, const std::int64_t *rows, std::int64_t n, double *block) {
    for (std::int64_t left = 0; left < X.length; left += PANEL) std::fill_n(packed(block, 0, left), n * PANEL, 0.0);
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t p = X.indptr[rows[i]]; p < X.indptr[rows[i] + 1]; ++p)
            *packed(block, i, X.indices[p]) = double(X.data[p]);
}

// The same matrix as sparse_gram's, over tiles of PANEL x PANEL entries: each of them is one task's, and adds up blocks
// of rows in their order. X may be stored by rows or, where it is dense, by columns.
template <class Stored>
void dense_gram(const Stored &X, bool by_rows, const double *weight, std::int64_t known, double *out, Poll &poll) {
    const std::int64_t d = by_rows ? X.length : X.count, n = by_rows ? X.count : X.length,
                       panels = (d + PANEL - 1) / PANEL;
    std::fill_n(out + known * d, (d - known) * d, 0.0);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < n; ++i)
        if (weight[i] != 0) rows.push_back(i);
    std::vector<std::pair<std::int64_t, std::int64_t>> tiles;
    for (std::int64_t p = known / PANEL; p < panels; ++p)
        for (std::int64_t q = 0; q <= p; ++q) tiles.emplace_back(p, q);

    const std::int64_t count = rows.size(), blocks = (count + BLOCK_ROWS - 1) / BLOCK_ROWS,
                       size = BLOCK_ROWS * PANEL * panels;
    // Blocks that are packed at the same time: some for every thread, yet few where they are small, for memory that is
    // new costs more than the sums in it.
    const std::int64_t room = std::max<std::int64_t>(size, 1),
                       several = std::max((FEW << 13) / room, std::min(FEW, (FEW << 16) / room));
    const std::int64_t together = std::clamp<std::int64_t>(several, 1, std::max<std::int64_t>(blocks, 1));
    const auto plain =
        std::make_unique<double[]>(std::size_t(together * size));  // zeros: the last panel may be wider than X
    const auto weighted = std::make_unique<double[]>(std::size_t(together * size));
    const std::int64_t run = std::clamp<std::int64_t>(std::int64_t(tiles.size()) / 256, 1, 64);  // tiles of a task
    const std::int64_t batch =
        run * std::max<std::int64_t>((std::int64_t(1) << 31) / (together * BLOCK_ROWS * PANEL * PANEL * run), 1);
    const auto rows_of = [&](std::int64_t block) { return std::min(BLOCK_ROWS, count - block * BLOCK_ROWS); };

    const auto pack = [&](std::int64_t first, std::int64_t b) {
        double *from = plain.get() + b * size, *to = weighted.get() + b * size;
        const std::int64_t *chosen = rows.data() + (first + b) * BLOCK_ROWS, m = rows_of(first + b);
        pack_rows(X, by_rows, chosen, m, from);
        for (std::int64_t p = 0; p < panels; ++p)
            for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < PANEL; ++j) {
                    const std::int64_t place = packed(from, i, p * PANEL + j) - from;
                    to[place] = weight[chosen[i]] * from[place];
                }
    };
    const auto add_tile = [&](std::int64_t first, std::int64_t last, std::int64_t p, std::int64_t q) {
        double tile[PANEL * PANEL];
        for (std::int64_t b = first; b < last; ++b) {
            const double *left = packed(weighted.get() + (b - first) * size, 0, p * PANEL);
            simd().panel_product(rows_of(b), left, packed(plain.get() + (b - first) * size, 0, q * PANEL), tile);
            for (std::int64_t j = std::max(p * PANEL, known); j < std::min((p + 1) * PANEL, d); ++j)
                for (std::int64_t k = q * PANEL; k < std::min((q + 1) * PANEL, j + 1); ++k)
                    out[j * d + k] += tile[(j - p * PANEL) * PANEL + (k - q * PANEL)];
        }
    };
    for (std::int64_t first = 0; first < blocks; first += together) {
        const std::int64_t last = std::min(blocks, first + together);
        parallel_for(last - first, (last - first) * size, [&](std::int64_t b) { pack(first, b); });
        for (std::int64_t begin = 0; begin < std::int64_t(tiles.size()); begin += batch) {
            const std::int64_t end = std::min<std::int64_t>(begin + batch, tiles.size());
            const std::int64_t work = (end - begin) * (last - first) * BLOCK_ROWS * PANEL * PANEL / PRODUCTS;
            for_ranges(end - begin, run, work, [&](std::int64_t from, std::int64_t to) {
                for (std::int64_t t = begin + from; t < begin + to; ++t)
                    add_tile(first, last, tiles[t].first, tiles[t].second);
            });
            poll.check();
        }
    }
    mirror(d, known, out, poll);
}

}  // namespace levelprox
