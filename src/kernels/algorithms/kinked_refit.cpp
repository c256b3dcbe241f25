#include "algorithms/kinked_refit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double BARRIER_FACTOR = 4.0;    // times the steepest psi can be in x_j: the slope where x_j < 0 must not be
constexpr double KINK_MOVE_SHARE = 1e-9;  // of the mean residual: by how much kinks are moved
constexpr double LEAST_KINK_MOVE_SHARE = 0x1p-44;  // of the largest kink
constexpr double SMALLER_MOVE_FACTOR = 1e-3;       // times that: where it was too far
constexpr int REPETITIONS = 3;
constexpr double EXACT_ERROR_SHARE = 1e-11;  // of psi: an error that needs no repetition
constexpr double GOLDEN = 0.6180339887498949;
constexpr std::size_t MANY_SAMPLES = 4000;  // from which a descent begins with some of them
constexpr double SOME_SAMPLES_POWER = 2.0 / 3, NEAR_FACTOR = 2.0;
constexpr std::size_t MORE_FACTOR = 4;  // times as many samples, where f falls beyond the kinks of those near theirs
constexpr int ROUNDS = 8;               // in which samples with wrong signs join

// A permutation of 0..2^64 - 1 (the finaliser of splitmix64): the samples with the smallest numbers are some of all.
std::uint64_t scattered(std::uint64_t i) {
    i += 0x9e3779b97f4a7c15;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
    i = (i ^ (i >> 27)) * 0x94d049bb133111eb;
    return i ^ (i >> 31);
}

}  // namespace

KinkedRefit::KinkedRefit(const KinkedSamples &samples, const KinkedColumns &columns, const KinkedCoordinates &at,
                         const std::vector<double> &noise, EdgeLimits limits, Poll &poll)
    : samples_(samples), columns_(columns), at_(at), noise_(noise), n_(std::size_t(columns.rows())), m_(columns.size()),
      dimension_(at.dimension), most_edges_(limits.least + limits.per_coordinate * at.dimension), poll_(poll) {
    const std::vector<double> &share = columns.share();
    for (std::size_t i = 0; i < n_; ++i) {
        low_.push_back(share[i] * samples.low[counted(i)]);
        high_.push_back(share[i] * samples.high[counted(i)]);
        kinks_.push_back(target(i) - samples.origin[counted(i)]);
        largest_kink_ = std::max(largest_kink_, std::abs(kinks_.back()));
    }
    for (std::size_t p = 0; p < at.kept.size(); ++p) {
        const std::size_t j = at.kept[p];
        double held = 0;  // the slope where x_j < 0 must not be: psi is less steep in x_j
        if (columns.nonnegative(j)) {
            double size = 0;
            for (std::size_t i = 0; i < n_; ++i) size += share[i] * std::abs(columns.column(j)[i]);
            held = samples.steepest * BARRIER_FACTOR * size / columns.unit(j) * at.length[p];
        }
        low_.push_back(-held);
        high_.push_back(0.0);
        kinks_.push_back(0.0);
    }
}

KinkedFit KinkedRefit::run(const std::vector<double> &x, const double *slopes) const {
    if (dimension_ == 0) {
        Dual dual{{}, low_};
        for (std::size_t i = 0; i < n_; ++i) dual.u[i] = kinks_[i] < 0 ? high_[i] : low_[i];
        return vertex(dual);
    }
    std::vector<double> w = coordinates_of(x);
    if (slopes) {
        std::vector<std::size_t> all(low_.size());
        std::iota(all.begin(), all.end(), std::size_t(0));
        Dual dual{gathered(all, kinks_).basis_near(w), std::vector<double>(low_.size())};
        for (std::size_t i = 0; i < n_; ++i)
            dual.u[i] = std::clamp(columns_.share()[i] * slopes[counted(i)], low_[i], high_[i]);
        const KinkedFit given = vertex(dual), found = vertex(descended(w, dual.basis, 0.0, n_));
        return given.error < found.error ? given : found;
    }
    std::size_t count = n_;
    if (n_ > MANY_SAMPLES) {
        const double some = std::sqrt(double(dimension_)) * std::pow(double(n_), SOME_SAMPLES_POWER);
        if (some < 0.5 * double(n_)) {
            w = from_some_samples(std::move(w), std::size_t(some));
            count = std::size_t(NEAR_FACTOR * std::sqrt(double(dimension_) / some) * double(n_));
        }
    }
    std::vector<double> off = along(w);
    for (std::size_t i = 0; i < n_; ++i) off[i] -= kinks_[i];
    double move = move_for(off);
    Dual dual = descended(std::move(w), {}, move, count);
    KinkedFit best = vertex(dual);
    for (int repeat = 0; repeat < REPETITIONS; ++repeat) {
        if (best.error <= EXACT_ERROR_SHARE * best.psi + 8 * best.rounding) break;
        // psi may be far smaller than at the start, and the moves of the kinks too large for it.
        move = std::min(SMALLER_MOVE_FACTOR * move, KINK_MOVE_SHARE * mean_size(residuals(best.margins)));
        dual = descended({}, dual.basis, move, n_);
        KinkedFit next = vertex(dual);
        if (!(next.error < best.error / 2)) break;
        best = std::move(next);
    }
    return best;
}

