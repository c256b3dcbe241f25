#include "algorithms/acsa.hpp"

#include <chrono>
#include <cmath>

#include "algorithms/projection.hpp"

namespace levelprox {
namespace {

using Vector = std::vector<double>;

class Acsa {
public:
    Acsa(Sampler &sampler, const Ball<double> &set, const double *center, const AcsaSettings &settings,
         AcsaState &state)
        : sampler_(sampler), set_(set), settings_(settings), state_(state), center_(center), x_(state.x),
          average_(state.x), middle_(state.x), gradient_(state.x.size()), is_live_(state.x.size()),
          touched_(std::int64_t(state.x.size())) {
        for (std::size_t j = 0; j < x_.size(); ++j)
            if (set_.width > 1 || center_[j] != 0 || x_[j] != 0) revive(std::int64_t(j));  // groups stay together
    }

    void run() {
        for (std::int64_t t = 1; t <= settings_.steps; ++t) {
            poll_.check();
            if (!step(double(t))) {
                state_.stop = StopReason::not_finite;
                return;
            }
            ++state_.steps;
            if (std::chrono::duration<double>(Clock::now() - began_).count() > settings_.seconds) {
                state_.stop = StopReason::seconds;
                return;
            }
        }
    }

    // An average of feasible points is feasible in exact arithmetic only: project it once more.
    void finish() {
        gather(live_, average_);
        if (project_gathered(0) != Projected::done) return;  // the start stays
        for (std::size_t p = 0; p < live_.size(); ++p) state_.x[std::size_t(live_[p])] = projected_[p];
    }

private:
    using Clock = std::chrono::steady_clock;

    void revive(std::int64_t j) {
        if (is_live_[std::size_t(j)]) return;
        is_live_[std::size_t(j)] = 1;
        live_.push_back(j);
    }

    bool step(double t) {
        const double m = settings_.strong_convexity, alpha = 2 / (t + 1),
                     weight = 4 * settings_.smoothness / (t * (t + 1));
        const double of_average = (1 - alpha) * (m + weight), of_x = alpha * ((1 - alpha) * m + weight);
        const double both = weight + (1 - alpha * alpha) * m;
        for (std::int64_t j : live_) {
            const auto i = std::size_t(j);
            middle_[i] = (of_average * average_[i] + of_x * x_[i]) / both;
        }
        // Everything is zero outside `live`, before the step and, where no gradient came, after it: projecting
        // the listed coordinates alone is projecting all of them.
        sampler_.add(middle_.data(), gradient_.data(), touched_, poll_);
        listed_ = live_;
        for (std::int64_t j : touched_)
            if (!is_live_[std::size_t(j)]) listed_.push_back(j);

        const double length = alpha / (m + weight);
        double poison = 0;
        for (std::int64_t j : listed_) {
            const auto i = std::size_t(j);
            const double slope = gradient_[i] + settings_.gamma * (middle_[i] - center_[i]);
            gradient_[i] = (alpha * m * middle_[i] + ((1 - alpha) * m + weight) * x_[i] - alpha * slope) / (m + weight);
            poison += gradient_[i] * 0.0;
        }
        gather(listed_, gradient_);
        for (std::int64_t j : listed_) gradient_[std::size_t(j)] = 0;
        if (poison != 0 || project_gathered(state_.multiplier * length) != Projected::done) return false;
        state_.multiplier = multiplier_ / length;

        for (std::size_t p = 0; p < listed_.size(); ++p) {
            const auto i = std::size_t(listed_[p]);
            x_[i] = projected_[p];
            average_[i] = alpha * x_[i] + (1 - alpha) * average_[i];
            if (x_[i] != 0 || average_[i] != 0) revive(std::int64_t(i));
        }
        return true;
    }

    void gather(const std::vector<std::int64_t> &list, const Vector &from) {
        const std::size_t size = list.size();
        values_.resize(size);
        projected_.resize(size);
        if (set_.u) u_.resize(size);
        const bool weighed = set_.omega && set_.width == 1;  // groups are all listed, in order
        if (weighed) omega_.resize(size);
        if (set_.nonnegative) nonnegative_.resize(size);
        for (std::size_t p = 0; p < size; ++p) {
            const std::int64_t j = list[p];
            values_[p] = from[std::size_t(j)];
            if (set_.u) u_[p] = set_.u[j];
            if (weighed) omega_[p] = set_.omega[j];
            if (set_.nonnegative) nonnegative_[p] = set_.nonnegative[j];
        }
    }

    Projected project_gathered(double start) {
        if (values_.empty()) return Projected::done;
        Ball<double> ball = set_;
        ball.d = std::int64_t(values_.size());
        ball.u = set_.u ? u_.data() : nullptr;
        if (set_.omega && set_.width == 1) ball.omega = omega_.data();
        ball.nonnegative = set_.nonnegative ? nonnegative_.data() : nullptr;
        const Projection projection = project_onto(ball, values_.data(), start, projected_.data());
        ++state_.projections;
        multiplier_ = projection.multiplier;
        return projection.status;
    }

    Sampler &sampler_;
    Ball<double> set_;
    const AcsaSettings &settings_;
    AcsaState &state_;
    const double *center_;
    Vector x_, average_, middle_, gradient_;  // gradient_ is zero between steps
    std::vector<std::uint8_t> is_live_;
    std::vector<std::int64_t> live_, listed_;  // live: where x, average or center may not be zero
    Touched touched_;
    Vector values_, u_, omega_, projected_;
    std::vector<std::uint8_t> nonnegative_;
    double multiplier_ = 0;
    Clock::time_point began_ = Clock::now();
    Poll poll_;
};

}  // namespace

void acsa(Sampler &sampler, Ball<double> set, const double *center, const AcsaSettings &settings, AcsaState &state) {
    Acsa run(sampler, set, center, settings, state);
    try {
        run.run();
    } catch (...) {
        state.stop = host->reason(std::current_exception());
    }
    run.finish();
}

}  // namespace levelprox
