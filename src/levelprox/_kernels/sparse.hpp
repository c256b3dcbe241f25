// What CSR and CSC need beyond products: a check that makes every later read safe, selections, X'DX.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "design_kernel.hpp"
#include "slices.hpp"

namespace levelprox {

// Throws unless every index that any kernel will form lies inside the arrays.
inline void check_indptr(const std::int64_t *indptr, std::int64_t pointers, std::int64_t count, std::int64_t indices,
                         std::int64_t data, bool by_rows) {
    using std::to_string;
    const std::string slice = by_rows ? "row" : "column";
    if (pointers != count + 1)
        throw std::invalid_argument("indptr has " + to_string(pointers) + " entries, but " + to_string(count) + " " + slice +
                                    "s need " + to_string(count + 1));
    if (indices != data)
        throw std::invalid_argument("indices has " + to_string(indices) + " entries, but data has " + to_string(data));
    if (indptr[0] != 0) throw std::invalid_argument("indptr[0] is " + to_string(indptr[0]) + ", not 0");
    for (std::int64_t s = 0; s < count; ++s)
        if (indptr[s + 1] < indptr[s])
            throw std::invalid_argument("indptr decreases from " + to_string(indptr[s]) + " to " + to_string(indptr[s + 1]) +
                                        " at " + slice + " " + to_string(s));
    if (indptr[count] > data)
        throw std::invalid_argument("indptr ends at " + to_string(indptr[count]) + ", but data has only " + to_string(data) +
                                    " entries");
}

template <class T, class I>
void check_indices(const SparseSlices<T, I> &X, bool by_rows, Poll &poll) {
    const auto outside = [&](I index) { return std::uint64_t(std::int64_t(index)) >= std::uint64_t(X.length); };
    in_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        bool any = false;
        for (std::int64_t p = X.indptr[begin]; p < X.indptr[end]; ++p) any |= outside(X.indices[p]);
        if (!any) return;
        for (std::int64_t s = begin; s < end; ++s)
            for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p)
                if (outside(X.indices[p]))
                    throw std::invalid_argument(std::string(by_rows ? "row " : "column ") + std::to_string(s) + " has " +
                                                (by_rows ? "column" : "row") + " index " + std::to_string(X.indices[p]) +
                                                ", outside 0.." + std::to_string(X.length - 1));
    });
}

// Does a slice name the same index twice?
template <class T, class I>
bool has_duplicates(const SparseSlices<T, I> &X, Poll &poll) {
    bool found = false;
    std::vector<I> sorted;
    in_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end && !found; ++s) {
            const I *first = X.indices + X.indptr[s], *last = X.indices + X.indptr[s + 1];
            if (!std::is_sorted(first, last)) {
                sorted.assign(first, last);
                std::sort(sorted.begin(), sorted.end());
                found = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
            } else {
                found = std::adjacent_find(first, last) != last;
            }
        }
    });
    return found;
}

// Arrays of a selection, in the types of what it was selected from.
template <class T, class I>
struct Selection {
    std::vector<std::int64_t> indptr;
    std::unique_ptr<T[]> data;
    std::unique_ptr<I[]> indices;

    void allocate() {
        data = std::make_unique_for_overwrite<T[]>(indptr.back());
        indices = std::make_unique_for_overwrite<I[]>(indptr.back());
    }
};

// The slices named in `chosen`.
template <class T, class I>
Selection<T, I> select_slices(const SparseSlices<T, I> &X, const std::int64_t *chosen, std::int64_t n, Poll &poll) {
    Selection<T, I> out{std::vector<std::int64_t>(n + 1), nullptr, nullptr};
    for (std::int64_t k = 0; k < n; ++k) out.indptr[k + 1] = out.indptr[k] + X.stored(chosen[k], chosen[k] + 1);
    out.allocate();
    std::int64_t work = 0;
    for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t from = X.indptr[chosen[k]], size = X.stored(chosen[k], chosen[k] + 1);
        std::copy_n(X.data + from, size, out.data.get() + out.indptr[k]);
        std::copy_n(X.indices + from, size, out.indices.get() + out.indptr[k]);
        if ((work += size + 1) > PIECE) work = 0, poll.check();
    }
    return out;
}

// Of every slice the entries at the indices named in `chosen`, which may repeat. A table finds them:
// first[j] is the first position of j in `chosen`, next[k] the one after position k; -1 is none.
template <class T, class I>
Selection<T, I> select_within(const SparseSlices<T, I> &X, const std::int64_t *chosen, std::int64_t n, Poll &poll) {
    if (n > std::numeric_limits<I>::max()) throw std::invalid_argument("more positions than the type of the indices can name");
    std::vector<I> first(X.length, -1), next(n, -1);
    for (std::int64_t k = n; k-- > 0;) {
        next[k] = first[chosen[k]];
        first[chosen[k]] = I(k);
    }
    Selection<T, I> out{std::vector<std::int64_t>(X.count + 1), nullptr, nullptr};
    in_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end; ++s) {
            std::int64_t size = 0;
            for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p)
                for (I k = first[X.indices[p]]; k >= 0; k = next[k]) ++size;
            out.indptr[s + 1] = out.indptr[s] + size;
        }
    });
    out.allocate();
    std::int64_t q = 0;
    in_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = X.indptr[begin]; p < X.indptr[end]; ++p)
            for (I k = first[X.indices[p]]; k >= 0; k = next[k], ++q) {
                out.data[q] = X.data[p];
                out.indices[q] = k;
            }
    });
    return out;
}

// out = X' diag(weight) X for slices that are rows, d = X.length: the pairs of entries of one row
// after the other, into one triangle, which is then mirrored. No index may occur twice in a row.
template <class T, class I>
void sparse_gram(const SparseSlices<T, I> &X, const double *weight, double *out, Poll &poll) {
    const std::int64_t d = X.length;
    std::fill_n(out, d * d, 0.0);
    std::int64_t work = 0;
    for (std::int64_t s = 0; s < X.count; ++s) {
        if (weight[s] == 0) continue;
        const std::int64_t end = X.indptr[s + 1];
        for (std::int64_t p = X.indptr[s]; p < end; ++p) {
            const double c = weight[s] * double(X.data[p]);
            const std::int64_t j = X.indices[p];
            double *row = out + j * d;
            for (std::int64_t q = p; q < end; ++q) {
                const std::int64_t k = X.indices[q];
                (k >= j ? row[k] : out[k * d + j]) += c * double(X.data[q]);
            }
            if ((work += end - p) > PIECE) work = 0, poll.check();
        }
    }
    // In tiles: a column of the triangle is a new cache line for every entry.
    constexpr std::int64_t TILE = 32;
    for (std::int64_t top = 0; top < d; top += TILE) {
        for (std::int64_t left = 0; left <= top; left += TILE)
            for (std::int64_t j = top; j < std::min(top + TILE, d); ++j)
                for (std::int64_t k = left; k < std::min(left + TILE, j); ++k) out[j * d + k] = out[k * d + j];
        poll.check();
    }
}

}  // namespace levelprox