// Moves below the last digits of the kinks move none, as where only samples with little weight have residuals.
double KinkedRefit::move_for(const std::vector<double> &residuals) const {
    return std::max(KINK_MOVE_SHARE * mean_size(residuals), LEAST_KINK_MOVE_SHARE * largest_kink_);
}

double KinkedRefit::mean_size(const std::vector<double> &residuals) const {
    double size = 0;
    for (std::size_t i = 0; i < n_; ++i) size += columns_.share()[i] * std::abs(residuals[i]);
    return size;
}

// w with Tw = x, as near as the columns that are not left out allow.
std::vector<double> KinkedRefit::coordinates_of(const std::vector<double> &x) const {
    std::vector<double> w(dimension_);
    if (at_.vectors.empty()) {
        for (std::size_t r = 0; r < dimension_; ++r)
            for (std::size_t j = 0; j < m_; ++j)
                for (std::size_t k = 0; k < m_; ++k)
                    w[r] += at_.at(j, r) * columns_.gram(j, k) * (x[k] * columns_.unit(k));
        return w;
    }
    std::vector<double> margins(n_);
    columns_.add_to(margins, x);
    for (std::size_t i = 0; i < n_; ++i) margins[i] *= columns_.share()[i];
    for (std::size_t r = 0; r < at_.rank; ++r)
        w[r] = simd().dense<double>().dot(std::int64_t(n_), &at_.vectors[r * n_], margins.data());
    for (std::size_t p = 0; p < at_.beside.size(); ++p)
        w[at_.rank + p] = x[at_.beside[p]] * columns_.unit(at_.beside[p]);
    return w;
}

// How all samples move with w.
std::vector<double> KinkedRefit::along(const std::vector<double> &w) const {
    std::vector<double> moved(n_), x(m_);
    if (!at_.vectors.empty()) {
        simd().dense<double>().adds(std::int64_t(dimension_), std::int64_t(n_), std::int64_t(n_), w.data(),
                                    at_.vectors.data(), moved.data());
        return moved;
    }
    for (std::size_t j = 0; j < m_; ++j) {
        for (std::size_t r = 0; r < dimension_; ++r) x[j] += at_.at(j, r) * w[r];
        x[j] /= columns_.unit(j);
    }
    columns_.add_to(moved, x);
    return moved;
}

double KinkedRefit::row(std::size_t i, std::size_t r) const {
    if (i >= n_) return at_.at(at_.kept[i - n_], r) / at_.length[i - n_];
    if (!at_.vectors.empty()) return at_.vectors[r * n_ + i];
    double sum = 0;
    for (std::size_t j = 0; j < m_; ++j) sum += columns_.column(j)[i] / columns_.unit(j) * at_.at(j, r);
    return sum;
}

// Each kink moved by another amount.
std::vector<double> KinkedRefit::moved_kinks(double move) const {
    std::vector<double> kinks(kinks_);
    double whole;
    for (std::size_t i = 0; i < kinks.size(); ++i)
        kinks[i] += move * (0.5 + std::modf(GOLDEN * double(i + 1), &whole) / 2);
    return kinks;
}

// Some rows, samples first.
KinkedRows KinkedRefit::gathered(const std::vector<std::size_t> &rows, const std::vector<double> &kinks) const {
    KinkedRows out;
    const std::size_t count = rows.size();
    out.dimension = dimension_;
    out.count = count;
    out.samples = std::size_t(std::lower_bound(rows.begin(), rows.end(), n_) - rows.begin());
    out.q.resize(dimension_ * count);
    out.length.resize(count);
    out.gradient.resize(dimension_);
    if (at_.vectors.empty()) {
        std::vector<double> entries(out.samples);
        const auto &dense = simd().dense<double>();
        for (std::size_t j = 0; j < m_; ++j) {
            const double *column = columns_.column(j), scale = 1 / columns_.unit(j);
            for (std::size_t p = 0; p < out.samples; ++p) entries[p] = column[rows[p]] * scale;
            for (std::size_t r = 0; r < dimension_; ++r)
                if (at_.at(j, r) != 0)
                    dense.add(std::int64_t(out.samples), at_.at(j, r), entries.data(), &out.q[r * count]);
        }
    }
    for (std::size_t p = at_.vectors.empty() ? out.samples : 0; p < count; ++p)
        for (std::size_t r = 0; r < dimension_; ++r) out.q[r * count + p] = row(rows[p], r);
    for (std::size_t r = 0; r < dimension_; ++r)
        for (std::size_t p = 0; p < count; ++p) out.length[p] += out.q[r * count + p] * out.q[r * count + p];
    for (std::size_t p = 0; p < count; ++p) {
        out.length[p] = std::sqrt(out.length[p]);
        out.low.push_back(low_[rows[p]]);
        out.high.push_back(high_[rows[p]]);
        out.kink.push_back(kinks[rows[p]]);
    }
    return out;
}

