#include "algorithms/column_fits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cholesky.hpp"
#include "algorithms/exact.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr std::int64_t BLOCK = 256;  // rows
constexpr int MOST_STEPS = 100;      // many only where classes are separated
constexpr double SHOWS = 1e-12;      // of psi
constexpr double PERFECT = 1e-12;    // of psi at 0: nothing is left to explain
constexpr double SEPARATED = 1e-20;  // of psi at 0: the same for the logistic loss, whose infimum 0 is not attained
constexpr double MUCH = 1e-3;        // of psi: a small gradient promises so much only where psi itself is going to 0
constexpr double RIDGE = 1e-9;       // of the curvature at the start, and less as psi falls
constexpr double FAR = 20.0;         // by how much the log of the curvature may change in a step
constexpr double ARMIJO = 1e-4;
constexpr double SHORTEST = 1.0 / 1024;      // of a Newton step
constexpr double SHORTEST_OF_FAR = 0x1p-60;  // the same where a step may lead anywhere
constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double LAST_DIGITS = 4 * EPSILON;

double largest(const std::vector<double> &v) {
    double most = 0;
    for (const double entry : v) most = std::max(most, std::abs(entry));
    return most;
}

// Not every loss is bounded by 0: where one is below, nothing is perfect, and shares mean nothing.
bool is_perfect(double psi, double origin) { return psi >= 0 && psi <= PERFECT * origin; }
double share_left(double psi, double start) { return psi >= 0 && psi < start ? psi / start : 1.0; }

// -(H + share diag(ridge))^-1 g, H's lower triangle given; empty where H is not positive definite.
std::vector<double> newton_step(std::vector<double> H, double share, const std::vector<double> &ridge,
                                const std::vector<double> &g) {
    const std::size_t m = g.size();
    std::vector<double> unit(m), step(m);
    for (std::size_t j = 0; j < m; ++j) {
        H[j * m + j] += share * ridge[j];
        if (!(H[j * m + j] > 0)) return {};
        unit[j] = std::sqrt(H[j * m + j]);
    }
    for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t k = 0; k < j; ++k) H[j * m + k] /= unit[j] * unit[k];
        H[j * m + j] = 1;
        step[j] = -g[j] / unit[j];
    }
    if (!factorise(m, H)) return {};
    solve_factorised(m, H, step);
    for (std::size_t j = 0; j < m; ++j) {
        step[j] /= unit[j];
        if (!std::isfinite(step[j])) return {};
    }
    return step;
}

// What the second-order model says psi falls by, twice.
double fall_along(const std::vector<double> &step, const std::vector<double> &gradient) {
    double fall = 0;
    for (std::size_t j = 0; j < step.size(); ++j) fall -= step[j] * gradient[j];
    return fall;
}

double lowest(double psi, double foretold, double change) { return psi - foretold * self_concordant_factor(change); }

void mirror(std::size_t m, std::vector<double> &H) {
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < j; ++k) H[k * m + j] = H[j * m + k];
}

// (1 + t) ln(1 + t) - t, for t >= -1.
double relative_entropy(double t) {
    if (std::abs(t) < 1e-3) return t * t * (0.5 - t * (1.0 / 6 - t * (1.0 / 12 - t * (1.0 / 20 - t / 30))));
    return t <= -1 ? 1.0 : (1 + t) * std::log1p(t) - t;
}

// A fit in a basis, as one over the columns.
void in_units_of(const OrthonormalBasis &basis, ColumnFit &found) {
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

struct NewtonStep {
    std::vector<double> step;       // empty where the matrix is not positive definite
    std::vector<std::size_t> flat;  // coordinates without a pivot, whose step is 0
    std::vector<double> slope;      // of the model along these, after the step
    double decrement = 0;           // g' H^-1 g
};

// -(H + mu diag(reference))^-1 g, in units in which the diagonal is 1, by Cholesky's method with diagonal pivoting.
// Coordinates whose pivots are not above `least` are left out.
NewtonStep newton_step_of(std::vector<double> H, double mu, const std::vector<double> &reference,
                          const std::vector<double> &g, double least) {
    const std::size_t m = g.size();
    std::vector<double> unit(m), pivot(m), rhs(m);
    for (std::size_t j = 0; j < m; ++j) {
        const double diagonal = H[j * m + j] + (mu > 0 ? mu * reference[j] : 0.0);
        if (!std::isfinite(diagonal)) return {};
        unit[j] = diagonal > 0 ? std::sqrt(diagonal) : 0.0;
        pivot[j] = diagonal > 0 ? 1.0 : 0.0;
        for (std::size_t k = 0; k < j; ++k) {
            H[j * m + k] = unit[j] > 0 && unit[k] > 0 ? H[j * m + k] / unit[j] / unit[k] : 0.0;
            H[k * m + j] = H[j * m + k];
        }
        H[j * m + j] = pivot[j];
        rhs[j] = unit[j] > 0 ? -g[j] / unit[j] : 0.0;
    }
    // Column p of L overwrites column order[p] of H; v = L^-1 rhs on the way.
    std::vector<std::size_t> order;
    std::vector<bool> used(m);
    std::vector<double> v;
    while (order.size() < m) {
        std::size_t next = m;
        for (std::size_t j = 0; j < m; ++j)
            if (!used[j] && pivot[j] > least && (next == m || pivot[j] > pivot[next])) next = j;
        if (next == m) break;
        used[next] = true;
        const double root = std::sqrt(pivot[next]);
        for (std::size_t j = 0; j < m; ++j) {
            if (used[j]) continue;
            double entry = H[j * m + next];
            for (std::size_t p = 0; p < order.size(); ++p) entry -= H[j * m + order[p]] * H[next * m + order[p]];
            H[j * m + next] = entry / root;
            pivot[j] -= H[j * m + next] * H[j * m + next];
        }
        double value = rhs[next];
        for (std::size_t p = 0; p < order.size(); ++p) value -= H[next * m + order[p]] * v[p];
        v.push_back(value / root);
        H[next * m + next] = root;
        order.push_back(next);
    }
    NewtonStep found{std::vector<double>(m), {}, {}, 0};
    for (std::size_t j = 0; j < m; ++j) {
        if (used[j]) continue;
        double slope = rhs[j];
        for (std::size_t p = 0; p < order.size(); ++p) slope -= H[j * m + order[p]] * v[p];
        found.flat.push_back(j);
        found.slope.push_back(unit[j] > 0 ? slope * unit[j] : -g[j]);
    }
    for (std::size_t p = order.size(); p-- > 0;) {
        double value = v[p];
        for (std::size_t q = p + 1; q < order.size(); ++q) value -= H[order[q] * m + order[p]] * found.step[order[q]];
        found.step[order[p]] = value / H[order[p] * m + order[p]];
    }
    for (std::size_t j = 0; j < m; ++j) {
        if (unit[j] > 0) found.step[j] /= unit[j];
        if (!std::isfinite(found.step[j])) return {};
        found.decrement -= found.step[j] * g[j];
    }
    found.decrement = std::max(found.decrement, 0.0);
    return found;
}

}  // namespace

