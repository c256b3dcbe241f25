#include "algorithms/orthonormal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levelprox {
namespace {

constexpr double EPSILON = std::numeric_limits<double>::epsilon();

bool is_constant(std::int64_t n, const double *v) {
    for (std::int64_t i = 1; i < n; ++i)
        if (v[i] != v[0]) return false;
    return n > 0 && v[0] != 0;
}

// v += factor * u
void add(std::int64_t n, double factor, const double *u, double *v) {
    for (std::int64_t i = 0; i < n; ++i) v[i] += factor * u[i];
}

}  // namespace

double OrthonormalBasis::dot(const double *u, const double *v) const {
    double sum[4] = {};
    std::int64_t i = 0;
    if (weight_) {
        for (; i + 4 <= n_; i += 4)
            for (int k = 0; k < 4; ++k) sum[k] += weight_[i + k] * u[i + k] * v[i + k];
        for (; i < n_; ++i) sum[0] += weight_[i] * u[i] * v[i];
    } else {
        for (; i + 4 <= n_; i += 4)
            for (int k = 0; k < 4; ++k) sum[k] += u[i + k] * v[i + k];
        for (; i < n_; ++i) sum[0] += u[i] * v[i];
    }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Set entries to zero that are no larger than the rounding errors of the terms that they are the sum of. The difference
// of columns that are equal in most rows must have no slope and no curvature there.
void OrthonormalBasis::clear_rounding(const Column &column, std::size_t j, double *q) const {
    constexpr double MULTIPLE = 8 * EPSILON;
    // A centred entry is rounded relative to itself, and an error of the mean is the same in all rows.
    std::vector<double> size(n_, -mean_[j]);
    for (std::int64_t p = 0; p < column.count; ++p)
        size[column.rows ? column.rows[p] : p] += column.values[p] / scale_[j];
    for (double &entry : size) entry = std::abs(entry);
    for (std::size_t p = 0; p < order_.size(); ++p) {
        const double *v = vector(p);
        const double r = std::abs(triangle_[j * m_ + p]);
        for (std::int64_t i = 0; i < n_; ++i) size[i] += r * std::abs(v[i]);
    }
    for (std::int64_t i = 0; i < n_; ++i)
        if (std::abs(q[i]) <= MULTIPLE * size[i]) q[i] = 0;
}

OrthonormalBasis::OrthonormalBasis(std::int64_t n, const Columns &columns, const double *weight, double dependent,
                                   Poll &poll)
    : n_(n), m_(columns.size()), weight_(weight), values_(m_ * std::size_t(n)), triangle_(m_ * m_), scale_(m_, 1.0),
      mean_(m_) {
    std::vector<double> length(m_), remaining(m_);
    std::vector<double> least(m_, dependent);  // or what the digits of the entries resolve
    for (std::size_t j = 0; j < m_; ++j) {
        double *v = &values_[j * std::size_t(n)];
        if (columns[j].rows)
            for (std::int64_t p = 0; p < columns[j].count; ++p) v[columns[j].rows[p]] += columns[j].values[p];
        else std::copy_n(columns[j].values, n, v);
        if (constant_ == SIZE_MAX && is_constant(n, v)) constant_ = j;
    }
    double total = 0;
    for (std::int64_t i = 0; i < n; ++i) total += weight ? weight[i] : 1.0;
    for (std::size_t j = 0; j < m_; ++j) {
        double *v = &values_[j * std::size_t(n)];
        double largest = 0;
        for (std::int64_t i = 0; i < n; ++i)
            if (!weight || weight[i] > 0) largest = std::max(largest, std::abs(v[i]));
        double floor = 0;
        if (constant_ != SIZE_MAX && j != constant_ && total > 0) {
            double mean = 0;
            for (std::int64_t i = 0; i < n; ++i) mean += (weight ? weight[i] : 1.0) / total * v[i];
            if (std::isfinite(mean)) {
                mean_[j] = mean;
                for (std::int64_t i = 0; i < n; ++i) v[i] -= mean;
                floor = 8 * EPSILON * largest;  // the digits that entries of this size have
                largest = 0;
                for (std::int64_t i = 0; i < n; ++i)
                    if (!weight || weight[i] > 0) largest = std::max(largest, std::abs(v[i]));
            }
        }
        if (!(largest > floor) || !std::isfinite(largest)) {  // zero, or constant up to rounding
            std::fill_n(v, n, 0.0);
            continue;
        }
        // A power of two, so that squares stay in range and nothing is rounded.
        scale_[j] = std::exp2(std::floor(std::log2(largest)));
        for (std::int64_t i = 0; i < n; ++i) v[i] /= scale_[j];
        mean_[j] /= scale_[j];
        length[j] = remaining[j] = std::sqrt(dot(v, v));
        least[j] = std::max(least[j], floor / largest);
        poll.check();
    }
    std::vector<bool> used(m_);
    while (order_.size() < m_) {
        std::size_t next = SIZE_MAX;
        double best = 0;
        for (std::size_t j = 0; j < m_; ++j) {
            if (used[j] || !(length[j] > 0)) continue;
            const double ratio = remaining[j] / length[j];
            if (j == constant_) {
                next = j;  // the others are centred already
                break;
            }
            if (ratio > best && ratio > least[j]) {
                best = ratio;
                next = j;
            }
        }
        if (next == SIZE_MAX) break;
        double *q = &values_[next * std::size_t(n)];
        for (std::size_t p = 0; p < order_.size(); ++p) {  // once more against those before: twice is enough
            const double r = dot(vector(p), q);
            add(n, -r, vector(p), q);
            triangle_[next * m_ + p] += r;
        }
        const double norm = std::sqrt(dot(q, q));
        used[next] = true;
        if (!(norm > least[next] * length[next])) {
            largest_dropped_ = std::max(largest_dropped_, norm / length[next]);
            continue;
        }
        smallest_ratio_ = std::min(smallest_ratio_, norm / length[next]);
        clear_rounding(columns[next], next, q);
        for (std::int64_t i = 0; i < n; ++i) q[i] /= norm;
        triangle_[next * m_ + order_.size()] = norm;
        noise_.push_back(EPSILON * length[next] / norm);
        order_.push_back(next);
        for (std::size_t j = 0; j < m_; ++j) {
            if (used[j] || !(length[j] > 0)) continue;
            double *v = &values_[j * std::size_t(n)];
            const double r = dot(q, v);
            add(n, -r, q, v);
            triangle_[j * m_ + order_.size() - 1] += r;
            remaining[j] = std::sqrt(dot(v, v));
        }
        poll.check();
    }
    for (std::size_t j = 0; j < m_; ++j)
        if (!used[j] && length[j] > 0) largest_dropped_ = std::max(largest_dropped_, remaining[j] / length[j]);
}

Columns OrthonormalBasis::vectors() const {
    Columns all;
    for (std::size_t p = 0; p < rank(); ++p) all.push_back({vector(p), nullptr, n_});
    return all;
}

std::vector<double> OrthonormalBasis::coefficients(const std::vector<double> &a) const {
    std::vector<double> x(m_);
    // Back substitution: vector p takes part in the columns that come later in the order.
    for (std::size_t p = rank(); p-- > 0;) {
        double rest = a[p];
        for (std::size_t q = p + 1; q < rank(); ++q) rest -= x[order_[q]] * triangle_[order_[q] * m_ + p];
        x[order_[p]] = rest / triangle_[order_[p] * m_ + p];
    }
    double shift = 0;
    for (std::size_t p = 0; p < rank(); ++p)
        if (order_[p] != constant_) shift += x[order_[p]] * mean_[order_[p]];
    for (std::size_t j = 0; j < m_; ++j) x[j] /= scale_[j];
    // The constant column is scale * (1 + fraction); its entries are all equal to its value.
    if (constant_ != SIZE_MAX && shift != 0) {
        const std::size_t p = std::size_t(std::find(order_.begin(), order_.end(), constant_) - order_.begin());
        if (p < rank()) {
            const double value = vector(p)[0] * triangle_[constant_ * m_ + p] * scale_[constant_];
            x[constant_] -= shift / value;
        }
    }
    return x;
}

std::vector<double> OrthonormalBasis::of_column(std::size_t j) const {
    std::vector<double> a(rank());
    for (std::size_t p = 0; p < rank(); ++p) a[p] = scale_[j] * triangle_[j * m_ + p];
    if (constant_ == SIZE_MAX || j == constant_ || mean_[j] == 0) return a;
    const std::size_t p = std::size_t(std::find(order_.begin(), order_.end(), constant_) - order_.begin());
    if (p < rank()) a[p] += scale_[j] * mean_[j] / vector(p)[0];
    return a;
}

std::vector<double> OrthonormalBasis::coordinates(const std::vector<double> &x) const {
    std::vector<double> a(rank());
    for (std::size_t j = 0; j < m_; ++j) {
        if (x[j] == 0) continue;
        const std::vector<double> own = of_column(j);
        for (std::size_t p = 0; p < rank(); ++p) a[p] += x[j] * own[p];
    }
    return a;
}

}  // namespace levelprox
