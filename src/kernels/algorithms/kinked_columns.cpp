#include "algorithms/kinked_columns.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithms/exact.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double REPLACED_SHARE = 1e-12;           // the part of a column in another that depends on it
constexpr std::int64_t MANY_SAMPLES = 2000;        // from which T may come from the Gram matrix
constexpr double LEAST_PIVOT = 1e-8;               // of the Gram matrix, relative to its diagonal
constexpr std::int64_t BLOCK = 256, SLICE = 2048;  // rows

double dot(std::int64_t n, const double *a, const double *b) { return simd().dense<double>().dot(n, a, b); }

// margins += sum_j x_j column_j, a slice of rows after another.
void add_columns(const std::vector<const double *> &columns, std::int64_t n, const std::vector<double> &x,
                 std::vector<double> &margins) {
    const auto &dense = simd().dense<double>();
    for (std::int64_t begin = 0; begin < n; begin += SLICE)
        for (std::size_t j = 0; j < columns.size(); ++j)
            if (x[j] != 0) dense.add(std::min(SLICE, n - begin), x[j], columns[j] + begin, &margins[begin]);
}

}  // namespace

KinkedColumns::KinkedColumns(std::int64_t n, std::vector<const double *> columns, const double *weight,
                             std::vector<bool> nonnegative)
    : all_(n), whole_(std::move(columns)), columns_(whole_), nonnegative_(std::move(nonnegative)) {
    for (std::int64_t i = 0; i < n; ++i)
        if (!weight || weight[i] > 0) counts_.push_back(i);
    const std::size_t rows = counts_.size(), m = whole_.size();
    share_.assign(rows, 1.0);
    for (std::size_t i = 0; weight && i < rows; ++i) share_[i] = weight[counts_[i]];
    const HeadTail total = compensated_sum(std::int64_t(rows), share_.data());
    for (double &share : share_) share /= total.head + total.tail;
    if (!counts_all())
        for (std::size_t j = 0; j < m; ++j) {
            std::vector<double> copy(rows);
            for (std::size_t i = 0; i < rows; ++i) copy[i] = whole_[j][counts_[i]];
            copies_.push_back(std::move(copy));
            columns_[j] = copies_.back().data();
        }
    for (std::size_t j = 0; j < m; ++j) {
        double most = 0;
        for (std::size_t i = 0; i < rows; ++i) most = std::max(most, std::abs(columns_[j][i]));
        int exponent = 0;
        std::frexp(most > 0 ? most : 1.0, &exponent);
        unit_.push_back(std::ldexp(1.0, exponent));  // powers of two round nothing
    }
    gram_.resize(m * m);
    std::vector<double> none(m), no_slope(BLOCK);
    std::vector<const double *> here(m);
    std::vector<double> block(m * std::size_t(BLOCK));  // in units, so that nothing overflows
    for (std::int64_t begin = 0; m && begin < std::int64_t(rows); begin += BLOCK) {
        const std::int64_t count = std::min(BLOCK, std::int64_t(rows) - begin);
        for (std::size_t j = 0; j < m; ++j) {
            double *scaled = &block[j * std::size_t(BLOCK)];
            for (std::int64_t i = 0; i < count; ++i) scaled[i] = columns_[j][begin + i] / unit_[j];
            here[j] = scaled;
        }
        simd().normal(count, std::int64_t(m), here.data(), no_slope.data(), &share_[begin], none.data(), gram_.data());
    }
    for (std::size_t j = 0; j < m; ++j) mean_size_.push_back(std::sqrt(gram_[j * m + j]) * (1 + 1e-9));
    order_.resize(m);
    std::iota(order_.begin(), order_.end(), std::size_t(0));
    std::stable_partition(order_.begin(), order_.end(), [&](std::size_t j) { return !nonnegative_[j]; });
}

const KinkedCoordinates &KinkedColumns::coordinates(double dependent, const std::vector<double> &uncentred,
                                                    Poll &poll) {
    const auto found = known_.find(dependent);
    if (found != known_.end()) return found->second;
    const std::size_t m = size();
    KinkedCoordinates at;
    at.replaced.assign(m, false);
    if (!known_.empty() || rows() < MANY_SAMPLES || !by_gram_matrix(at))
        by_gram_schmidt(at, dependent, uncentred, poll);
    for (std::size_t j = 0; j < m; ++j) {
        double square = 0;
        for (std::size_t r = 0; r < at.dimension; ++r) square += at.at(j, r) * at.at(j, r);
        if (!(square > 0)) continue;
        at.kept.push_back(j);
        at.length.push_back(std::sqrt(square));
    }
    return known_.emplace(dependent, std::move(at)).first->second;
}