double self_concordant_factor(double rho) {
    constexpr double UP = 1 + 1e-14;
    if (!(rho <= 1)) return INFINITE;
    if (rho == 1) return 1.0;
    if (rho >= 0.1) return UP * (rho + (1 - rho) * std::log1p(-rho)) / (rho * rho) + 4 * EPSILON / rho;
    double power = 1, sum = 0;
    int m = 0;
    for (; m < 14; ++m, power *= rho) sum += power / ((m + 1.0) * (m + 2.0));
    return UP * (sum + power / ((m + 1.0) * (m + 2.0) * (1 - rho)));  // the remainder, as a geometric series
}

ColumnFits::ColumnFits(std::int64_t n, const std::string &loss, double parameter, double width, double concordance,
                       double curvature_bound, const double *target, const double *weight, const double *offset,
                       bool convex, bool attained)
    : n_(n), samples_(n), loss_(make_loss(loss, parameter, width)), conjugate_(Conjugate::none), parameter_(parameter),
      curvature_bound_(curvature_bound), concordance_(concordance), total_(double(n)), target_(target), weight_(weight),
      offset_(offset), falls_(!convex && !attained), bends_both_ways_(!convex && attained) {
    if (loss == "squared") conjugate_ = Conjugate::squared;
    if (loss == "poisson") conjugate_ = Conjugate::rising_exponential;
    if (loss == "gamma") conjugate_ = Conjugate::falling_exponential;
    if (loss == "logistic") conjugate_ = Conjugate::logistic;
    if (loss == "huber") conjugate_ = Conjugate::huber;
    if (loss == "squared_hinge") conjugate_ = Conjugate::squared_hinge;
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
                           1);  // its address says that the column is sparse, also without entries
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
}

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
    HeadTail sum{0, 0};
    double value[BLOCK];
    for (std::int64_t begin = 0; begin < n_; begin += BLOCK) {
        const std::int64_t rows = std::min(BLOCK, n_ - begin);
        evaluate(begin, rows, margins + begin, value, nullptr, nullptr);
        for (std::int64_t i = 0; weight_ && i < rows; ++i)
            value[i] = weight_[begin + i] == 0 ? 0.0 : weight_[begin + i] * value[i];
        const HeadTail part = compensated_sum(rows, value);
        add_to(sum, part.head);
        add_to(sum, part.tail);
        poll.check();
    }
    return (sum.head + sum.tail) / total_;
}

std::vector<double> ColumnFits::origin() const {
    std::vector<double> margins(n_);
    if (offset_) std::copy_n(offset_, n_, margins.data());
    return margins;
}

std::vector<double> ColumnFits::combined(const Columns &columns, const std::vector<double> &x) const {
    std::vector<double> z(n_);
    for (std::size_t j = 0; j < x.size(); ++j) {
        const Column &column = columns[j];
        if (x[j] == 0) continue;
        if (!column.rows) simd().dense<double>().add(n_, x[j], column.values, z.data());
        else
            for (std::int64_t p = 0; p < column.count; ++p) z[column.rows[p]] += x[j] * column.values[p];
    }
    return z;
}

