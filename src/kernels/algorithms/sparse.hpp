// Properties of CSR and CSC arrays, and the check that makes every later read safe.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/design_kernel.hpp"
#include "algorithms/slices.hpp"

namespace levelprox {

// Throws unless every index that any kernel will form lies inside the arrays.
inline void check_indptr(const std::int64_t *indptr, std::int64_t pointers, std::int64_t count, std::int64_t indices,
                         std::int64_t data, bool by_rows) {
    using std::to_string;
    const std::string slice = by_rows ? "row" : "column";
    if (pointers != count + 1)
        throw std::invalid_argument("indptr has " + to_string(pointers) + " entries, but " + to_string(count) + " " +
                                    slice + "s need " + to_string(count + 1));
    if (indices != data)
        throw std::invalid_argument("indices has " + to_string(indices) + " entries, but data has " + to_string(data));
    if (indptr[0] != 0) throw std::invalid_argument("indptr[0] is " + to_string(indptr[0]) + ", not 0");
    for (std::int64_t s = 0; s < count; ++s)
        if (indptr[s + 1] < indptr[s])
            throw std::invalid_argument("indptr decreases from " + to_string(indptr[s]) + " to " +
                                        to_string(indptr[s + 1]) + " at " + slice + " " + to_string(s));
    if (indptr[count] > data)
        throw std::invalid_argument("indptr ends at " + to_string(indptr[count]) + ", but data has only " +
                                    to_string(data) + " entries");
}

template <class T, class I>
void check_indices(const SparseSlices<T, I> &X, bool by_rows, Poll &poll) {
    const auto outside = [&](I index) { return std::uint64_t(std::int64_t(index)) >= std::uint64_t(X.length); };
    std::atomic<std::int64_t> first = X.count;  // slice with an index outside, or beyond the last
    for_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        bool any = false;
        for (std::int64_t p = X.indptr[begin]; p < X.indptr[end]; ++p) any |= outside(X.indices[p]);
        if (!any) return;
        std::int64_t s = begin, seen = first;
        while (std::none_of(X.indices + X.indptr[s], X.indices + X.indptr[s + 1], outside)) ++s;
        while (s < seen && !first.compare_exchange_weak(seen, s)) {
        }
    });
    if (first == X.count) return;
    const I index = *std::find_if(X.indices + X.indptr[first], X.indices + X.indptr[first + 1], outside);
    throw std::invalid_argument(std::string(by_rows ? "row " : "column ") + std::to_string(first) + " has " +
                                (by_rows ? "column" : "row") + " index " + std::to_string(index) + ", outside 0.." +
                                std::to_string(X.length - 1));
}

// Does a slice name the same index twice?
template <class T, class I>
bool has_duplicates(const SparseSlices<T, I> &X, Poll &poll) {
    std::atomic<bool> found = false;  // only ever set, as other tasks may have set it
    for_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        std::vector<I> sorted;
        for (std::int64_t s = begin; s < end && !found; ++s) {
            const I *first = X.indices + X.indptr[s], *last = X.indices + X.indptr[s + 1];
            if (!std::is_sorted(first, last)) {
                sorted.assign(first, last);
                std::sort(sorted.begin(), sorted.end());
                first = sorted.data();
                last = first + sorted.size();
            }
            if (std::adjacent_find(first, last) != last) found = true;
        }
    });
    return found;
}

// How many entries each index has: out_j, exact in float64.
template <class T, class I>
void index_counts(const SparseSlices<T, I> &X, double *out, Poll &poll) {
    Chunks(X).add_up(out, poll, [&](std::int64_t, std::int64_t begin, std::int64_t end, double *sum) {
        for (std::int64_t p = X.indptr[begin]; p < X.indptr[end]; ++p) sum[X.indices[p]] += 1;
    });
}

// Do indices ascend in every slice?
template <class T, class I>
bool is_sorted(const SparseSlices<T, I> &X, Poll &poll) {
    std::atomic<bool> sorted = true;
    for_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end && sorted; ++s)
            if (!std::is_sorted(X.indices + X.indptr[s], X.indices + X.indptr[s + 1])) sorted = false;
    });
    return sorted;
}

}  // namespace levelprox
