// Properties of CSR and CSC arrays, and the check that makes every later read safe.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
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

// Whether each of these is greater than the one before. Without a branch for each, so that it vectorises.
template <class I>
bool ascends(const I *first, const I *last) {
    bool ascends = true;
    for (std::int64_t p = 0; p + 1 < last - first; ++p) ascends &= first[p] < first[p + 1];
    return ascends;
}

// Does a slice name the same index twice? Where indices do not ascend: by the last slice that named each of them, or,
// if there are more indices than entries, sorted.
template <class T, class I>
bool has_duplicates(const SparseSlices<T, I> &X, Poll &poll) {
    std::atomic<bool> found = false;  // only ever set, as other tasks may have set it
    for_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        std::vector<I> sorted;
        std::vector<std::int64_t> last_slice;
        for (std::int64_t s = begin; s < end && !found; ++s) {
            const I *first = X.indices + X.indptr[s], *last = X.indices + X.indptr[s + 1];
            if (ascends(first, last)) continue;
            if (X.length > X.stored(begin, end)) {
                sorted.assign(first, last);
                std::sort(sorted.begin(), sorted.end());
                if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) found = true;
                continue;
            }
            last_slice.resize(X.length, -1);
            bool again = false;
            for (const I *p = first; p < last; ++p) {
                again |= last_slice[*p] == s;
                last_slice[*p] = s;
            }
            if (again) found = true;
        }
    });
    return found;
}

// Which slices hold the same entries in the same order: group[s] numbers them in the order of their first slices, which
// are in first[]. Returns how many there are; -1 where there are more than `most`, which has room in first[], or where
// most of the first slices are different.
template <class T, class I>
std::int64_t equal_slices(const SparseSlices<T, I> &X, std::int64_t most, std::int64_t *group, std::int64_t *first,
                          Poll &poll) {
    constexpr std::int64_t SAMPLE = 1024;
    constexpr std::uint64_t FACTOR = 0x9E3779B97F4A7C15;
    const std::uint64_t size = std::bit_ceil(std::uint64_t(2 * most + 2));
    std::vector<std::int64_t> table(size, -1);  // groups, by their hashes
    std::vector<std::uint64_t> hashes;
    const auto equal = [&](std::int64_t a, std::int64_t b) {
        const std::int64_t count = X.stored(a, a + 1), p = X.indptr[a], q = X.indptr[b];
        return count == X.stored(b, b + 1) && std::equal(X.indices + p, X.indices + p + count, X.indices + q) &&
               std::equal(X.data + p, X.data + p + count, X.data + q);
    };
    for (std::int64_t s = 0; s < X.count; ++s) {
        if (s % GRAIN == 0) poll.check();
        if (s == SAMPLE && 4 * std::int64_t(hashes.size()) > 3 * SAMPLE) return -1;
        std::uint64_t hash = FACTOR;
        for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p) {
            hash = (hash ^ std::uint64_t(X.indices[p])) * FACTOR;
            hash = (hash ^ (hash >> 32) ^ std::bit_cast<std::uint64_t>(double(X.data[p]) + 0.0)) * FACTOR;
        }
        std::uint64_t place = (hash ^ (hash >> 29)) & (size - 1);
        while (table[place] >= 0 && !(hashes[table[place]] == hash && equal(first[table[place]], s)))
            place = (place + 1) & (size - 1);
        if (table[place] < 0) {
            if (std::int64_t(hashes.size()) == most) return -1;
            first[hashes.size()] = s;
            table[place] = std::int64_t(hashes.size());
            hashes.push_back(hash);
        }
        group[s] = table[place];
    }
    return std::int64_t(hashes.size());
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