// What other samples with slopes u add to the gradient.
void KinkedRefit::set_far(KinkedRows &near, const std::vector<double> &u) const {
    near.terms = std::numeric_limits<double>::infinity();
    if (!at_.vectors.empty()) {
        simd().dense<double>().dots(std::int64_t(dimension_), std::int64_t(n_), at_.vectors.data(), u.data(),
                                    near.gradient.data());
        return;
    }
    const std::vector<double> products = columns_.products(u.data());
    for (std::size_t r = 0; r < dimension_; ++r) {
        near.gradient[r] = 0;
        for (std::size_t j = 0; j < m_; ++j) near.gradient[r] += at_.at(j, r) * products[j] / columns_.unit(j);
    }
}

// The minimiser over some samples that are chosen as if by chance.
std::vector<double> KinkedRefit::from_some_samples(std::vector<double> w, std::size_t count) const {
    const std::uint64_t most = std::uint64_t(double(count) / double(n_) * 0x1p64);
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < n_; ++i)
        if (scattered(i) < most) some.push_back(i);
    for (std::size_t i = n_; i < low_.size(); ++i) some.push_back(i);
    KinkedRows rows = gathered(some, moved_kinks(LEAST_KINK_MOVE_SHARE * largest_kink_));
    for (std::size_t p = 0; p < rows.samples; ++p) {  // so that held coordinates stay held
        rows.low[p] *= double(n_) / double(count);
        rows.high[p] *= double(n_) / double(count);
    }
    return descend(rows, rows.basis_near(w), samples_.steepest, rows.samples, most_edges_, poll_).w;
}

// So many samples with the smallest residuals, those of a basis, and all coordinates.
std::vector<std::size_t> KinkedRefit::nearest(const std::vector<double> &off, std::size_t count,
                                              const std::vector<std::size_t> &basis) const {
    std::vector<std::size_t> rows;
    std::vector<double> sizes(off);
    for (double &size : sizes) size = std::abs(size);
    double most = std::numeric_limits<double>::infinity();
    if (count < n_) {
        std::vector<double> order(sizes);
        std::nth_element(order.begin(), order.begin() + std::ptrdiff_t(count), order.end());
        most = order[count];
    }
    for (const std::size_t i : basis)
        if (i < n_) sizes[i] = 0;
    for (std::size_t i = 0; i < n_; ++i)
        if (!(sizes[i] > most)) rows.push_back(i);
    for (std::size_t i = n_; i < low_.size(); ++i) rows.push_back(i);
    return rows;
}

// The last vertex of a descent from a basis, or from one near w, with moved kinks. It runs over `count` samples near
// their kinks, and those whose signs turn out to be wrong.
KinkedRefit::Dual KinkedRefit::descended(std::vector<double> w, std::vector<std::size_t> basis, double move,
                                         std::size_t count) const {
    const std::vector<double> kinks = moved_kinks(move);
    std::vector<double> off(n_), u(low_.size());
    if (count < n_) off = along(w);
    for (std::size_t i = 0; i < n_; ++i) off[i] -= kinks[i];
    std::vector<std::size_t> rows = nearest(off, count, basis);
    for (int round = 0;; ++round) {
        const bool all = rows.size() == low_.size();
        KinkedRows near = gathered(rows, kinks);
        if (!all) {
            std::vector<bool> inside(n_);
            for (std::size_t p = 0; p < near.samples; ++p) inside[rows[p]] = true;
            for (std::size_t i = 0; i < n_; ++i) u[i] = inside[i] ? 0.0 : off[i] > 0 ? high_[i] : low_[i];
            set_far(near, u);
        }
        std::vector<std::size_t> begin;
        for (const std::size_t i : basis)
            begin.push_back(std::size_t(std::lower_bound(rows.begin(), rows.end(), i) - rows.begin()));
        if (begin.empty()) begin = near.basis_near(w);
        KinkedVertex found = descend(near, std::move(begin), samples_.steepest, n_, most_edges_, poll_);
        for (std::size_t p = 0; p < rows.size(); ++p) u[rows[p]] = found.u[p];
        basis.clear();
        for (const std::size_t p : found.basis) basis.push_back(rows[p]);
        if (all) return {std::move(basis), std::move(u)};
        w = std::move(found.w);

        const std::vector<double> now = along(w);
        std::vector<std::size_t> wrong;
        for (std::size_t i = 0, p = 0; i < n_; ++i) {
            if (p < near.samples && rows[p] == i) ++p;
            else if ((now[i] - kinks[i] > 0) != (off[i] > 0)) wrong.push_back(i);
        }
        if (wrong.empty() && found.bounded) return {std::move(basis), std::move(u)};
        for (std::size_t i = 0; i < n_; ++i) off[i] = now[i] - kinks[i];
        if (!found.bounded || round + 1 >= ROUNDS) {
            count = round + 1 < ROUNDS ? std::min(n_, MORE_FACTOR * count) : n_;
            rows = nearest(off, count, basis);
            continue;
        }
        std::vector<std::size_t> joined;
        std::merge(rows.begin(), rows.end(), wrong.begin(), wrong.end(), std::back_inserter(joined));
        rows = std::move(joined);
    }
}

}  // namespace levelprox
