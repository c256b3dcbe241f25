#include <algorithm>
#include <cmath>

#include "algorithms/column_fits.hpp"
#include "algorithms/exact.hpp"
#include "algorithms/newton_step.hpp"
#include "algorithms/passes.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr std::int64_t BLOCK = 256;                                  // rows
constexpr std::int64_t CHUNK = 64 * BLOCK, ROUND_ROWS = 64 * CHUNK;  // of a task, and between two checks for Ctrl-C
constexpr std::int64_t SUMMED_ROWS = 2048;                           // of a sum of columns, in the cache
constexpr std::int64_t PRODUCTS = 8;                                 // in the time of one number from memory
constexpr double NO_SLOPE = 0x1p-80;                                 // relative to the largest
constexpr std::int64_t LOSS_WORK = 8;                                // of a sample's loss and derivatives

// body(begin, end) for chunks of n rows, several at a time; what it computes must not depend on the chunks.
template <class Body>
void for_rows(std::int64_t n, std::int64_t work_of_row, Poll &poll, const Body &body) {
    for (std::int64_t first = 0; first < n; first += ROUND_ROWS) {
        const std::int64_t count = std::min(ROUND_ROWS, n - first);
        for_ranges(count, CHUNK, count * work_of_row,
                   [&](std::int64_t begin, std::int64_t end) { body(first + begin, first + end); });
        poll.check();
    }
}

// The sum of the parts, in their order.
double total_of(const std::vector<HeadTail> &parts) {
    HeadTail sum{0, 0};
    for (const HeadTail &part : parts) {
        add_to(sum, part.head);
        add_to(sum, part.tail);
    }
    return sum.head + sum.tail;
}

double sparse_dot(const Column &column, const double *other) {
    double sum[4] = {}, rest = 0;
    std::int64_t p = 0;
    for (; p + 4 <= column.count; p += 4)
        for (int k = 0; k < 4; ++k) sum[k] += column.values[p + k] * other[column.rows[p + k]];
    for (; p < column.count; ++p) rest += column.values[p] * other[column.rows[p]];
    return ((sum[0] + sum[2]) + (sum[1] + sum[3])) + rest;
}

}  // namespace

// Losses of some rows and their derivatives, those of the three that are not null: of a row of a ridge the square of
// its margin.
void ColumnFits::evaluate(std::int64_t begin, std::int64_t rows, const double *margins, double *value, double *slope,
                          double *bend) const {
    const std::int64_t samples = std::clamp<std::int64_t>(samples_ - begin, 0, rows);
    if (samples > 0) {
        if (slope || bend) loss_->evaluate(samples, margins, target_ + begin, value, slope, bend);
        else loss_->value(samples, margins, target_ + begin, value);
    }
    for (std::int64_t i = samples; i < rows; ++i) {
        if (value) value[i] = margins[i] * margins[i];
        if (slope) slope[i] = 2 * margins[i];
        if (bend) bend[i] = 2;
    }
}

// psi alone.
double ColumnFits::value(const double *margins, Poll &poll) const {
    std::vector<HeadTail> parts((n_ + BLOCK - 1) / BLOCK);
    for_rows(n_, LOSS_WORK, poll, [&](std::int64_t first, std::int64_t last) {
        double value[BLOCK];
        for (std::int64_t begin = first; begin < last; begin += BLOCK) {
            const std::int64_t rows = std::min(BLOCK, last - begin);
            evaluate(begin, rows, margins + begin, value, nullptr, nullptr);
            for (std::int64_t i = 0; weight_ && i < rows; ++i)
                value[i] = weight_[begin + i] == 0 ? 0.0 : weight_[begin + i] * value[i];
            parts[begin / BLOCK] = compensated_sum(rows, value);
        }
    });
    return total_of(parts) / total_;
}

std::vector<double> ColumnFits::origin() const {
    std::vector<double> margins(n_);
    if (offset_) std::copy_n(offset_, n_, margins.data());
    return margins;
}

std::vector<double> ColumnFits::combined(const Columns &columns, const std::vector<double> &x) const {
    std::vector<double> z(n_);
    const auto &add = simd().dense<double>().add;
    std::size_t first = 0;
    while (first < x.size()) {  // dense columns that follow each other: by blocks of rows
        const Column &column = columns[first];
        if (column.rows) {
            for (std::int64_t p = 0; x[first] != 0 && p < column.count; ++p)
                z[column.rows[p]] += x[first] * column.values[p];
            ++first;
            continue;
        }
        std::size_t last = first;
        while (last < x.size() && !columns[last].rows) ++last;
        for (std::int64_t begin = 0; begin < n_; begin += SUMMED_ROWS)
            for (std::size_t j = first; j < last; ++j)
                if (x[j] != 0)
                    add(std::min(SUMMED_ROWS, n_ - begin), x[j], columns[j].values + begin, z.data() + begin);
        first = last;
    }
    return z;
}

