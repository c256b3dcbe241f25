#include "algorithms/quadratic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/projection.hpp"
#include "algorithms/quadratic_minimiser.hpp"

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double SMALLEST_NORMAL = std::numeric_limits<double>::min();
constexpr double LONGEST_STEP = 1e10, SHORTEST_STEP = 1e-10;  // where Q has a unit diagonal
constexpr double LARGEST_SHRINKAGE = 1e-12;                   // of x, to undo its rounding
constexpr int STEPS_BEFORE_SEARCH = 2;                        // with the same signs, before the face is searched
constexpr int MOST_STEPS_BEFORE_SEARCH = 20;  // with any signs: they may change at every step where Q is nearly flat
constexpr std::int64_t LEAST_SPARSE = 128;    // coordinates of a matrix whose zeros are skipped
constexpr double MOST_NONZERO = 0.25;         // of its entries
constexpr double FARTHEST_UNIT = 1e3;         // step of a coordinate, relative to what the level allows

double largest_magnitude(const std::vector<double> &a) {
    double most = 0;
    for (const double value : a) most = std::max(most, std::fabs(value));
    return most;
}

}  // namespace

QuadraticMinimiser::QuadraticMinimiser(const Quadratic &Q, const double *gradient, const double *diagonal,
                                       const Ball<double> &set, const QuadraticSettings &settings,
                                       QuadraticState &state, FaceFactor &factor, Poll &poll)
    : Q_(Q), set_(set), scaled_set_(set), settings_(settings), state_(state), factor_(factor), poll_(poll),
      d_(state.x.size()), width_(std::size_t(set.width)), unit_(d_), prices_(d_ / width_), x_(d_), slope_(d_),
      trial_(d_), move_(d_), image_(d_), shifted_(d_), unscaled_(d_) {
    set_units(gradient, diagonal);
    for (std::size_t i = 0; i < d_; ++i) {
        x_[i] = state.x[i] / unit_[i];
        slope_[i] = gradient[i] * unit_[i];
    }
    scaled_set_.omega = prices_.data();
    start_ = x_;
    start_slope_ = slope_;
}

// Sets the unit of each feature and its price in that unit.
void QuadraticMinimiser::set_units(const double *gradient, const double *diagonal) {
    for (std::size_t j = 0; j < prices_.size(); ++j) {
        // All coefficients of a feature share a unit: the set depends on their norm.
        double bend = 0, steepest = 0;
        for (std::size_t k = 0; k < width_; ++k) {
            bend += diagonal[j * width_ + k] / double(width_);
            steepest = std::max(steepest, std::fabs(gradient[j * width_ + k]));
        }

        // Where Q is nearly flat, its unit would take a coordinate far beyond what the level allows.
        const double omega = set_.omega ? set_.omega[j] : 1.0;
        if (set_.tau > 0 && bend >= SMALLEST_NORMAL)
            bend = std::max(bend, steepest * (omega / set_.tau) / FARTHEST_UNIT);
        const double unit = bend > 0 ? 1 / std::sqrt(bend) : 1.0;
        std::fill_n(unit_.begin() + std::ptrdiff_t(j * width_), width_, unit);

        // Without a level no coordinate has a price, and signs may change freely.
        prices_[j] = std::isinf(set_.tau) ? 0.0 : omega * unit;
    }
}

void QuadraticMinimiser::run() {
    double step = 1;
    int same_sign_steps = 0, steps = 0;  // since the last search of a face
    while (true) {
        find_step(step);
        if (state_.accurate || is_exhausted()) return;

        // Move to the minimum of the model along the step. A projected step lowers the model by at least
        // |move|^2 / step; near the solution <slope, move> loses that to rounding.
        const bool same_signs = trial_has_signs_of_x();
        apply(move_, image_);
        const double length = dot(move_, move_), bend = dot(move_, image_);
        if (!advance(bend, length / step)) return;

        // The next step has the length of Barzilai and Borwein.
        step = std::clamp(bend > 0 ? length / bend : 1.0, SHORTEST_STEP, LONGEST_STEP);

        // Once the signs of x stay the same, search the face they define.
        same_sign_steps = same_signs ? same_sign_steps + 1 : 0;
        ++steps;
        if (same_sign_steps >= STEPS_BEFORE_SEARCH || steps >= MOST_STEPS_BEFORE_SEARCH) {
            if (width_ == 1) search_face();
            else search_group_face();
            same_sign_steps = 0;
            steps = 0;
        }
        poll_.check();
    }
}

// Projects a gradient step of this length, and sets the residual and whether x is accurate.
void QuadraticMinimiser::find_step(double &step) {
    project_step(step);
    double residual = largest_magnitude(move_) / step;
    if (first_residual_ == 0) first_residual_ = residual;
    const double enough = std::max(settings_.relative * first_residual_, 8 * EPS * largest_magnitude(x_));

    // The set may have cut a long step short, and the residual with it: check with a step of length 1.
    if (step > 1 && residual <= enough) {
        step = 1;
        project_step(step);
        residual = largest_magnitude(move_);
    }
    state_.residual = first_residual_ > 0 ? residual / first_residual_ : 0;
    state_.accurate = residual <= enough;
}

// move = P(x - step * slope) - x, and the multiplier of that projection per unit step.
void QuadraticMinimiser::project_step(double step) {
    for (std::size_t i = 0; i < d_; ++i) shifted_[i] = x_[i] - step * slope_[i];
    project(shifted_, trial_, state_.multiplier * step);
    state_.multiplier = last_multiplier_ / step;
    for (std::size_t i = 0; i < d_; ++i) move_[i] = trial_[i] - x_[i];
}