// psi, and what each sample adds to the gradient and to the Hessian of the margins.
double ColumnFits::derivatives(const double *margins, bool convex, double *slope, double *bend, double &size,
                               Poll &poll) const {
    HeadTail sum{0, 0};
    size = 0;
    double value[BLOCK];
    for (std::int64_t begin = 0; begin < n_; begin += BLOCK) {
        const std::int64_t rows = std::min(BLOCK, n_ - begin);
        evaluate(begin, rows, margins + begin, value, slope + begin, bend + begin);
        for (std::int64_t i = 0; i < rows; ++i) {
            const double weight = weight_ ? weight_[begin + i] : 1.0;
            // A sample without weight is not there, even where its loss is infinite.
            value[i] = weight == 0 ? 0.0 : weight * value[i];
            size += std::abs(value[i]) / total_;
            slope[begin + i] = weight == 0 ? 0.0 : slope[begin + i] * (weight / total_);
            bend[begin + i] =
                weight == 0 ? 0.0 : (convex ? std::abs(bend[begin + i]) : bend[begin + i]) * (weight / total_);
        }
        const HeadTail part = compensated_sum(rows, value);
        add_to(sum, part.head);
        add_to(sum, part.tail);
        poll.check();
    }
    return (sum.head + sum.tail) / total_;
}

// The dense columns among themselves.
void ColumnFits::add_dense(const Columns &columns, Look &seen, Poll &poll) const {
    const double *slope = seen.slope.data(), *bend = seen.bend.data();
    const std::size_t m = columns.size();
    std::vector<std::size_t> places;
    for (std::size_t j = 0; j < m; ++j)
        if (!columns[j].rows) places.push_back(j);
    const std::size_t dense = places.size();
    std::vector<double> gradient(dense), hessian(dense * dense);
    std::vector<const double *> here(dense);
    for (std::int64_t begin = 0; dense && begin < n_; begin += BLOCK) {
        for (std::size_t j = 0; j < dense; ++j) here[j] = columns[places[j]].values + begin;
        simd().normal(std::min(BLOCK, n_ - begin), std::int64_t(dense), here.data(), slope + begin, bend + begin,
                      gradient.data(), hessian.data());
        poll.check();
    }
    for (std::size_t j = 0; j < dense; ++j) {
        seen.gradient[places[j]] = gradient[j];
        for (std::size_t k = 0; k <= j; ++k) seen.hessian[places[j] * m + places[k]] = hessian[j * dense + k];
    }
}

// Each sparse column with all others: bent, and spread over all rows while the others look up theirs.
void ColumnFits::add_sparse(const Columns &columns, Look &seen, Poll &poll) const {
    const double *slope = seen.slope.data(), *bend = seen.bend.data();
    const std::size_t m = columns.size();
    std::vector<double> bent(n_);
    const auto dot = [](const Column &column, const double *other) {
        double sum[4] = {}, rest = 0;
        std::int64_t p = 0;
        for (; p + 4 <= column.count; p += 4)
            for (int k = 0; k < 4; ++k) sum[k] += column.values[p + k] * other[column.rows[p + k]];
        for (; p < column.count; ++p) rest += column.values[p] * other[column.rows[p]];
        return ((sum[0] + sum[2]) + (sum[1] + sum[3])) + rest;
    };
    for (std::size_t j = 0; j < m; ++j) {
        const Column &column = columns[j];
        if (!column.rows) continue;
        seen.gradient[j] = dot(column, slope);
        for (std::int64_t p = 0; p < column.count; ++p) bent[column.rows[p]] = bend[column.rows[p]] * column.values[p];
        for (std::size_t k = 0; k < m; ++k) {
            const bool both = columns[k].rows != nullptr;
            if (both && k > j) continue;
            double sum = 0;
            if (both) sum = dot(columns[k], bent.data());
            else
                for (std::int64_t p = 0; p < column.count; ++p)
                    sum += bent[column.rows[p]] * columns[k].values[column.rows[p]];
            seen.hessian[std::max(j, k) * m + std::min(j, k)] = sum;
        }
        for (std::int64_t p = 0; p < column.count; ++p) bent[column.rows[p]] = 0;
        poll.check();
    }
}

ColumnFits::Look ColumnFits::look(const Columns &columns, const double *margins, Poll &poll) const {
    if (bends_both_ways_) {
        Look seen = look(columns, margins, false, poll);
        const std::vector<double> no_ridge(columns.size());
        if (!newton_step(seen.hessian, 0.0, no_ridge, seen.gradient).empty()) return seen;
    }
    return look(columns, margins, true, poll);
}

ColumnFits::Look ColumnFits::look(const Columns &columns, const double *margins, bool convex, Poll &poll) const {
    const std::size_t m = columns.size();
    Look seen{
        0, 0, std::vector<double>(m), std::vector<double>(m * m), std::vector<double>(n_), std::vector<double>(n_)};
    seen.psi = derivatives(margins, convex, seen.slope.data(), seen.bend.data(), seen.size, poll);
    add_dense(columns, seen, poll);
    add_sparse(columns, seen, poll);
    return seen;
}

// By how much the log of the curvature of a sample may change along a step. Samples without weight may lie anywhere;
// the curvature of a ridge does not change.
double ColumnFits::change_along(const std::vector<double> &along) const {
    if (concordance_ == 0) return 0.0;
    double most = 0;
    for (std::int64_t i = 0; i < samples_; ++i)
        if (share(i) > 0) most = std::max(most, std::abs(along[i]));
    return concordance_ * most;
}