// Losses and derivatives of some rows, times their weights: derivatives as they enter the mean.
void ColumnFits::weigh(std::int64_t begin, std::int64_t rows, bool convex, double *value, double *slope,
                       double *bend) const {
    const double total = total_;
    if (!weight_) {
        const double share = 1.0 / total;
        for (std::int64_t i = 0; i < rows; ++i) {
            slope[i] *= share;
            bend[i] = (convex ? std::abs(bend[i]) : bend[i]) * share;
        }
        return;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
        const double weight = weight_[begin + i];
        // A sample of weight 0 does not count, even where its loss is infinite.
        value[i] = weight == 0 ? 0.0 : weight * value[i];
        slope[i] = weight == 0 ? 0.0 : slope[i] * (weight / total);
        bend[i] = weight == 0 ? 0.0 : (convex ? std::abs(bend[i]) : bend[i]) * (weight / total);
    }
}

// psi, and what each sample adds to the gradient and to the Hessian of the margins.
double ColumnFits::sample_derivatives(const double *margins, bool convex, double *slope, double *bend, double &size,
                                      Poll &poll) const {
    std::vector<HeadTail> parts((n_ + BLOCK - 1) / BLOCK);
    std::vector<double> sizes(parts.size());
    for_rows(n_, LOSS_WORK, poll, [&](std::int64_t first, std::int64_t last) {
        double value[BLOCK];
        for (std::int64_t begin = first; begin < last; begin += BLOCK) {
            const std::int64_t rows = std::min(BLOCK, last - begin), block = begin / BLOCK;
            evaluate(begin, rows, margins + begin, value, slope + begin, bend + begin);
            weigh(begin, rows, convex, value, slope + begin, bend + begin);
            double sum = 0;
            for (std::int64_t i = 0; i < rows; ++i) sum += std::abs(value[i]) / total_;
            sizes[block] = sum;
            parts[block] = compensated_sum(rows, value);
        }
    });
    size = 0;
    for (const double part : sizes) size += part;
    return total_of(parts) / total_;
}

// The rows that count, where these are few: all others have next to no slope and no curvature, as far from the kink of
// a bounded loss. Empty where they are many.
std::vector<std::int64_t> ColumnFits::counting_rows(const Derivatives &seen) const {
    std::vector<std::int64_t> rows;
    if (!infimum_at_infinity_ || n_ < MANY_ROWS) return rows;
    const double least = NO_SLOPE * largest_magnitude(seen.slope), least_bend = NO_SLOPE * largest_magnitude(seen.bend);
    for (std::int64_t i = 0; i < n_; ++i)
        if (std::abs(seen.slope[i]) > least || std::abs(seen.bend[i]) > least_bend) rows.push_back(i);
    if (std::int64_t(rows.size()) > n_ / 2) rows.clear();
    return rows;
}

