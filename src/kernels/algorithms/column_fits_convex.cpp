#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algorithms/column_fits.hpp"
#include "algorithms/newton_step.hpp"

namespace levelprox {
namespace {

constexpr double SHOWS = 1e-12;        // relative to psi: a smaller change does not count
constexpr double SEPARATED = 1e-20;    // relative to psi at 0: classes are separated by the logistic loss
constexpr double MUCH = 1e-3;          // relative to psi: beyond this, the second-order model is far from psi
constexpr double MUCH_TO_GAIN = 1e-8;  // relative to psi
constexpr double LEAST_GAP = 0.125;    // of what Newton's step predicts: a gap is seldom less
constexpr double FAR = 20.0;           // largest change of the log of the curvature in a step
constexpr double ARMIJO = 1e-4;
constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double LAST_DIGITS = 4 * EPSILON;
constexpr int MOST_STEPS = 250;
constexpr int MOST_RESTRICTIONS = 80;     // of one step
constexpr int MOST_WITHOUT_DECREASE = 8;  // restricted steps, one after another
constexpr int PATIENCE = 20;              // restricted steps before other directions are tried
constexpr double LEAST_PIVOT = 1e-7, LEAST_PIVOT_OF_BASIS = 1e-13;
constexpr double SHORTEST = 0x1p-40, LONGEST = 0x1p60;  // relative to Newton's step

}  // namespace

// Newton's method for a convex loss (`minimise`), with a bound on what is left to gain at every step.
class ColumnFits::ConvexMinimiser {
public:
    ConvexMinimiser(const ColumnFits &fits, const Columns &columns, std::vector<double> x,
                    const std::vector<double> *errors, double tolerance, double accuracy, double below, Poll &poll)
        : fits_(fits), columns_(columns), errors_(errors), tolerance_(tolerance), accuracy_(accuracy), below_(below),
          poll_(poll), least_pivot_(errors ? LEAST_PIVOT_OF_BASIS : LEAST_PIVOT),
          exponential_(std::isfinite(fits.concordance_) && fits.concordance_ > 0),
          nonnegative_(fits.conjugate_ == Conjugate::logistic || fits.conjugate_ == Conjugate::squared_hinge ||
                       fits.conjugate_ == Conjugate::huber),
          x_(std::move(x)), z_(fits.combined(columns, x_)), trial_(fits.n_) {}

    ColumnFit run();

private:
    void begin();
    bool is_finite() const;
    bool find_newton_step();
    bool is_hopeless() const {
        const double largest = 0.5 * fits_.largest_fall * newton_.decrement;
        return !newton_.step.empty() && std::isfinite(largest) && at_.psi - largest >= below_;
    }
    bool gap_may_matter() const;
    void bound_gap();
    bool stays_above();
    bool is_accurate();
    bool restrict_step();
    bool search_line(const std::vector<double> &unrestricted);
    bool move();

    // The bound `gap` is of exact arithmetic: adds its error, once.
    void add_error_of_gap() {
        if (!gap_step_.empty()) gap_ += fits_.orthogonality_error(columns_, at_, along_, gap_step_);
        gap_step_.clear();
    }
    bool is_gap_rounding() const { return gap_ <= std::max(SHOWS * std::abs(at_.psi), rounding_); }
    double psi_at(double t) {
        for (std::int64_t i = 0; i < fits_.n_; ++i) trial_[i] = z_[i] + t * along_[i];
        return fits_.value(trial_.data(), poll_);
    }
    ColumnFit ended(FitEnd how);
    ColumnFit ended_by_rounding() { return ended(is_gap_rounding() ? FitEnd::fitted : FitEnd::failed); }

    const ColumnFits &fits_;
    const Columns &columns_;
    const std::vector<double> *errors_;  // of the entries of orthonormal columns, relative to the largest; or null
    const double tolerance_, accuracy_, below_;
    Poll &poll_;
    const double least_pivot_;
    const bool exponential_, nonnegative_;  // tails of the loss; the loss is nowhere negative

    std::vector<double> x_, z_, trial_;  // coefficients, margins, margins of a trial
    Derivatives at_;
    double psi_of_origin_ = 0, rounding_ = 0;
    double last_measure_ = INFINITE;  // of what is left to gain, at the step before