// l'(z) + l''(z) A step is orthogonal to all columns, hence feasible in the dual of this fit, and there the curvature
// 1/l'' of the conjugate has grown by at most 1/(1 - change). That is so for Newton's own step alone: with a ridge,
// columns that all but depend on each other are promised far less than they gain.
bool ColumnFits::stays_above(const Columns &columns, const Look &at, double below) const {
    const std::vector<double> step = newton_step(at.hessian, 0.0, std::vector<double>(at.gradient.size()), at.gradient);
    return !step.empty() &&
           lowest(at.psi, fall_along(step, at.gradient), change_along(combined(columns, step))) >= below;
}

// Newton's method for a loss that is not convex, from x or, where that is far from where it leads, from 0.
ColumnFit ColumnFits::descend(const Columns &columns, std::vector<double> x, double tolerance, double below,
                              Poll &poll) const {
    const std::size_t m = columns.size();
    const std::vector<double> origin = this->origin();
    std::vector<double> z = combined(columns, x), trial(n_);
    for (std::int64_t i = 0; i < n_; ++i) z[i] += origin[i];

    Look at;
    std::vector<double> ridge(m);
    double psi_of_start = 0;
    const double much = falls_ ? SHOWS : MUCH, shortest = falls_ ? SHORTEST_OF_FAR : SHORTEST;
    const auto set_ridge = [&] {
        for (std::size_t j = 0; j < m; ++j) ridge[j] = RIDGE * at.hessian[j * m + j];
    };
    const auto begin = [&] {
        at = look(columns, z.data(), poll);
        psi_of_start = at.psi;
        set_ridge();
    };
    begin();
    const double psi_of_origin = look({}, origin.data(), poll).psi;
    const auto ended = [&](FitEnd how) {
        mirror(m, at.hessian);
        const double rounding = resolution(at, z);
        return ColumnFit{how, std::move(x), std::move(z), std::move(at.hessian), at.psi, INFINITE, rounding};
    };

    for (int steps = 0; steps < MOST_STEPS; ++steps) {
        if (!std::isfinite(at.psi) || !std::isfinite(largest(at.gradient))) break;
        const bool flat = largest(at.gradient) <= tolerance;
        if (flat && (m == 0 || is_perfect(at.psi, psi_of_origin))) return ended(FitEnd::fitted);
        const std::vector<double> step = newton_step(at.hessian, share_left(at.psi, psi_of_start), ridge, at.gradient);
        if (step.empty()) return ended(flat ? FitEnd::fitted : FitEnd::failed);
        const double foretold = fall_along(step, at.gradient);
        if (flat && !(foretold > much * std::abs(at.psi))) return ended(FitEnd::fitted);
        if (!(foretold > 0)) break;
        const std::vector<double> along = combined(columns, step);
        const double change = change_along(along);
        if (lowest(at.psi, foretold, change) >= below && stays_above(columns, at, below))
            return ended(FitEnd::not_below);

        // No more to gain: a last step for the digits of x, unless coefficients grow for ever, as where classes are
        // separated.
        const bool last = foretold <= SHOWS * std::abs(at.psi);
        if (last && change >= 1 && !bends_both_ways_) return ended(FitEnd::fitted);

        const bool far = change > FAR && std::isfinite(change);
        if (steps == 0 && far && largest(x) > 0) {
            // Large coefficients held each other; without one of them, samples lie far out where psi hardly bends.
            std::fill(x.begin(), x.end(), 0.0);
            z = origin;
            begin();
            continue;
        }
        double t = far ? FAR / change : 1.0;
        for (Look next;; t /= 2) {
            if (t < shortest) return ended(FitEnd::failed);
            for (std::int64_t i = 0; i < n_; ++i) trial[i] = z[i] + t * along[i];
            next = look(columns, trial.data(), poll);
            if (last && !(largest(next.gradient) < 0.5 * largest(at.gradient))) return ended(FitEnd::fitted);
            if (next.psi <= at.psi - ARMIJO * t * foretold + LAST_DIGITS * std::abs(at.psi)) {
                at = std::move(next);
                break;
            }
        }
        z.swap(trial);
        for (std::size_t j = 0; j < m; ++j) x[j] += t * step[j];
        if (falls_) set_ridge();  // the curvature is going to 0, and psi is not
    }
    return ended(falls_ && largest(at.gradient) <= tolerance ? FitEnd::fitted : FitEnd::failed);
}

