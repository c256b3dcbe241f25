#include "stochastic.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "screened.hpp"

namespace levelprox {
namespace {

using Clock = std::chrono::steady_clock;

// The batch's gradient, added into `screened`: margins first, then all slopes at once, then the rows again.
class BatchGradient {
public:
    BatchGradient(const LinearModel &model, const Snapshot &snapshot, std::int64_t batch)
        : model_(model), slices_(*model.design().slices), snapshot_(snapshot), margins_(batch), targets_(batch), slopes_(batch) {}

    void add(const std::int64_t *samples, std::int64_t n, Screened &screened, Poll &poll) {
        std::int64_t work = 0;
        const auto look_up = [&](std::int64_t i) {
            if ((work += slices_.stored(i, i + 1)) > PIECE) work = 0, poll.check();
        };
        for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t i = samples[k];
            slices_.dot(i, i + 1, screened.x(), &margins_[k]);
            if (model_.offset()) margins_[k] += model_.offset()[i];
            targets_[k] = model_.target()[i];
            look_up(i);
        }
        model_.loss().derivative(n, margins_.data(), targets_.data(), slopes_.data());
        for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t i = samples[k];
            const double change = snapshot_.slope ? slopes_[k] - snapshot_.slope[i] : slopes_[k];
            slices_.add_listing(i, change / double(n), screened.gradient(), screened.touched());
            look_up(i);
        }
    }

private:
    const LinearModel &model_;
    const Slices &slices_;
    const Snapshot &snapshot_;
    std::vector<double> margins_, targets_, slopes_;
};

}  // namespace

StochasticStop stochastic_steps(const LinearModel &model, const Ball<double> &set, const double *center, double gamma,
                                const Minibatches &batches, const Snapshot &snapshot, double seconds, double *x,
                                double &multiplier, StochasticCounts &counts) {
    const Clock::time_point began = Clock::now();
    Poll poll;
    Screened screened(set, model.dimension(), center, gamma, snapshot.gradient, x, multiplier);
    BatchGradient gradient(model, snapshot, std::min(batches.batch, batches.count));
    const double *t = batches.steps;
    for (std::int64_t begin = 0; begin < batches.count; begin += batches.batch, ++t) {
        poll.check();
        if (std::chrono::duration<double>(Clock::now() - began).count() > seconds) return StochasticStop::seconds;
        const std::int64_t n = std::min(batches.batch, batches.count - begin);
        gradient.add(batches.samples + begin, n, screened, poll);
        const Projected status = screened.step(*t);
        counts.rows += n;
        counts.projections = screened.projections();
        counts.listed = screened.listed();
        if (status != Projected::done) return StochasticStop::not_finite;
        ++counts.steps;
        multiplier = screened.multiplier();
    }
    return StochasticStop::steps;
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