// G = R'R over the columns in their order, and T = R^-1.
bool KinkedColumns::by_gram_matrix(KinkedCoordinates &at) const {
    const std::size_t m = size();
    at.rank = at.dimension = m;
    at.T.assign(m * m, 0.0);
    for (std::size_t p = 0; p < m; ++p) {
        const std::size_t j = order_[p];
        std::vector<double> combination(m);
        combination[j] = 1;
        double left = gram_[j * m + j];
        for (std::size_t r = 0; r < p; ++r) {
            double along = 0;  // <vector r, column j>
            for (std::size_t k = 0; k < m; ++k) along += at.T[k * m + r] * gram(j, k);
            left -= along * along;
            for (std::size_t k = 0; k < m; ++k) combination[k] -= along * at.T[k * m + r];
        }
        if (!(left > LEAST_PIVOT * gram_[j * m + j])) return false;
        for (std::size_t k = 0; k < m; ++k) at.T[k * m + p] = combination[k] / std::sqrt(left);
    }
    return true;
}

void KinkedColumns::by_gram_schmidt(KinkedCoordinates &at, double dependent, const std::vector<double> &uncentred,
                                    Poll &poll) const {
    const std::size_t m = size(), n = share_.size();
    const auto &dense = simd().dense<double>();
    std::vector<std::vector<double>> found, beside;  // rows of T'
    at.vectors.clear();
    std::vector<double> weighted(n);
    const auto length = [&](const std::vector<double> &column) {
        for (std::size_t i = 0; i < n; ++i) weighted[i] = share_[i] * column[i];
        return std::sqrt(dot(std::int64_t(n), column.data(), weighted.data()));
    };
    for (const std::size_t j : order_) {
        poll.check();
        std::vector<double> column(n), combination(m);
        for (std::size_t i = 0; i < n; ++i) column[i] = columns_[j][i] / unit_[j];
        combination[j] = 1;
        const double norm = length(column);
        for (int repeat = 0; repeat < 2; ++repeat) {
            for (std::size_t i = 0; i < n; ++i) weighted[i] = share_[i] * column[i];
            std::vector<double> along;
            for (std::size_t r = 0; r < found.size(); ++r)
                along.push_back(dot(std::int64_t(n), &at.vectors[r * n], weighted.data()));
            for (std::size_t r = 0; r < found.size(); ++r) {
                dense.add(std::int64_t(n), -along[r], &at.vectors[r * n], column.data());
                for (std::size_t k = 0; k < m; ++k) combination[k] -= along[r] * found[r][k];
            }
        }
        const double left = length(column);
        const double whole = uncentred.empty() ? norm : std::max(norm, uncentred[j] / unit_[j]);
        if (left > dependent * whole) {
            for (double &entry : column) entry /= left;
            for (double &entry : combination) entry /= left;
            at.vectors.insert(at.vectors.end(), column.begin(), column.end());
            found.push_back(std::move(combination));
        } else if (nonnegative_[j] && norm > 0) {
            beside.push_back(std::move(combination));
            at.beside.push_back(j);
        } else {
            for (std::size_t k = 0; k < m; ++k)
                if (std::abs(combination[k]) > REPLACED_SHARE) at.replaced[k] = true;
        }
    }
    at.rank = found.size();
    at.dimension = at.rank + beside.size();
    at.vectors.resize(at.dimension * n);
    found.insert(found.end(), beside.begin(), beside.end());
    at.T.assign(m * at.dimension, 0.0);
    for (std::size_t r = 0; r < at.dimension; ++r)
        for (std::size_t k = 0; k < m; ++k) at.T[k * at.dimension + r] = found[r][k];
}

void KinkedColumns::add_to(std::vector<double> &margins, const std::vector<double> &x) const {
    add_columns(columns_, rows(), x, margins);
}

void KinkedColumns::add_whole_to(std::vector<double> &margins, const std::vector<double> &x) const {
    add_columns(whole_, all_, x, margins);
}

std::vector<double> KinkedColumns::products(const double *u) const {
    std::vector<double> sums;
    for (std::size_t j = 0; j < size(); ++j) sums.push_back(dot(rows(), columns_[j], u));
    return sums;
}

}  // namespace levelprox