// How far a sample's loss is above what the dual value at v = l'(z) + l''(z) move has of it, and whether v is in the
// domain of the conjugate. If it is not, v is put at the end of the domain that is next to it.
ColumnFits::SampleGap ColumnFits::sample_gap(std::int64_t i, double slope, double bend, double margin,
                                             double move) const {
    if (i >= samples_ && conjugate_ != Conjugate::none) return {move * move, true, 0.0};
    switch (conjugate_) {
        case Conjugate::none: return {INFINITE, true, 0.0};
        case Conjugate::squared: return {move * move, true, 0.0};
        case Conjugate::rising_exponential:
        case Conjugate::falling_exponential: {
            const double t = conjugate_ == Conjugate::rising_exponential ? move : -move;
            return {bend * relative_entropy(t), t >= -1,
                    conjugate_ == Conjugate::rising_exponential ? -target_[i] : 1.0};
        }
        case Conjugate::logistic: {
            const double u = std::min(1.0, std::abs(slope)), rest = u > 0.5 ? bend / u : 1 - u;
            const double first = -rest * target_[i] * move, second = u * target_[i] * move;
            if (first < -1) return {u < 0.5 ? -std::log1p(-u) : -std::log(rest), false, 0.0};
            if (second < -1) return {rest < 0.5 ? -std::log1p(-rest) : -std::log(u), false, -target_[i]};
            return {u * relative_entropy(first) + rest * relative_entropy(second), true, 0.0};
        }
        case Conjugate::huber: {
            const double residual = target_[i] - margin, to = residual - move,
                         short_of = parameter_ - std::abs(residual);
            if (std::abs(to) <= parameter_) return {0.5 * move * move, true, 0.0};
            const double end = std::copysign(parameter_, to),
                         by = to * residual < 0 ? parameter_ + std::abs(residual) : short_of;
            return {0.5 * by * by, false, -end};
        }
        case Conjugate::squared_hinge: {
            const double short_of = 1 - target_[i] * margin;
            return target_[i] * (margin + move) <= 1 ? SampleGap{move * move, true, 0.0}
                                                     : SampleGap{short_of * short_of, false, 0.0};
        }
    }
    return {INFINITE, true, 0.0};
}

// How far psi is above the dual value at v, if v is orthogonal to the columns; infinite where it is not in the domain.
double ColumnFits::gap(const Look &at, const std::vector<double> &margins, const std::vector<double> &along) const {
    double sum = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
        const double weight = share(i);
        if (!(weight > 0) || !(at.bend[i] > 0)) continue;
        const SampleGap own = sample_gap(i, at.slope[i] / weight, at.bend[i] / weight, margins[i], along[i]);
        if (!own.inside) return INFINITE;
        sum += weight * own.gap;
    }
    return sum * (1 + 1e-12);
}

// An estimate of the error of a gap: Newton's equations are solved up to rounding, so v is orthogonal to the columns
// only up to rounding. The estimate is a multiple of |<column_j, v> step_j|, summed over the columns.
double ColumnFits::orthogonality_error(const Columns &columns, const Look &at, const std::vector<double> &along,
                                       const std::vector<double> &step) const {
    constexpr double MULTIPLE = 16;
    std::vector<double> v(n_);
    for (std::int64_t i = 0; i < n_; ++i) v[i] = at.slope[i] + at.bend[i] * along[i];
    double sum = 0;
    for (std::size_t j = 0; j < columns.size(); ++j) {
        const Column &column = columns[j];
        double product = 0;
        for (std::int64_t p = 0; p < column.count; ++p)
            product += v[column.rows ? column.rows[p] : p] * column.values[p];
        sum += std::abs(product * step[j]);
    }
    return std::isfinite(sum) ? MULTIPLE * sum : INFINITE;
}

// The gap where some samples leave the domain. They are put at its end, and the others take the step that is orthogonal
// to the columns with them there. Samples with next to no loss, far out in an exponential tail, are put there at once:
// none of them can gain more than its loss, which is at most `spare` together.
double ColumnFits::gap_at_ends(const Columns &columns, const Look &at, const std::vector<double> &margins,
                               std::vector<double> along, double least, double spare, Poll &poll) const {
    constexpr int ROUNDS = 4;
    constexpr double TAIL = 1e-2;  // of a slope of 1
    std::vector<double> step;
    Look rest{at.psi,   at.size, std::vector<double>(columns.size()), std::vector<double>(at.hessian.size()),
              at.slope, at.bend};
    double fixed = 0;
    const auto fix = [&](std::int64_t i, double gap, double end) {
        fixed += share(i) * gap;
        rest.slope[i] = share(i) * end;
        rest.bend[i] = 0;
    };
    if (conjugate_ == Conjugate::logistic) {
        double bound = 0;
        for (double next = std::min(spare, TAIL); next > 0 && next <= TAIL; next *= 8) {
            double sum = 0;
            for (std::int64_t i = 0; i < samples_; ++i)
                if (std::abs(at.slope[i]) <= next * share(i)) sum += std::abs(at.slope[i]);
            if (!(sum <= 0.9 * spare)) break;
            bound = next;
        }
        for (std::int64_t i = 0; i < samples_; ++i)
            if (at.bend[i] > 0 && std::abs(at.slope[i]) <= bound * share(i))
                fix(i, -std::log1p(-std::abs(at.slope[i]) / share(i)), 0.0);
    }
    if (conjugate_ == Conjugate::rising_exponential)
        for (std::int64_t i = 0; i < samples_; ++i)
            if (target_[i] == 0 && at.bend[i] > 0 && at.bend[i] <= std::min(spare, TAIL) * share(i))
                fix(i, at.bend[i] / share(i), 0.0);
    for (int round = 0; round < ROUNDS; ++round) {
        bool inside = true;
        for (std::int64_t i = 0; i < n_; ++i) {
            if (!(rest.bend[i] > 0)) continue;
            const double weight = share(i);
            const SampleGap own = sample_gap(i, at.slope[i] / weight, at.bend[i] / weight, margins[i], along[i]);
            if (own.inside) continue;
            inside = false;
            fix(i, own.gap, own.end);
        }
        if (inside && round > 0)
            return (fixed + gap(rest, margins, along)) * (1 + 1e-12) + orthogonality_error(columns, rest, along, step);
        add_dense(columns, rest, poll);
        add_sparse(columns, rest, poll);
        const NewtonStep newton = newton_step_of(rest.hessian, 0.0, {}, rest.gradient, least);
        if (newton.step.empty()) return INFINITE;
        for (std::size_t p = 0; p < newton.flat.size(); ++p)
            if (!is_noise(rest, columns[newton.flat[p]], newton.slope[p], 0.0)) return INFINITE;
        step = newton.step;
        along = combined(columns, step);
    }
    return INFINITE;
}

