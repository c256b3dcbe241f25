#include "algorithms/column_fits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/exact.hpp"

namespace levelprox {
namespace {

constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double INFINITE = std::numeric_limits<double>::infinity();

// A fit in a basis, as one over the columns.
void to_columns(const OrthonormalBasis &basis, ColumnFit &found) {
    const std::size_t m = basis.columns(), rank = basis.rank();
    std::vector<std::vector<double>> own;
    for (std::size_t j = 0; j < m; ++j) own.push_back(basis.of_column(j));
    std::vector<double> hessian(m * m), product(rank);
    for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t p = 0; p < rank; ++p) {
            product[p] = 0;
            for (std::size_t q = 0; q < rank; ++q) product[p] += found.hessian[p * rank + q] * own[j][q];
        }
        for (std::size_t k = 0; k < m; ++k)
            for (std::size_t p = 0; p < rank; ++p) hessian[j * m + k] += product[p] * own[k][p];
    }
    found.x = basis.coefficients(found.x);
    found.hessian = std::move(hessian);
}

}  // namespace

ColumnFits::Conjugate ColumnFits::conjugate_of(LossKind loss) {
    switch (loss) {
        case LossKind::squared: return Conjugate::squared;
        case LossKind::poisson: return Conjugate::rising_exponential;
        case LossKind::gamma: return Conjugate::falling_exponential;
        case LossKind::logistic: return Conjugate::logistic;
        case LossKind::huber: return Conjugate::huber;
        case LossKind::squared_hinge: return Conjugate::squared_hinge;
        default: return Conjugate::none;
    }
}

ColumnFits::ColumnFits(std::int64_t n, LossKind loss, double parameter, double width, double concordance,
                       double curvature_bound, const double *target, const double *weight, const double *offset,
                       bool convex, bool attained)
    : n_(n), samples_(n), loss_(make_loss(loss, parameter, width)), conjugate_(conjugate_of(loss)),
      parameter_(parameter), curvature_bound_(curvature_bound), concordance_(concordance), total_(double(n)),
      target_(target), weight_(weight), offset_(offset), infimum_at_infinity_(!convex && !attained),
      is_far_(!convex && !attained && n >= FAR_ROWS), nonconvex_attained_(!convex && attained) {
    auto groups = std::make_shared<const EqualSamples>(n, target, offset);
    if (groups->are_few()) equal_samples_ = std::move(groups);
    if (!weight) return;
    const HeadTail sum = compensated_sum(n, weight);
    total_ = sum.head + sum.tail;
}

// Copies of the columns: of n rows and one for each column.
ColumnFits::Extended::Extended(const ColumnFits &fits, const Columns &given, const std::vector<double> &ridge,
                               const double *from) {
    const std::int64_t n = fits.n_, rows = n + std::int64_t(given.size());
    for (std::size_t j = 0; j < given.size(); ++j) {
        const Column &column = given[j];
        const bool ridged = ridge[j] > 0;
        std::vector<double> values(column.values, column.values + column.count);
        std::vector<std::int64_t> places;
        if (column.rows) {
            places.reserve(std::size_t(column.count) +
                           1);  // a null address would mean a dense column, also without entries
            places.assign(column.rows, column.rows + column.count);
            if (ridged) {
                places.push_back(n + std::int64_t(j));
                values.push_back(1.0);
            }
        } else {
            values.resize(rows);
            values[n + j] = ridged ? 1.0 : 0.0;
        }
        values_.push_back(std::move(values));
        rows_.push_back(std::move(places));
        columns.push_back(
            {values_[j].data(), column.rows ? rows_[j].data() : nullptr, std::int64_t(values_[j].size())});
    }
    target.assign(fits.target_, fits.target_ + n);
    target.resize(rows);
    weight.assign(n, 1.0);
    if (fits.weight_) std::copy_n(fits.weight_, n, weight.data());
    for (const double r : ridge) weight.push_back(r * fits.total_);
    offset.resize(rows);
    if (from) std::copy_n(from, n, offset.data());
}

