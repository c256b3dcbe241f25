#include "algorithms/nesterov.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "algorithms/projection.hpp"

namespace levelprox {
namespace {

using Vector = std::vector<double>;
using Clock = std::chrono::steady_clock;

class Nesterov {
public:
    Nesterov(const Objective &objective, const Ball<double> &set, const double *center,
             const NesterovSettings &settings, NesterovState &state)
        : objective_(objective), set_(set), settings_(settings), state_(state), center_(center), ahead_(state.x),
          next_(state.x.size()), shifted_(state.x.size()) {}

    void run() {
        const double step = 1 / settings_.smoothness;
        double first_residual = 0;
        for (state_.steps = 0; state_.steps < settings_.max_steps;) {
            poll_.check();
            if (state_.steps > 0) {  // at the start the gradient is known
                objective_.value_and_gradient(ahead_.data(), state_.gradient.data(), poll_);
                ++state_.evaluations;
            }
            double poison = 0;
            for (std::size_t i = 0; i < shifted_.size(); ++i) {
                const double slope = state_.gradient[i] + settings_.gamma * (ahead_[i] - center_[i]);
                shifted_[i] = ahead_[i] - step * slope;
                poison += shifted_[i] * 0.0;
            }
            const Projection projection = project_onto(set_, shifted_.data(), state_.multiplier * step, next_.data());
            ++state_.projections;
            if (poison != 0 || projection.status != Projected::done) {
                state_.stop = StopReason::not_finite;
                return;
            }
            state_.multiplier = projection.multiplier / step;
            ++state_.steps;
            const double residual = advance() / step;
            if (state_.steps == 1) first_residual = residual;
            if (residual <= std::max(settings_.absolute, settings_.relative * first_residual) &&
                (state_.steps > 1 || residual == 0)) {
                state_.stop = StopReason::accurate;
                return;
            }
            if (std::chrono::duration<double>(Clock::now() - began_).count() > settings_.seconds) {
                state_.stop = StopReason::seconds;
                return;
            }
        }
    }

private:
    // x <- next, ahead <- next + momentum * (next - x); how far the step went from `ahead`.
    double advance() {
        double residual = 0, uphill = 0;
        for (std::size_t i = 0; i < next_.size(); ++i) {
            residual = std::max(residual, std::fabs(next_[i] - ahead_[i]));
            uphill += (ahead_[i] - next_[i]) * (next_[i] - state_.x[i]);
        }
        if (uphill > 0) alpha_ = 1;
        const double q = settings_.strong_convexity / settings_.smoothness, square = alpha_ * alpha_;
        const double next_alpha = (q - square + std::sqrt((q - square) * (q - square) + 4 * square)) / 2;
        const double momentum = alpha_ * (1 - alpha_) / (square + next_alpha);
        alpha_ = next_alpha;
        for (std::size_t i = 0; i < next_.size(); ++i) ahead_[i] = next_[i] + momentum * (next_[i] - state_.x[i]);
        std::swap(state_.x, next_);
        return residual;
    }

    const Objective &objective_;
    Ball<double> set_;
    const NesterovSettings &settings_;
    NesterovState &state_;
    const double *center_;
    Vector ahead_, next_, shifted_;
    double alpha_ = 1;
    Clock::time_point began_ = Clock::now();
    Poll poll_;
};

}  // namespace

void nesterov(const Objective &objective, Ball<double> set, const double *center, const NesterovSettings &settings,
              NesterovState &state) {
    Nesterov run(objective, set, center, settings, state);
    try {
        run.run();
    } catch (...) {
        state.stop = host->reason(std::current_exception());
    }
}

}  // namespace levelprox
