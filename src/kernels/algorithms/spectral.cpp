#include "algorithms/spectral.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/projection.hpp"
#include "simd/simd.hpp"

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double SHORTEST_STEP = 1e-300, LONGEST_STEP = 1e300;
constexpr double COLLAPSED = 1e-9, MEASURABLE = 1000 * EPS;
constexpr int MOST_TRIALS = 60;
constexpr double FLAT = 4 * EPS;  // psi_k is not known better than this, relatively

using Vector = std::vector<double>;

double dot(const Vector &a, const Vector &b) { return simd().dense<double>().dot(a.size(), a.data(), b.data()); }

bool all_finite(const Vector &a) {
    double poison = 0;
    for (double value : a) poison += value * 0.0;
    return poison == 0;
}

bool not_above(double value, double other) { return value <= other + FLAT * std::fabs(other); }

// psi_k and its gradient at one point.
struct Point {
    Vector x, gradient_psi;
    double psi = 0, value = 0;
};

class Spectral {
public:
    Spectral(const Objective &objective, const Ball<double> &set, const double *center, double gamma,
             const SpectralSettings &settings, SpectralState &state)
        : objective_(objective), set_(set), gamma_(gamma), settings_(settings), state_(state), center_(center),
          now_{state.x, state.gradient, state.psi, state.psi}, trial_{Vector(state.x.size()), Vector(state.x.size())},
          slope_(state.x.size()), next_slope_(state.x.size()), shifted_(state.x.size()), moved_(state.x.size()) {
        now_.value = value_at(now_);
        kept_ = now_;
    }

    void run() {
        const double value_at_start = now_.value;
        Vector recent{now_.value};  // the last `memory` values of psi_k
        double first_residual = 0;
        slope_at(now_, slope_);
        for (state_.steps = 0; state_.steps < settings_.max_steps;) {
            state_.stop = StopReason::steps;
            const double reference = *std::max_element(recent.begin(), recent.end());
            if (!find_trial(reference)) return;
            ++state_.steps;

            if (now_.value - trial_.value > MEASURABLE * std::fabs(now_.value)) sound_step_ = state_.step;
            slope_at(trial_, next_slope_);
            double curvature = 0;  // not a difference of two products: near a solution that is all rounding
            for (std::size_t i = 0; i < moved_.size(); ++i) curvature += moved_[i] * (next_slope_[i] - slope_[i]);
            const double length = dot(moved_, moved_);
            // Nonpositive curvature along the step: lengthen it; the line search shortens it again if need be.
            state_.step =
                std::clamp(curvature > 0 ? length / curvature : 10 * state_.step, SHORTEST_STEP, LONGEST_STEP);
            std::swap(now_, trial_);
            std::swap(slope_, next_slope_);

            // Keep the best point; among those that psi_k cannot tell apart the latest, the more stationary one.
            if (not_above(now_.value, value_at_start) && not_above(now_.value, kept_.value)) kept_ = now_;
            if (int(recent.size()) == settings_.memory) recent.erase(recent.begin());
            recent.push_back(now_.value);

            if (state_.steps == 1) first_residual = state_.residual;
            if (state_.residual <= std::max(settings_.absolute, settings_.relative * first_residual) &&
                state_.steps > 1) {
                state_.stop = StopReason::accurate;
                return;
            }
            if (std::chrono::duration<double>(Clock::now() - began_).count() > settings_.seconds) {
                state_.stop = StopReason::seconds;
                return;
            }
        }
    }

    // Return the best point seen: never one with psi_k above that of the start (beyond the last
    // digits).
    void finish() {
        sweep();
        if (state_.step < COLLAPSED * sound_step_)
            state_.step = sound_step_;  // by rounding; the next outer step starts afresh
        state_.x = std::move(kept_.x);
        state_.gradient = std::move(kept_.gradient_psi);
        state_.psi = kept_.psi;
    }

private:
    using Clock = std::chrono::steady_clock;