void QuadraticMinimiser::project(const Vector &from, Vector &to, double guess) {
    last_multiplier_ = project_onto(scaled_set_, from.data(), guess, to.data()).multiplier;
    ++state_.projections;
}

// x += t * move with the best t in [0, 1]; image is Q * move. Returns false if the model does not decrease.
bool QuadraticMinimiser::advance(double bend, double least_decrease) {
    const double decrease = std::max(-dot(slope_, move_), least_decrease);
    if (!(decrease > 0) || !std::isfinite(decrease) || !std::isfinite(bend)) return false;
    const double t = bend > decrease ? decrease / bend : 1.0;
    for (std::size_t i = 0; i < d_; ++i) {
        // A whole step ends at the projected point, whose zeros are exact.
        x_[i] = t == 1 ? x_[i] + move_[i] : x_[i] + t * move_[i];
        if (t == 1 && trial_[i] == 0) x_[i] = 0;
        slope_[i] += t * image_[i];
    }
    return true;
}

bool QuadraticMinimiser::trial_has_signs_of_x() const {
    for (std::size_t i = 0; i < d_; ++i)
        if ((trial_[i] > 0) != (x_[i] > 0) || (trial_[i] < 0) != (x_[i] < 0)) return false;
    return true;
}

// out = Qv in scaled coordinates.
void QuadraticMinimiser::apply(const Vector &v, Vector &out) {
    for (std::size_t i = 0; i < d_; ++i) unscaled_[i] = v[i] * unit_[i];
    Q_.apply(unscaled_.data(), out.data(), poll_);
    for (std::size_t i = 0; i < d_; ++i) out[i] *= unit_[i];
    ++state_.products;
}

void QuadraticMinimiser::finish() {
    // The model is quadratic: its decrease follows from its slopes at both ends.
    double decrease = 0;
    for (std::size_t i = 0; i < d_; ++i) decrease -= (x_[i] - start_[i]) * (start_slope_[i] + slope_[i]) / 2;
    state_.decrease = decrease;

    // Rounding may have moved x out of the set by a few units in the last place. The projection would subtract the same
    // amount from every coordinate, which changes small ones in all digits: shrink x instead, until it is in the set.
    for (std::size_t i = 0; i < d_; ++i) shifted_[i] = x_[i] * unit_[i];
    double excess = project_onto(set_, shifted_.data(), 0, state_.x.data()).multiplier;
    for (double less = 4 * EPS; excess > 0 && less < LARGEST_SHRINKAGE; less *= 2) {
        for (double &value : shifted_) value *= 1 - less;
        excess = project_onto(set_, shifted_.data(), 0, state_.x.data()).multiplier;
        ++state_.projections;
    }
    ++state_.projections;
}

DenseQuadratic::DenseQuadratic(std::int64_t d, const double *hessian, const double *ridge)
    : d_(d), hessian_(hessian), ridge_(ridge) {
    if (d < LEAST_SPARSE) return;
    const auto size = std::size_t(d) * std::size_t(d);
    const auto n_nonzero = size - std::size_t(std::count(hessian, hessian + size, 0.0));
    if (double(n_nonzero) > MOST_NONZERO * double(size)) return;
    columns_.reserve(n_nonzero);
    values_.reserve(n_nonzero);
    for (std::int64_t i = 0; i < d; ++i) {
        const double *row = hessian + i * d;
        for (std::int64_t j = 0; j < d; ++j) {
            if (row[j] == 0) continue;
            columns_.push_back(std::int32_t(j));
            values_.push_back(row[j]);
        }
        row_ends_.push_back(values_.size());
    }
}

// A sum of rows of H, in their order for every entry; zeros of v are skipped.
void DenseQuadratic::add_product(const double *v, double *out) const {
    if (!is_sparse()) return simd().dense<double>().adds(d_, d_, d_, v, hessian_, out);
    std::size_t k = 0;
    for (std::size_t i = 0; i < row_ends_.size(); k = row_ends_[i++]) {
        if (v[i] == 0) continue;
        for (; k < row_ends_[i]; ++k) out[columns_[k]] += v[i] * values_[k];
    }
}

void DenseQuadratic::apply(const double *v, double *out, Poll &) const {
    for (std::int64_t i = 0; i < d_; ++i) out[i] = ridge_[i] * v[i];
    add_product(v, out);
}

bool DenseQuadratic::block(const std::vector<std::int64_t> &chosen, double *out) const {
    const std::size_t m = chosen.size();
    for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t k = 0; k < m; ++k) out[j * m + k] = hessian_[chosen[j] * d_ + chosen[k]];
        out[j * m + j] += ridge_[chosen[j]];
    }
    return true;
}

void DenseQuadratic::row(std::int64_t i, const std::vector<std::int64_t> &chosen, double *out) const {
    const std::size_t m = chosen.size();
    for (std::size_t k = 0; k < m; ++k) out[k] = hessian_[i * d_ + chosen[k]];
    out[m] = hessian_[i * d_ + i] + ridge_[i];
}

void minimise_quadratic(const Quadratic &Q, const double *gradient, const double *diagonal, const Ball<double> &set,
                        const QuadraticSettings &settings, QuadraticState &state, FaceFactor &factor, Poll &poll) {
    QuadraticMinimiser minimiser(Q, gradient, diagonal, set, settings, state, factor, poll);
    minimiser.run();
    minimiser.finish();
}

}  // namespace levelprox
