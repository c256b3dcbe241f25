// A 64-bit hash of X that does not depend on its storage format.
//
//     sum over nonzero entries of mix(i, j, bits of X_ij as a float64)   mod 2^64
//
//     mix(i, j, v) = the two halves of (v ^ (i + 1) R) (2j + 1) C, a product of 128 bits, one xor the other
//
// The sum is the same in any order and on any number of threads. It detects accidental differences between data, not
// deliberate ones.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>

#include "algorithms/interrupt.hpp"
#include "algorithms/passes.hpp"
#include "algorithms/slices.hpp"

namespace levelprox {

struct Mark {
    std::uint64_t nonzero = 0, sum = 0;
};

inline std::uint64_t row_key(std::int64_t i) { return (std::uint64_t(i) + 1) * 0x9E3779B97F4A7C15u; }
inline std::uint64_t column_key(std::int64_t j) { return (2 * std::uint64_t(j) + 1) * 0xD6E8FEB86659FD93u; }

inline std::uint64_t mix(std::uint64_t row, std::uint64_t column, double value) {
    const auto product = static_cast<unsigned __int128>(std::bit_cast<std::uint64_t>(value) ^ row) * column;
    return std::uint64_t(product) ^ std::uint64_t(product >> 64);
}

// One entry of slice s; zeros, of either sign, count for nothing.
inline void add_entry(bool by_rows, std::uint64_t slice_key, std::int64_t place, double value, Mark &mark) {
    const std::uint64_t row = by_rows ? slice_key : row_key(place), column = by_rows ? column_key(place) : slice_key;
    const std::uint64_t counts = value != 0;
    mark.nonzero += counts;
    mark.sum += mix(row, column, value) & (0 - counts);
}

template <class T>
void add_slice(const DenseSlices<T> &X, bool by_rows, std::int64_t s, std::uint64_t key, Mark &mark) {
    const T *values = X.data + s * X.length;
    for (std::int64_t p = 0; p < X.length; ++p) add_entry(by_rows, key, p, double(values[p]), mark);
}

template <class T, class I>
void add_slice(const SparseSlices<T, I> &X, bool by_rows, std::int64_t s, std::uint64_t key, Mark &mark) {
    for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p)
        add_entry(by_rows, key, X.indices[p], double(X.data[p]), mark);
}

// The mark of all slices of a storage.
template <class Storage>
Mark mark_of(const Storage &X, bool by_rows, Poll &poll) {
    std::atomic<std::uint64_t> nonzero{0}, sum{0};
    for_pieces(X, poll, [&](std::int64_t begin, std::int64_t end) {
        Mark mark;
        for (std::int64_t s = begin; s < end; ++s) {
            if (by_rows) add_slice(X, true, s, row_key(s), mark);
            else add_slice(X, false, s, column_key(s), mark);
        }
        nonzero.fetch_add(mark.nonzero, std::memory_order_relaxed);
        sum.fetch_add(mark.sum, std::memory_order_relaxed);
    });
    return {nonzero, sum};
}

}  // namespace levelprox
