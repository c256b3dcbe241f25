#include "algorithms/affine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "algorithms/exact.hpp"
#include "algorithms/slices.hpp"

namespace levelprox {
namespace {

// f(slice, place, value) for every stored entry of slices begin..end.
template <class T, class F>
void each_entry(const DenseSlices<T> &X, std::int64_t begin, std::int64_t end, F f) {
    for (std::int64_t s = begin; s < end; ++s)
        for (std::int64_t i = 0; i < X.length; ++i) f(s, i, double(X.data[s * X.length + i]));
}

template <class T, class I, class F>
void each_entry(const SparseSlices<T, I> &X, std::int64_t begin, std::int64_t end, F f) {
    for (std::int64_t s = begin; s < end; ++s)
        for (std::int64_t p = X.indptr[s]; p < X.indptr[s + 1]; ++p)
            f(s, std::int64_t(X.indices[p]), double(X.data[p]));
}

template <class Kind, class F>
bool visit_as(const Slices &slices, F &f) {
    const auto *typed = dynamic_cast<const Kind *>(&slices);
    if (typed) f(*typed);
    return typed != nullptr;
}

// f(slices) with their real type.
template <class F>
void visit(const Slices &slices, F f) {
    const bool known = visit_as<DenseSlices<double>>(slices, f) || visit_as<DenseSlices<float>>(slices, f) ||
                       visit_as<SparseSlices<double, std::int32_t>>(slices, f) ||
                       visit_as<SparseSlices<double, std::int64_t>>(slices, f) ||
                       visit_as<SparseSlices<float, std::int32_t>>(slices, f) ||
                       visit_as<SparseSlices<float, std::int64_t>>(slices, f);
    if (!known) throw std::invalid_argument("slices of an unknown storage");
}

// f(row, column, value) for every stored entry of X, in parts between which signals are checked.
template <class F>
void each_stored(const Design &X, Poll &poll, F f) {
    visit(*X.slices, [&](const auto &slices) {
        for (std::int64_t begin = 0, end; begin < slices.count; begin = end) {
            end = piece_end(slices, begin);
            if (X.by_rows)
                each_entry(slices, begin, end, [&](std::int64_t s, std::int64_t i, double value) { f(s, i, value); });
            else each_entry(slices, begin, end, [&](std::int64_t s, std::int64_t i, double value) { f(i, s, value); });
            poll.check();
        }
    });
}

struct CompensatedSum {
    double head = 0, tail = 0;
    void add(double term) {
        const HeadTail next = two_sum(head, term);
        head = next.head;
        tail += next.tail;
    }
    // The difference, to twice the digits of either.
    double minus(const CompensatedSum &other) const { return (head - other.head) + (tail - other.tail); }
    double total() const { return std::isfinite(head) && std::isfinite(tail) ? head + tail : head; }
};

struct Extremes {
    CompensatedSum sum;
    double low = std::numeric_limits<double>::infinity(), high = -low;
    std::int64_t seen = 0;
};

struct Moments {
    double first = 0, second = 0;
};

// Whether every entry is stored, as a dense X does.
bool is_full(const Design &X) { return X.slices->stored(0, X.slices->count) == X.rows() * X.columns(); }

// Adds to the moments what the entries have that X does not store.
void add_missing(const Design &X, const Affine &affine, const double *weight, double *first, double *second,
                 Poll &poll) {
    CompensatedSum all;
    for (std::int64_t i = 0; i < X.rows(); ++i) all.add(weight[i]);
    std::vector<CompensatedSum> stored(X.columns());
    each_stored(X, poll, [&](std::int64_t i, std::int64_t j, double) { stored[j].add(weight[i]); });
    for (std::int64_t j = 0; j < X.columns(); ++j) {
        const double entry = affine.of(j, 0.0), missing = all.minus(stored[j]);
        first[j] += missing * entry;
        second[j] += missing * entry * entry;
    }
}

// The same for the squares of the rows.
void add_missing_squares(const Design &X, const Affine &affine, double *out, Poll &poll) {
    std::vector<double> zero(X.columns());  // squares of entries that are not stored
    CompensatedSum all;
    for (std::int64_t j = 0; j < X.columns(); ++j) {
        const double entry = affine.of(j, 0.0);
        zero[j] = entry * entry;
        all.add(zero[j]);
    }
    std::vector<CompensatedSum> stored(X.rows());
    each_stored(X, poll, [&](std::int64_t i, std::int64_t j, double) { stored[i].add(zero[j]); });
    for (std::int64_t i = 0; i < X.rows(); ++i) out[i] += std::max(all.minus(stored[i]), 0.0);
}

}  // namespace

void column_sums(const Design &X, const double *weight, double unit, double *sum, double *low, double *high,
                 Poll &poll) {
    std::int64_t samples = 0;
    for (std::int64_t i = 0; i < X.rows(); ++i) samples += !weight || weight[i] > 0;
    std::vector<Extremes> columns(X.columns());
    each_stored(X, poll, [&](std::int64_t i, std::int64_t j, double value) {
        const double w = weight ? weight[i] : 1.0;
        if (w == 0) return;
        Extremes &column = columns[j];
        column.sum.add(w * (value * unit));
        column.low = std::min(column.low, value);
        column.high = std::max(column.high, value);
        ++column.seen;
    });
    for (std::int64_t j = 0; j < X.columns(); ++j) {
        const Extremes &column = columns[j];
        const bool zeros = column.seen < samples;  // among what is not stored
        sum[j] = column.sum.total();
        low[j] = zeros ? std::min(column.low, 0.0) : column.low;
        high[j] = zeros ? std::max(column.high, 0.0) : column.high;
    }
}

void column_moments(const Design &X, const Affine &affine, const double *weight, double *first, double *second,
                    Poll &poll) {
    std::vector<Moments> columns(X.columns());
    each_stored(X, poll, [&](std::int64_t i, std::int64_t j, double value) {
        Moments &column = columns[j];
        const double entry = affine.of(j, value), weighted = weight[i] * entry;
        column.first += weighted;
        column.second += weighted * entry;
    });
    for (std::int64_t j = 0; j < X.columns(); ++j) {
        first[j] = columns[j].first;
        second[j] = columns[j].second;
    }
    if (affine.center && !is_full(X)) add_missing(X, affine, weight, first, second, poll);
}

void affine_row_squares(const Design &X, const Affine &affine, double *out, Poll &poll) {
    std::fill_n(out, X.rows(), 0.0);
    each_stored(X, poll, [&](std::int64_t i, std::int64_t j, double value) {
        const double entry = affine.of(j, value);
        out[i] += entry * entry;
    });
    if (affine.center && !is_full(X)) add_missing_squares(X, affine, out, poll);
}

}  // namespace levelprox