ColumnFits::ColumnFits(const ColumnFits &other, const Extended &extended) : ColumnFits(other) {
    n_ = std::int64_t(extended.target.size());
    target_ = extended.target.data();
    weight_ = extended.weight.data();
    offset_ = extended.offset.data();
    is_far_ = false;  // a ridge holds coefficients
}

ColumnFits::ColumnFits(const ColumnFits &other, const DistinctSamples &rows) : ColumnFits(other) {
    n_ = samples_ = std::int64_t(rows.target.size());
    target_ = rows.target.data();
    weight_ = rows.weight.data();
    offset_ = rows.offset.data();
    equal_samples_.reset();
}

ColumnFit ColumnFits::fit(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                          double below, const std::vector<double> &noise, const std::vector<double> &ridge,
                          Poll &poll) const {
    const std::unique_ptr<const EqualSamples> groups = noise.empty() ? equal_samples(columns) : nullptr;
    if (!groups) return fit_all_rows(columns, std::move(x), tolerance, accuracy, below, noise, ridge, poll);
    const DistinctSamples rows(*groups, columns, target_, weight_, offset_);
    ColumnFit found = ColumnFits(*this, rows)
                          .fit_all_rows(rows.columns, std::move(x), tolerance, accuracy, below, noise, ridge, poll);
    std::vector<double> margins;
    margins.reserve(std::size_t(n_) + columns.size());
    for (const std::int32_t group : groups->group()) margins.push_back(found.margins[std::size_t(group)]);
    margins.insert(margins.end(), found.margins.begin() + std::ptrdiff_t(groups->count()), found.margins.end());
    found.margins = std::move(margins);
    return found;
}

std::unique_ptr<const EqualSamples> ColumnFits::equal_samples(const Columns &columns) const {
    if (!equal_samples_) return nullptr;
    auto groups = std::make_unique<EqualSamples>(*equal_samples_);
    groups->separate(columns);
    return groups->are_few() ? std::move(groups) : nullptr;
}

ColumnFit ColumnFits::fit_all_rows(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                                   double below, const std::vector<double> &noise, const std::vector<double> &ridge,
                                   Poll &poll) const {
    if (ridge.empty()) return fit_without_ridge(columns, std::move(x), tolerance, accuracy, below, noise, poll);
    const Extended extended(*this, columns, ridge, offset_);
    return ColumnFits(*this, extended)
        .fit_without_ridge(extended.columns, std::move(x), tolerance, accuracy, below, noise, poll);
}

ColumnFit ColumnFits::fit_without_ridge(const Columns &columns, std::vector<double> x, double tolerance,
                                        double accuracy, double below, const std::vector<double> &noise,
                                        Poll &poll) const {
    if (is_far_ && n_ >= FAR_ROWS) return descend_far(columns, std::move(x), tolerance, accuracy, below, poll);
    if (infimum_at_infinity_ || nonconvex_attained_)
        return descend(columns, std::move(x), tolerance, below, INFINITE, poll);
    ColumnFit found = minimise(columns, x, nullptr, tolerance, accuracy, below, poll);
    return found.end == FitEnd::failed || !is_reached(columns, found, poll)
               ? minimise_in_basis(columns, x, accuracy, below, noise, poll)
               : found;
}

// Whether the coefficients of a fit attain its psi. Those of nearly dependent columns are large, and their products
// cancel.
bool ColumnFits::is_reached(const Columns &columns, const ColumnFit &found, Poll &poll) const {
    if (found.end != FitEnd::fitted) return true;
    std::vector<double> margins = combined(columns, found.x);
    const std::vector<double> origin = this->origin();
    for (std::int64_t i = 0; i < n_; ++i) margins[i] += origin[i];
    return value(margins.data(), poll) <= found.psi + std::max(1e-8 * std::abs(found.psi), 64 * found.resolution);
}