// The dense columns among themselves.
void ColumnFits::add_dense(const Columns &columns, Derivatives &seen, Poll &poll) const {
    const std::size_t m = columns.size();
    std::vector<std::size_t> places;
    for (std::size_t j = 0; j < m; ++j)
        if (!columns[j].rows) places.push_back(j);
    const std::size_t dense = places.size();
    if (dense == 0) return;
    std::vector<const double *> values;
    for (const std::size_t j : places) values.push_back(columns[j].values);
    const double *slope = seen.slope.data(), *bend = seen.bend.data();
    std::int64_t count = n_;
    std::vector<double> gathered;
    if (const std::vector<std::int64_t> rows = counting_rows(seen); !rows.empty()) {
        count = std::int64_t(rows.size());
        gathered.resize((dense + 2) * rows.size());
        const auto gather = [&](std::size_t place, const double *from) {
            double *to = &gathered[place * rows.size()];
            for (std::size_t p = 0; p < rows.size(); ++p) to[p] = from[rows[p]];
            return to;
        };
        for (std::size_t j = 0; j < dense; ++j) values[j] = gather(j, values[j]);
        slope = gather(dense, slope);
        bend = gather(dense + 1, bend);
    }
    constexpr std::int64_t ROWS = 4 * CHUNK;  // with sums of their own
    const std::int64_t chunks = std::max<std::int64_t>((count + ROWS - 1) / ROWS, 1);
    const std::size_t width = dense * (dense + 1);
    std::vector<double> sums(chunks * width);  // of each chunk the gradient, then the Hessian
    constexpr std::int64_t TOGETHER = 16;      // chunks between two checks for Ctrl-C
    const std::int64_t work = ROWS * std::int64_t(dense + dense * dense / PRODUCTS);
    for (std::int64_t first = 0; first < chunks; first += TOGETHER) {
        const std::int64_t together = std::min(TOGETHER, chunks - first);
        parallel_for(together, together * work, [&](std::int64_t k) {
            std::vector<const double *> here(dense);
            double *sum = sums.data() + (first + k) * width;
            const std::int64_t end = std::min(count, (first + k + 1) * ROWS);
            for (std::int64_t begin = (first + k) * ROWS; begin < end; begin += BLOCK) {
                for (std::size_t j = 0; j < dense; ++j) here[j] = values[j] + begin;
                simd().normal(std::min(BLOCK, end - begin), std::int64_t(dense), here.data(), slope + begin,
                              bend + begin, sum, sum + dense);
            }
        });
        poll.check();
    }
    for (std::int64_t k = 1; k < chunks; ++k)
        for (std::size_t i = 0; i < width; ++i) sums[i] += sums[k * width + i];
    for (std::size_t j = 0; j < dense; ++j) {
        seen.gradient[places[j]] = sums[j];
        for (std::size_t k = 0; k <= j; ++k) seen.hessian[places[j] * m + places[k]] = sums[dense + j * dense + k];
    }
}

// Products of each sparse column with all others: the column, times the curvature, is expanded to all rows.
void ColumnFits::add_sparse(const Columns &columns, Derivatives &seen, Poll &poll) const {
    const double *slope = seen.slope.data(), *bend = seen.bend.data();
    const std::size_t m = columns.size();
    std::vector<std::size_t> places;
    std::int64_t stored = 0;
    for (std::size_t j = 0; j < m; ++j) {
        if (!columns[j].rows) continue;
        places.push_back(j);
        stored += columns[j].count;
    }
    if (places.empty()) return;
    // Columns in rounds, one for each task, which has an array of its own to expand it.
    constexpr std::int64_t TASKS = 4;
    const std::int64_t work = 4 * stored * std::int64_t(m), count = std::int64_t(places.size()),
                       tasks = work < 4 * THREAD_WORK ? 1 : std::min(TASKS, count);
    std::vector<double> expanded(tasks * n_);
    for (std::int64_t first = 0; first < count; first += tasks) {
        const std::int64_t together = std::min(tasks, count - first);
        parallel_for(together, work * together / count, [&](std::int64_t task) {
            const std::size_t j = places[first + task];
            const Column &column = columns[j];
            double *bent = expanded.data() + task * n_;
            seen.gradient[j] = sparse_dot(column, slope);
            for (std::int64_t p = 0; p < column.count; ++p)
                bent[column.rows[p]] = bend[column.rows[p]] * column.values[p];
            for (std::size_t k = 0; k < m; ++k) {
                const bool both = columns[k].rows != nullptr;
                if (both && k > j) continue;
                double sum = 0;
                if (both) sum = sparse_dot(columns[k], bent);
                else
                    for (std::int64_t p = 0; p < column.count; ++p)
                        sum += bent[column.rows[p]] * columns[k].values[column.rows[p]];
                seen.hessian[std::max(j, k) * m + std::min(j, k)] = sum;
            }
            for (std::int64_t p = 0; p < column.count; ++p) bent[column.rows[p]] = 0;
        });
        poll.check();
    }
}

ColumnFits::Derivatives ColumnFits::differentiate(const Columns &columns, const double *margins, Poll &poll) const {
    if (nonconvex_attained_) {
        Derivatives seen = differentiate(columns, margins, false, poll);
        const std::vector<double> no_ridge(columns.size());
        if (!ridged_newton_step(seen.hessian, 0.0, no_ridge, seen.gradient).empty()) return seen;
    }
    return differentiate(columns, margins, true, poll);
}

ColumnFits::Derivatives ColumnFits::differentiate(const Columns &columns, const double *margins, bool convex,
                                                  Poll &poll) const {
    const std::size_t m = columns.size();
    Derivatives seen{
        0, 0, std::vector<double>(m), std::vector<double>(m * m), std::vector<double>(n_), std::vector<double>(n_)};
    seen.psi = sample_derivatives(margins, convex, seen.slope.data(), seen.bend.data(), seen.size, poll);
    add_dense(columns, seen, poll);
    add_sparse(columns, seen, poll);
    return seen;
}

}  // namespace levelprox
