#include "algorithms/stochastic.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "algorithms/batch.hpp"
#include "algorithms/screened.hpp"

namespace levelprox {

using Clock = std::chrono::steady_clock;

StopReason stochastic_steps(const LinearModel &model, const Ball<double> &set, const double *center, double gamma,
                            const Minibatches &batches, const Snapshot &snapshot, double seconds, double *x,
                            double &multiplier, StochasticCounts &counts) {
    const Clock::time_point began = Clock::now();
    Poll poll;
    Screened screened(set, model.dimension(), center, gamma, snapshot.gradient, x, multiplier);
    BatchGradient gradient(model, snapshot.slope, batches.batch);
    const double *t = batches.steps;
    for (std::int64_t begin = 0; begin < batches.count; begin += batches.batch, ++t) {
        poll.check();
        if (std::chrono::duration<double>(Clock::now() - began).count() > seconds) return StopReason::seconds;
        const std::int64_t n = std::min(batches.batch, batches.count - begin);
        gradient.add(batches.samples + begin, n, screened.x(), screened.gradient(), screened.touched(), poll);
        const Projected status = screened.step(*t);
        counts.rows += n;
        counts.projections = screened.projections();
        counts.listed = screened.listed();
        if (status != Projected::done) return StopReason::not_finite;
        ++counts.steps;
        multiplier = screened.multiplier();
    }
    return StopReason::steps;
}

void sample_slopes(const LinearModel &model, const double *x, double *out, Poll &poll) {
    constexpr std::int64_t ROWS = 1 << 10;
    const Slices &slices = *model.design().slices;
    std::vector<double> margins(ROWS);
    for (std::int64_t begin = 0, end; begin < slices.count; begin = end) {
        end = std::min(begin + ROWS, piece_end(slices, begin));
        slices.dot(begin, end, x, margins.data());
        if (model.offset())
            for (std::int64_t i = begin; i < end; ++i) margins[i - begin] += model.offset()[i];
        model.loss().derivative(end - begin, margins.data(), model.target() + begin, out + begin);
        poll.check();
    }
}

}  // namespace levelprox