    NewtonStep newton_;
    std::vector<double> along_;          // the step in margins
    double change_ = 0;                  // of the log of the curvature along Newton's step
    bool flat_directions_known_ = true;  // psi is constant in all directions without curvature
    double gap_ = INFINITE;              // psi is at most so much above the minimum
    std::vector<double> gap_step_;       // Newton's step, if it proved the gap and the error is not yet added

    bool restricted_ = false;        // the step is shorter than Newton's
    double mu_ = 0;                  // multiple of the reference curvature that is added
    std::vector<double> reference_;  // a typical curvature
    double t_ = 1;                   // of the step
    int n_restricted_ = 0;           // steps so far
    int n_without_decrease_ = 0;     // consecutive restricted steps that lowered psi by no more than rounding
};

ColumnFit ColumnFits::ConvexMinimiser::run() {
    begin();
    if (columns_.empty()) {
        gap_ = 0;
        return ended(std::isfinite(at_.psi) ? FitEnd::fitted : FitEnd::failed);
    }
    for (int steps = 0; steps < MOST_STEPS && is_finite(); ++steps) {
        // Newton's step, and the bound it proves.
        rounding_ = fits_.resolution(at_, z_);
        if (!find_newton_step()) return ended(FitEnd::failed);
        if (is_hopeless()) return ended(FitEnd::not_below);
        bound_gap();
        if (stays_above()) return ended(FitEnd::not_below);
        if (is_accurate()) return ended(FitEnd::fitted);

        // A shorter step, where Newton's does not exist or is too long.
        restricted_ = newton_.step.empty() || (exponential_ && change_ > FAR);
        const std::vector<double> unrestricted = restricted_ ? newton_.step : std::vector<double>();
        if (restricted_ && !restrict_step()) return ended(FitEnd::failed);

        // The move.
        if (!(newton_.decrement > 0)) return ended_by_rounding();
        if (!search_line(unrestricted)) return ended_by_rounding();
        if (!move()) return ended_by_rounding();
    }
    return ended(FitEnd::failed);
}

// Starts at x, or at 0 where that is better: large coefficients that cancel each other may have lost one of them.
void ColumnFits::ConvexMinimiser::begin() {
    const std::vector<double> origin = fits_.origin();
    for (std::int64_t i = 0; i < fits_.n_; ++i) z_[i] += origin[i];
    at_ = fits_.differentiate(columns_, z_.data(), true, poll_);
    psi_of_origin_ = fits_.value(origin.data(), poll_);
    if (!(at_.psi <= psi_of_origin_) && largest_magnitude(x_) > 0) {
        std::fill(x_.begin(), x_.end(), 0.0);
        z_ = origin;
        at_ = fits_.differentiate(columns_, z_.data(), true, poll_);
    }
    rounding_ = fits_.resolution(at_, z_);
}

bool ColumnFits::ConvexMinimiser::is_finite() const {
    return std::isfinite(at_.psi) && std::isfinite(largest_magnitude(at_.gradient)) &&
           std::isfinite(largest_magnitude(at_.hessian));
}

// Returns false where columns depend on each other. Of orthonormal columns, a small pivot is a property of the
// curvature and not of rounding: there the step is empty if psi has a slope in a direction without curvature.
bool ColumnFits::ConvexMinimiser::find_newton_step() {
    newton_ = pivoted_newton_step(at_.hessian, 0.0, reference_, at_.gradient, least_pivot_);
    if (!errors_ && (newton_.step.empty() || !newton_.flat.empty())) return false;
    flat_directions_known_ = true;
    for (std::size_t p = 0; p < newton_.flat.size() && !newton_.step.empty(); ++p) {
        const std::size_t j = newton_.flat[p];
        if (fits_.is_noise(at_, columns_[j], newton_.slope[p], 0.0)) continue;
        // A slope within the rounding errors of the basis: no step along it, and no bound.
        flat_directions_known_ = false;
        if (!fits_.is_noise(at_, columns_[j], newton_.slope[p], (*errors_)[j])) newton_.step.clear();
    }
    return true;
}

// Whether the bound may end the fit: not where Newton's step predicts that psi falls by far more than the accuracy and
// than what is above `below`. The bound takes as long as the step itself.
bool ColumnFits::ConvexMinimiser::gap_may_matter() const {
    const double predicted = LEAST_GAP * newton_.decrement;
    const double enough = std::max(accuracy_, MUCH_TO_GAIN) * std::abs(at_.psi);
    return !(predicted > std::max(enough, 16 * rounding_)) || at_.psi - predicted - rounding_ >= below_;
}

void ColumnFits::ConvexMinimiser::bound_gap() {
    change_ = 0;
    gap_ = INFINITE;
    gap_step_.clear();
    if (!newton_.step.empty()) {
        along_ = fits_.combined(columns_, newton_.step);
        change_ = fits_.change_along(along_);
        const bool wanted = flat_directions_known_ && gap_may_matter();
        gap_ = wanted ? fits_.gap(at_, z_, along_) : INFINITE;
        if (gap_ < INFINITE) gap_step_ = newton_.step;

        // Where margins of some samples grow without limit, Newton's step alone proves no bound.
        const double predicted = newton_.decrement;
        if (wanted && !(gap_ < INFINITE) && fits_.conjugate_ != Conjugate::none &&
            predicted <= MUCH * std::abs(at_.psi)) {
            const double spare = std::max({0.5 * accuracy_ * std::abs(at_.psi), rounding_, 0.5 * (at_.psi - below_)});
            if (predicted <= 4 * spare) gap_ = fits_.gap_at_ends(columns_, at_, z_, along_, least_pivot_, spare, poll_);
        }
    }
    if (nonnegative_ && gap_ > at_.psi) {
        gap_ = at_.psi;
        gap_step_.clear();
    }
}

bool ColumnFits::ConvexMinimiser::stays_above() {
    if (!(at_.psi - gap_ - rounding_ >= below_)) return false;
    add_error_of_gap();
    return at_.psi - gap_ - rounding_ >= below_;
}

bool ColumnFits::ConvexMinimiser::is_accurate() {
    const bool proves_nothing = fits_.conjugate_ == Conjugate::none && !newton_.step.empty();
    const double measure = proves_nothing ? 0.5 * newton_.decrement : gap_;
    const bool enough = measure <= std::max(accuracy_ * std::abs(at_.psi), rounding_);
    // Where only the last digits are left to gain, continue as long as steps shorten: that improves x, if not psi.
    const bool flat = measure <= EPSILON * std::abs(at_.psi) && largest_magnitude(at_.gradient) <= tolerance_;
    if (enough && (accuracy_ > SHOWS || flat || !(measure < 0.25 * last_measure_))) return true;
    if (fits_.conjugate_ == Conjugate::logistic && at_.psi <= SEPARATED * psi_of_origin_) return true;
    last_measure_ = measure;
    return false;
}

// Adds a multiple of a typical curvature, large enough for a step that is not too long.
bool ColumnFits::ConvexMinimiser::restrict_step() {
    add_error_of_gap();
    if (reference_.empty()) reference_ = fits_.reference_curvature(columns_, at_);
    mu_ = std::max(mu_ / 16, 1e-10);
    for (int tries = 0; tries <= MOST_RESTRICTIONS; ++tries, mu_ *= 8) {
        newton_ = pivoted_newton_step(at_.hessian, mu_, reference_, at_.gradient, least_pivot_);
        if (newton_.step.empty() || !newton_.flat.empty()) continue;
        along_ = fits_.combined(columns_, newton_.step);
        if (!exponential_ || fits_.change_along(along_) <= FAR) return true;
    }
    return false;
}

// Halves the step until psi falls enough. After many restricted steps, takes the best of other directions instead,
// if that is better.
bool ColumnFits::ConvexMinimiser::search_line(const std::vector<double> &unrestricted) {
    Move other;
    if (restricted_ && ++n_restricted_ > PATIENCE)
        other = fits_.best_move(columns_, at_, z_, x_, {newton_.step, unrestricted}, least_pivot_, poll_);
    t_ = 1;
    double psi = psi_at(t_);
    if (!other.step.empty() && other.psi < psi) {
        newton_.step = std::move(other.step);
        along_ = std::move(other.along);
        psi = other.psi;
    } else {
        while (!(psi <= at_.psi - ARMIJO * t_ * newton_.decrement + LAST_DIGITS * std::abs(at_.psi))) {
            t_ /= 2;
            if (t_ < SHORTEST) return false;
            psi = psi_at(t_);
        }
    }

    // A restricted step is doubled as long as psi falls by more than the rounding errors of the basis can pretend.
    if (restricted_ && t_ == 1) {
        const double spurious = errors_ ? fits_.spurious_decrease(at_, newton_.step, *errors_) : 0.0;
        for (double next = psi_at(2 * t_); next < psi - t_ * spurious && t_ < LONGEST; next = psi_at(2 * t_)) {
            t_ *= 2;
            psi = next;
        }
    }
    return true;
}

// Moves x by t times the step. Returns false, and leaves x, where psi does not fall any more.
bool ColumnFits::ConvexMinimiser::move() {
    std::vector<double> moved(z_);
    for (std::int64_t i = 0; i < fits_.n_; ++i) moved[i] += t_ * along_[i];
    Derivatives next = fits_.differentiate(columns_, moved.data(), true, poll_);
    if (!(next.psi < at_.psi) && is_gap_rounding()) return false;
    n_without_decrease_ = restricted_ && !(next.psi < at_.psi - rounding_) ? n_without_decrease_ + 1 : 0;
    if (n_without_decrease_ > MOST_WITHOUT_DECREASE) return false;
    z_.swap(moved);
    for (std::size_t j = 0; j < x_.size(); ++j) x_[j] += t_ * newton_.step[j];
    at_ = std::move(next);
    gap_ = INFINITE;
    gap_step_.clear();
    return true;
}

ColumnFit ColumnFits::ConvexMinimiser::ended(FitEnd how) {
    add_error_of_gap();
    if (nonnegative_) gap_ = std::min(gap_, at_.psi);
    mirror(columns_.size(), at_.hessian);
    return {how, std::move(x_), std::move(z_), std::move(at_.hessian), at_.psi, gap_, rounding_};
}

// Where the curvature in some direction vanishes (margins so far out that it underflows, or beyond the parabola of
// Huber's loss), or a step would change margins by too much, a multiple of a typical curvature is added, and the step
// is doubled as long as psi falls; after many such steps other directions are tried, too.
ColumnFit ColumnFits::minimise(const Columns &columns, std::vector<double> x, const std::vector<double> *errors,
                               double tolerance, double accuracy, double below, Poll &poll) const {
    return ConvexMinimiser(*this, columns, std::move(x), errors, tolerance, accuracy, below, poll).run();
}

// What takes the place of curvature that is gone: a typical one of the loss, in the units of each column.
std::vector<double> ColumnFits::reference_curvature(const Columns &columns, const Derivatives &at) const {
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

// A curvature that is not gone where the loss is straight: the slope over the distance from where the loss bends.
std::vector<double> ColumnFits::secant_curvature(const Derivatives &at, const std::vector<double> &margins) const {
    std::vector<double> bend(n_);
    for (std::int64_t i = 0; i < n_; ++i) {
        const double from = conjugate_ == Conjugate::huber ? margins[i] - target_[i] : margins[i];
        bend[i] = std::max(at.bend[i], std::abs(at.slope[i]) / std::max(1.0, std::abs(from)));
    }
    return bend;
}

// Of several directions and lengths the step with the least psi: where curvature differs by many orders of magnitude
// between samples, steps with a ridge hardly lower psi. Directions are the given ones, one with another curvature, and
// the ways from the origin and to it: where x separates the samples, psi decreases along it without limit.
ColumnFits::Move ColumnFits::best_move(const Columns &columns, const Derivatives &at,
                                       const std::vector<double> &margins, const std::vector<double> &x,
                                       std::vector<std::vector<double>> directions, double least, Poll &poll) const {
    Derivatives other{at.psi,
                      at.size,
                      std::vector<double>(columns.size()),
                      std::vector<double>(at.hessian.size()),
                      at.slope,
                      secant_curvature(at, margins)};
    add_dense(columns, other, poll);
    add_sparse(columns, other, poll);
    directions.push_back(pivoted_newton_step(other.hessian, 0.0, {}, at.gradient, least).step);
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
double ColumnFits::spurious_decrease(const Derivatives &at, const std::vector<double> &step,
                                     const std::vector<double> &errors) const {
    double slopes = 0, moved = 0;
    for (std::int64_t i = 0; i < n_; ++i) slopes += std::abs(at.slope[i]);
    for (std::size_t j = 0; j < step.size(); ++j) moved += errors[j] * std::abs(step[j]);
    return slopes * moved;
}

}  // namespace levelprox