// By how much psi may change where each margin is rounded.
double ColumnFits::resolution(const Look &at, const std::vector<double> &margins) const {
    double sum = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
        const double offset = offset_ ? std::abs(offset_[i]) : 0.0;
        const double target = concordance_ == 1 ? 0.0 : std::abs(target_[i]);  // subtracted from the margin, or not
        const double rounding = LAST_DIGITS * (std::abs(margins[i]) + offset + target);
        sum += std::abs(at.slope[i]) * rounding + 0.5 * std::abs(at.bend[i]) * rounding * rounding;
    }
    return std::isfinite(sum) ? sum + EPSILON * std::max(std::abs(at.psi), at.size) : INFINITE;
}

// What takes the place of curvature that is gone: a typical one of the loss, in the units of each column.
std::vector<double> ColumnFits::reference_curvature(const Columns &columns, const Look &at) const {
    double typical = curvature_bound_;
    if (!std::isfinite(typical)) {
        typical = 0;
        for (std::int64_t i = 0; i < n_; ++i) typical += std::abs(at.bend[i]) + std::abs(at.slope[i]);
    }
    std::vector<double> reference(columns.size());
    for (std::size_t j = 0; j < columns.size(); ++j) {
        const Column &column = columns[j];
        double square = 0;
        for (std::int64_t p = 0; p < column.count; ++p)
            square += share(column.rows ? column.rows[p] : p) * column.values[p] * column.values[p];
        reference[j] = typical * square;
    }
    return reference;
}

// Whether a component of the gradient is within the rounding of its sum, or of a column whose entries have errors
// relative to its largest.
bool ColumnFits::is_noise(const Look &at, const Column &column, double gradient, double error) const {
    double size = 0, most = 0, slopes = 0;
    for (std::int64_t p = 0; p < column.count; ++p) {
        const std::int64_t i = column.rows ? column.rows[p] : p;
        if (!(share(i) > 0)) continue;
        const double slope = std::abs(at.slope[i]), entry = std::abs(column.values[p]);
        size += slope * entry;
        slopes += slope;
        most = std::max(most, entry);
    }
    return std::abs(gradient) <= 64 * EPSILON * size + 4 * error * slopes * most;
}

// A curvature that is not gone where the loss is straight: the slope over the distance from where the loss bends.
std::vector<double> ColumnFits::secant_curvature(const Look &at, const std::vector<double> &margins) const {
    std::vector<double> bend(n_);
    for (std::int64_t i = 0; i < n_; ++i) {
        const double from = conjugate_ == Conjugate::huber ? margins[i] - target_[i] : margins[i];
        bend[i] = std::max(at.bend[i], std::abs(at.slope[i]) / std::max(1.0, std::abs(from)));
    }
    return bend;
}

// Of several directions and lengths the step with the least psi: where curvature differs by many orders of magnitude
// between samples, steps with a ridge hardly lower psi. Directions are the given ones, one with another curvature, and
// the ways from the origin and to it: where x separates the samples, psi falls along it for ever.
ColumnFits::Move ColumnFits::best_move(const Columns &columns, const Look &at, const std::vector<double> &margins,
                                       const std::vector<double> &x, std::vector<std::vector<double>> directions,
                                       double least, Poll &poll) const {
    Look other{at.psi,
               at.size,
               std::vector<double>(columns.size()),
               std::vector<double>(at.hessian.size()),
               at.slope,
               secant_curvature(at, margins)};
    add_dense(columns, other, poll);
    add_sparse(columns, other, poll);
    directions.push_back(newton_step_of(other.hessian, 0.0, {}, at.gradient, least).step);
    directions.emplace_back(x);
    directions.emplace_back(x);
    for (double &entry : directions.back()) entry = -entry;
    Move best{{}, {}, at.psi};
    std::vector<double> trial(n_);
    for (const std::vector<double> &direction : directions) {
        if (direction.empty()) continue;
        const std::vector<double> along = combined(columns, direction);
        for (int power = -12; power <= 12; ++power) {
            const double t = std::ldexp(1.0, 2 * power);
            for (std::int64_t i = 0; i < n_; ++i) trial[i] = margins[i] + t * along[i];
            const double psi = value(trial.data(), poll);
            if (!(psi < best.psi)) continue;
            best = {direction, along, psi};
            for (double &entry : best.step) entry *= t;
            for (double &entry : best.along) entry *= t;
        }
    }
    return best;
}