// The same in an orthonormal basis of the columns. Coefficients of nearly dependent columns are large and cancel; where
// that costs psi more than its last digits, columns that are nearly dependent are left out.
ColumnFit ColumnFits::minimise_in_basis(const Columns &columns, const std::vector<double> &x, double accuracy,
                                        double below, const std::vector<double> &noise, Poll &poll) const {
    constexpr double PARTS[] = {OrthonormalBasis::ROUNDING, 1e-10, 1e-8};
    constexpr double DEPENDENT = 64 * EPSILON;  // up to rounding
    const std::vector<double> origin = this->origin();
    ColumnFit best;
    double least = INFINITE, bound = -INFINITE;  // of psi over all columns, from the largest basis
    std::size_t last_rank = SIZE_MAX;
    for (const double part : PARTS) {
        const OrthonormalBasis basis(n_, columns, weight_, part, poll);
        if (basis.rank() == last_rank) continue;
        const bool first = last_rank == SIZE_MAX, whole = first && basis.largest_dropped() <= DEPENDENT;
        last_rank = basis.rank();
        ColumnFit found = minimise(basis.vectors(), basis.coordinates(x), &basis.noise(), INFINITE, accuracy,
                                   whole ? below : INFINITE, poll);
        if (whole) bound = found.psi - found.gap - found.resolution;
        to_columns(basis, found);
        std::vector<double> margins = combined(columns, found.x);
        for (std::int64_t i = 0; i < n_; ++i) margins[i] += origin[i];
        const double reached = value(margins.data(), poll),
                     psi = std::max(reached, value_with_noise(margins, found.x, noise, poll));
        const bool kept = psi <= found.psi + std::max(1e-8 * std::abs(found.psi), 64 * found.resolution);
        if (psi < least || best.margins.empty()) {
            least = psi;
            best = std::move(found);
            if (!whole) best.gap = std::max(best.psi - bound, 0.0);
            // Coefficients that do not attain the psi of the basis: its bound is not theirs.
            const bool believed = reached <= best.psi + std::max(1e-6 * std::abs(best.psi), 64 * best.resolution);
            if (!believed && best.end == FitEnd::fitted) best.end = FitEnd::failed;
        }
        if (kept || best.end == FitEnd::not_below || basis.smallest_ratio() > PARTS[2]) break;
    }
    if (!std::isfinite(bound) && best.end == FitEnd::fitted) best.end = FitEnd::failed;
    return best;
}

// psi where margins are off by what rounding the coefficients does to them; -infinite where nothing is known of that.
double ColumnFits::value_with_noise(const std::vector<double> &margins, const std::vector<double> &x,
                                    const std::vector<double> &noise, Poll &poll) const {
    double error = 0;
    for (std::size_t j = 0; j < noise.size(); ++j) error += noise[j] * std::abs(x[j]);
    double psi = -INFINITE;
    if (error == 0) return psi;
    for (const std::int64_t period : {2, 4}) {  // two patterns of signs
        std::vector<double> moved(margins);
        for (std::int64_t i = 0; i < samples_; ++i) moved[i] += i % period < period / 2 ? error : -error;
        psi = std::max(psi, value(moved.data(), poll));
    }
    return psi;
}

std::vector<double> ColumnFits::least_along(const Columns &columns, const double *margins,
                                            const std::vector<double> &ridge, Poll &poll) const {
    if (is_far_ && ridge.empty()) return least_along_far(columns, margins, poll);
    const bool convex = !infimum_at_infinity_ && !nonconvex_attained_;
    std::vector<double> least;
    const auto add = [&](const ColumnFits &here, const Columns &one) {
        const ColumnFit found = convex ? here.minimise_in_basis(one, {0.0}, 1e-6, INFINITE, {}, poll)
                                       : here.descend(one, {0.0}, 0.0, INFINITE, INFINITE, poll);
        least.push_back(std::isfinite(found.psi) ? found.psi : INFINITE);
    };
    for (std::size_t j = 0; j < columns.size(); ++j) {
        if (ridge.empty()) {
            add(ColumnFits(*this, margins), {columns[j]});
        } else {
            const Extended extended(*this, {columns[j]}, {ridge[j]}, margins);
            add(ColumnFits(*this, extended), extended.columns);
        }
    }
    return least;
}

}  // namespace levelprox