    // At the floor of rounding a step can be so short that it stays inside the set, and leaves specks of 1e-16 in
    // coordinates that were zero: of no effect on psi, but each would count as one of the support. What is below the
    // rounding of one gradient step goes back to zero, which spends less of the level.
    void sweep() {
        double steepest = 0;
        for (const double slope : slope_) steepest = std::max(steepest, std::fabs(slope));
        const double speck = 256 * EPS * sound_step_ * steepest;
        for (std::size_t i = 0; i < kept_.x.size(); ++i)
            if (state_.x[i] == 0 && std::fabs(kept_.x[i]) <= speck) kept_.x[i] = 0;
    }

    void slope_at(const Point &point, Vector &slope) const {
        for (std::size_t i = 0; i < slope.size(); ++i)
            slope[i] = point.gradient_psi[i] + gamma_ * (point.x[i] - center_[i]);
    }

    void evaluate(Point &point) {
        point.psi = objective_.value_and_gradient(point.x.data(), point.gradient_psi.data(), poll_);
        ++state_.evaluations;
        point.value = value_at(point);
    }

    double value_at(const Point &point) const {
        double distance = 0;
        for (std::size_t i = 0; i < point.x.size(); ++i)
            distance += (point.x[i] - center_[i]) * (point.x[i] - center_[i]);
        return point.psi + gamma_ / 2 * distance;
    }

    // Shorten the step until psi_k falls enough below `reference`; false ends the run, for the reason in state_.stop.
    bool find_trial(double reference) {
        double t = std::clamp(state_.step, SHORTEST_STEP, LONGEST_STEP);
        bool saw_finite = false;
        for (int trial = 0; trial < MOST_TRIALS; ++trial, t /= 2) {
            for (std::size_t i = 0; i < shifted_.size(); ++i) shifted_[i] = now_.x[i] - t * slope_[i];
            poll_.check();
            const Projection projection = project_onto(set_, shifted_.data(), state_.multiplier * t, trial_.x.data());
            ++state_.projections;
            if (projection.status != Projected::done) {  // x - t grad left the floating-point range
                t /= 1e3;
                continue;
            }
            double longest = 0, length = 0;
            for (std::size_t i = 0; i < moved_.size(); ++i) {
                moved_[i] = trial_.x[i] - now_.x[i];
                longest = std::max(longest, std::fabs(moved_[i]));
                length += moved_[i] * moved_[i];
            }
            if (longest == 0) {
                state_.multiplier = projection.multiplier / t;
                state_.residual = 0;
                state_.stop = StopReason::stationary;
                return false;
            }
            if (std::chrono::duration<double>(Clock::now() - began_).count() > settings_.seconds) {
                state_.stop = StopReason::seconds;
                return false;
            }
            evaluate(trial_);
            if (!std::isfinite(trial_.value) || !all_finite(trial_.gradient_psi)) {
                t /= 5;  // with the loop's own halving, a tenth
                continue;
            }
            saw_finite = true;
            if (not_above(trial_.value, reference - settings_.decrease / 2 * length / t)) {
                state_.step = t;
                state_.multiplier = projection.multiplier / t;
                state_.residual = longest / t;
                return true;
            }
        }
        state_.stop = saw_finite ? StopReason::no_decrease : StopReason::not_finite;
        return false;
    }

    const Objective &objective_;
    Ball<double> set_;
    double gamma_;
    const SpectralSettings &settings_;
    SpectralState &state_;
    const double *center_;
    Point now_, trial_, kept_;
    Vector slope_, next_slope_, shifted_, moved_;
    double sound_step_ = state_.step;  // the last one that lowered psi_k beyond doubt, or where the run began
    Clock::time_point began_ = Clock::now();
    Poll poll_;
};

}  // namespace

void spectral(const Objective &objective, Ball<double> set, const double *center, double gamma,
              const SpectralSettings &settings, SpectralState &state) {
    set.d = std::int64_t(state.x.size());
    Spectral run(objective, set, center, gamma, settings, state);
    try {
        run.run();
    } catch (...) {
        state.stop = host->reason(std::current_exception());
    }
    run.finish();
}

}  // namespace levelprox