// By how much psi may seem to fall along a step of basis vectors, because of the rounding errors of their entries.
double ColumnFits::feigned_fall(const Look &at, const std::vector<double> &step,
                                const std::vector<double> &errors) const {
    double slopes = 0, moved = 0;
    for (std::int64_t i = 0; i < n_; ++i) slopes += std::abs(at.slope[i]);
    for (std::size_t j = 0; j < step.size(); ++j) moved += errors[j] * std::abs(step[j]);
    return slopes * moved;
}

// Newton's method for a convex loss. Where the curvature in some direction is gone (margins so far out that it
// underflows, or beyond the parabola of Huber's loss), or a step would change margins by too much, a multiple of a
// typical curvature is added, and the step is doubled as long as psi falls; after many such steps other directions are
// tried, too. Of orthonormal columns, whose errors are given, a small pivot is a property of the curvature and not of
// rounding.
ColumnFit ColumnFits::minimise(const Columns &columns, std::vector<double> x, const std::vector<double> *errors,
                               double tolerance, double accuracy, double below, Poll &poll) const {
    constexpr int MOST = 250, MOST_IN_VAIN = 8, PATIENCE = 20;
    const bool orthonormal = errors != nullptr;
    const double least = orthonormal ? 1e-13 : 1e-7;
    const bool exponential = std::isfinite(concordance_) && concordance_ > 0;
    const bool nonnegative =
        conjugate_ == Conjugate::logistic || conjugate_ == Conjugate::squared_hinge || conjugate_ == Conjugate::huber;
    const std::size_t m = columns.size();
    const std::vector<double> origin = this->origin();
    std::vector<double> z = combined(columns, x), trial(n_);
    for (std::int64_t i = 0; i < n_; ++i) z[i] += origin[i];
    Look at = look(columns, z.data(), true, poll);
    const double psi_of_origin = value(origin.data(), poll);
    if (!(at.psi <= psi_of_origin) &&
        largest(x) > 0) {  // large coefficients held each other; without one of them, margins are far out
        std::fill(x.begin(), x.end(), 0.0);
        z = origin;
        at = look(columns, z.data(), true, poll);
    }
    std::vector<double> reference;
    double rounding = resolution(at, z), left = INFINITE, before = INFINITE, mu = 0;
    int n_restricted = 0;
    int in_vain = 0;  // restricted steps, one after another, that lowered psi by no more than rounding
    std::vector<double> along, bound_step;  // of the bound `left`, if that is Newton's step
    const auto ended = [&](FitEnd how) {
        if (!bound_step.empty()) left += orthogonality_error(columns, at, along, bound_step);
        if (nonnegative) left = std::min(left, at.psi);
        mirror(m, at.hessian);
        return ColumnFit{how, std::move(x), std::move(z), std::move(at.hessian), at.psi, left, rounding};
    };
    const auto settled = [&] { return left <= std::max(SHOWS * std::abs(at.psi), rounding); };
    if (m == 0) {
        left = 0;
        return ended(std::isfinite(at.psi) ? FitEnd::fitted : FitEnd::failed);
    }
    for (int steps = 0; steps < MOST; ++steps) {
        if (!std::isfinite(at.psi) || !std::isfinite(largest(at.gradient)) || !std::isfinite(largest(at.hessian)))
            break;
        rounding = resolution(at, z);
        NewtonStep newton = newton_step_of(at.hessian, 0.0, reference, at.gradient, least);
        if (!orthonormal && (newton.step.empty() || !newton.flat.empty())) return ended(FitEnd::failed);
        bool known = true;  // whether psi is constant in all directions without curvature
        for (std::size_t p = 0; p < newton.flat.size() && !newton.step.empty(); ++p) {
            const std::size_t j = newton.flat[p];
            if (is_noise(at, columns[j], newton.slope[p], 0.0)) continue;
            known = false;  // no step is made along a slope within the rounding errors of the basis, and no bound is
                            // claimed
            if (!is_noise(at, columns[j], newton.slope[p], (*errors)[j])) newton.step.clear();
        }
        double change = 0;
        left = INFINITE;
        bound_step.clear();
        if (!newton.step.empty()) {
            along = combined(columns, newton.step);
            change = change_along(along);
            left = known ? gap(at, z, along) : INFINITE;
            if (left < INFINITE) bound_step = newton.step;
            // Where margins of some samples grow for ever, Newton's step alone shows no bound.
            if (known && !(left < INFINITE) && conjugate_ != Conjugate::none &&
                newton.decrement <= MUCH * std::abs(at.psi)) {
                const double wanted = std::max({0.5 * accuracy * std::abs(at.psi), rounding, 0.5 * (at.psi - below)});
                if (newton.decrement <= 4 * wanted) left = gap_at_ends(columns, at, z, along, least, wanted, poll);
            }
        }
        if (nonnegative && left > at.psi) {
            left = at.psi;
            bound_step.clear();
        }
        if (at.psi - left - rounding >= below) {
            if (!bound_step.empty()) left += orthogonality_error(columns, at, along, bound_step);
            bound_step.clear();
            if (at.psi - left - rounding >= below) return ended(FitEnd::not_below);
        }
        const double measure = conjugate_ == Conjugate::none && !newton.step.empty() ? 0.5 * newton.decrement : left;
        const bool enough = measure <= std::max(accuracy * std::abs(at.psi), rounding);
        // Where only the last digits are left to gain, go on for as long as steps shorten: what they gain shows in x,
        // if not in psi.
        const bool flat = measure <= EPSILON * std::abs(at.psi) && largest(at.gradient) <= tolerance;
        if (enough && (accuracy > SHOWS || flat || !(measure < 0.25 * before))) return ended(FitEnd::fitted);
        if (conjugate_ == Conjugate::logistic && at.psi <= SEPARATED * psi_of_origin) return ended(FitEnd::fitted);
        before = measure;

        const bool restricted = newton.step.empty() || (exponential && change > FAR);
        const std::vector<double> unrestricted = restricted ? newton.step : std::vector<double>();
        if (restricted) {
            if (!bound_step.empty()) left += orthogonality_error(columns, at, along, bound_step);
            bound_step.clear();
            if (reference.empty()) reference = reference_curvature(columns, at);
            mu = std::max(mu / 16, 1e-10);
            for (int tries = 0;; ++tries, mu *= 8) {
                if (tries > 80) return ended(FitEnd::failed);
                newton = newton_step_of(at.hessian, mu, reference, at.gradient, least);
                if (newton.step.empty() || !newton.flat.empty()) continue;
                along = combined(columns, newton.step);
                if (!exponential || change_along(along) <= FAR) break;
            }
        }
        if (!(newton.decrement > 0)) return ended(settled() ? FitEnd::fitted : FitEnd::failed);
        const auto psi_at = [&](double t) {
            for (std::int64_t i = 0; i < n_; ++i) trial[i] = z[i] + t * along[i];
            return value(trial.data(), poll);
        };
        Move bold;
        if (restricted && ++n_restricted > PATIENCE)
            bold = best_move(columns, at, z, x, {newton.step, unrestricted}, least, poll);
        double t = 1, psi = psi_at(t);
        if (!bold.step.empty() && bold.psi < psi) {
            newton.step = std::move(bold.step);
            along = std::move(bold.along);
            psi = bold.psi;
        } else {
            while (!(psi <= at.psi - ARMIJO * t * newton.decrement + LAST_DIGITS * std::abs(at.psi))) {
                t /= 2;
                if (t < 0x1p-40) return ended(settled() ? FitEnd::fitted : FitEnd::failed);
                psi = psi_at(t);
            }
        }
        // What rounding errors of the basis may feign for a step of length 1.
        const double feigned = restricted && orthonormal ? feigned_fall(at, newton.step, *errors) : 0.0;
        if (restricted && t == 1)
            for (double next = psi_at(2 * t); next < psi - t * feigned && t < 0x1p60; next = psi_at(2 * t)) {
                t *= 2;
                psi = next;
            }
        const double previous = at.psi;
        std::vector<double> moved(z);
        for (std::int64_t i = 0; i < n_; ++i) moved[i] += t * along[i];
        Look next = look(columns, moved.data(), true, poll);
        if (!(next.psi < previous) && settled()) return ended(FitEnd::fitted);  // no step lowers psi any more
        if (feigned > 0 && !(next.psi < previous - t * feigned))
            return ended(settled() ? FitEnd::fitted : FitEnd::failed);
        in_vain = restricted && !(next.psi < previous - rounding) ? in_vain + 1 : 0;
        if (in_vain > MOST_IN_VAIN) return ended(settled() ? FitEnd::fitted : FitEnd::failed);
        z.swap(moved);
        for (std::size_t j = 0; j < m; ++j) x[j] += t * newton.step[j];
        at = std::move(next);
        left = INFINITE;
        bound_step.clear();
    }
    return ended(FitEnd::failed);
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
    constexpr double DEPENDENT = 64 * EPSILON;  // but for rounding
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
        in_units_of(basis, found);
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

ColumnFit ColumnFits::fit_without_ridge(const Columns &columns, std::vector<double> x, double tolerance,
                                        double accuracy, double below, const std::vector<double> &noise,
                                        Poll &poll) const {
    if (falls_ || bends_both_ways_) return descend(columns, std::move(x), tolerance, below, poll);
    ColumnFit found = minimise(columns, x, nullptr, tolerance, accuracy, below, poll);
    return found.end == FitEnd::failed || !is_reached(columns, found, poll)
               ? minimise_in_basis(columns, x, accuracy, below, noise, poll)
               : found;
}

ColumnFit ColumnFits::fit(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                          double below, const std::vector<double> &noise, const std::vector<double> &ridge,
                          Poll &poll) const {
    if (ridge.empty()) return fit_without_ridge(columns, std::move(x), tolerance, accuracy, below, noise, poll);
    const Extended extended(*this, columns, ridge, offset_);
    return ColumnFits(*this, extended)
        .fit_without_ridge(extended.columns, std::move(x), tolerance, accuracy, below, noise, poll);
}

std::vector<double> ColumnFits::least_along(const Columns &columns, const double *margins,
                                            const std::vector<double> &ridge, Poll &poll) const {
    const bool convex = !falls_ && !bends_both_ways_;
    std::vector<double> least;
    const auto add = [&](const ColumnFits &here, const Columns &one) {
        const ColumnFit found = convex ? here.minimise_in_basis(one, {0.0}, 1e-6, INFINITE, {}, poll)
                                       : here.descend(one, {0.0}, 0.0, INFINITE, poll);
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
