// The data matrix X as a list of slices: rows or columns, dense or compressed.
//
// Every storage scikit-learn users bring is one of two classes: `DenseSlices` (C order: slices are
// rows; Fortran order: slices are columns) and `SparseSlices` (CSR: rows; CSC: columns), both in
// slices.hpp. Each has two operations, from which Xx and X'r are made:
//
//     dot:  out_s  = <slice_s, in>              (rows: Xx,   columns: X'r)
//     add:  out   += sum_s coefficient_s slice_s  (rows: X'r,  columns: Xx)
//
// Products accumulate in float64 in a fixed order, for any type of the data.
#pragma once
#include <cstdint>

#include "algorithms/touched.hpp"

namespace levelprox {

// What a search for NaN and infinities found.
struct Nonfinite {
    std::int64_t count = 0;
    std::int64_t slice = -1, place = -1;  // the first of them, in the order of storage
    double value = 0;
};

class Slices {
public:
    virtual ~Slices() = default;

    std::int64_t count = 0;   // number of slices
    std::int64_t length = 0;  // entries of a (dense) slice
    bool divisible = false;   // whether `add` can be called for a part of the slices

    // out[s - begin] = <slice_s, in> for begin <= s < end; `in` has `length` entries.
    virtual void dot(std::int64_t begin, std::int64_t end, const double *in, double *out) const = 0;
    // out += sum of coefficient[s - begin] * slice_s; zero coefficients cost nothing; `out` has `length` entries.
    void add(std::int64_t begin, std::int64_t end, const double *coefficient, double *out) const {
        add(begin, end, 0, length, coefficient, out);
    }
    // The same for entries from..to of the slices only, which `out` then holds. Only `divisible` slices take any other
    // range than the whole.
    virtual void add(std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to,
                     const double *coefficient, double *out) const = 0;
    // out += coefficient * slice_s, with a mark at every place it touched.
    virtual void add_marking(std::int64_t s, double coefficient, double *out, Touched &touched) const = 0;
    // Ask for a slice that will soon be read; rows drawn at random lie where no hardware expects them.
    virtual void prefetch(std::int64_t) const {}
    // The same two moves with every entry squared.
    virtual void dot_squares(std::int64_t begin, std::int64_t end, const double *in, double *out) const = 0;
    virtual void add_squares(std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to,
                             const double *coefficient, double *out) const = 0;
    // Stored entries in slices begin..end, to cut long passes into interruptible parts.
    virtual std::int64_t stored(std::int64_t begin, std::int64_t end) const = 0;
    // Memory of all slices.
    virtual std::int64_t bytes() const = 0;
    // The NaNs and infinities among slices begin..end.
    virtual Nonfinite nonfinite(std::int64_t begin, std::int64_t end) const = 0;
};

// X itself: shape, and which way its slices run.
struct Design {
    const Slices *slices = nullptr;
    bool by_rows = true;
    std::int64_t rows() const { return by_rows ? slices->count : slices->length; }
    std::int64_t columns() const { return by_rows ? slices->length : slices->count; }
};

constexpr std::int64_t PIECE = std::int64_t(1) << 22;  // stored entries: a few milliseconds' work

// Where a piece that starts at slice `begin` ends, at least one slice on. A slice counts one
// besides its entries, so that a long run of empty ones is cut too.
inline std::int64_t piece_end(const Slices &slices, std::int64_t begin) {
    std::int64_t fits = begin + 1, beyond = slices.count + 1;
    while (beyond - fits > 1) {
        const std::int64_t middle = fits + (beyond - fits) / 2;
        (slices.stored(begin, middle) + (middle - begin) <= PIECE ? fits : beyond) = middle;
    }
    return fits;
}

}  // namespace levelprox
