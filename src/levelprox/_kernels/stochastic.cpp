#include "stochastic.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "screened.hpp"

namespace levelprox {
namespace {

using Clock = std::chrono::steady_clock;

// The batch's gradient, added into `screened` a few rows at a time: those are still in cache when, after
// their margins, they are read again.
class BatchGradient {
public:
    BatchGradient(const LinearModel &model, const Snapshot &snapshot, std::int64_t batch)
        : model_(model), slices_(*model.design().slices), snapshot_(snapshot) {
        const double entries = double(slices_.stored(0, slices_.count)) / double(slices_.count) * double(batch);
        marks = entries < double(slices_.length) / 4;
    }

    bool marks;  // whether it is worth while to mark what is touched, rather than to look for it

    void add(const std::int64_t *samples, std::int64_t n, Screened &screened, Poll &poll) {
        std::int64_t work = 0;
        for (std::int64_t begin = 0; begin < n; begin += ROWS) {
            const std::int64_t rows = std::min(ROWS, n - begin);
            add_rows(samples + begin, rows, n - begin, 1 / double(n), screened);
            for (std::int64_t k = 0; k < rows; ++k) work += slices_.stored(samples[begin + k], samples[begin + k] + 1);
            if (work > PIECE) work = 0, poll.check();
        }
    }

private:
    static constexpr std::int64_t ROWS = 32, AHEAD = 8;

    void prefetch(std::int64_t i) const {
        slices_.prefetch(i);
        __builtin_prefetch(model_.target() + i);
        if (snapshot_.slope) __builtin_prefetch(snapshot_.slope + i);
    }

    // `left` samples may be looked at, to have the next rows ready.
    void add_rows(const std::int64_t *samples, std::int64_t rows, std::int64_t left, double share, Screened &screened) {
        double margins[ROWS], targets[ROWS], slopes[ROWS];
        for (std::int64_t k = 0; k < rows; ++k) {
            const std::int64_t i = samples[k];
            if (k + AHEAD < left) prefetch(samples[k + AHEAD]);
            slices_.dot(i, i + 1, screened.x(), &margins[k]);
            if (model_.offset()) margins[k] += model_.offset()[i];
            targets[k] = model_.target()[i];
        }
        model_.loss().derivative(rows, margins, targets, slopes);
        for (std::int64_t k = 0; k < rows; ++k) {
            const std::int64_t i = samples[k];
            const double change = snapshot_.slope ? slopes[k] - snapshot_.slope[i] : slopes[k];
            const double coefficient = share * change;
            if (marks)
                slices_.add_marking(i, coefficient, screened.gradient(), screened.touched());
            else
                slices_.add(i, i + 1, &coefficient, screened.gradient());
        }
    }

    const LinearModel &model_;
    const Slices &slices_;
    const Snapshot &snapshot_;
};

}  // namespace

StochasticStop stochastic_steps(const LinearModel &model, const Ball<double> &set, const double *center, double gamma,
                                const Minibatches &batches, const Snapshot &snapshot, double seconds, double *x,
                                double &multiplier, StochasticCounts &counts) {
    const Clock::time_point began = Clock::now();
    Poll poll;
    Screened screened(set, model.dimension(), center, gamma, snapshot.gradient, x, multiplier);
    BatchGradient gradient(model, snapshot, batches.batch);
    const double *t = batches.steps;
    for (std::int64_t begin = 0; begin < batches.count; begin += batches.batch, ++t) {
        poll.check();
        if (std::chrono::duration<double>(Clock::now() - began).count() > seconds) return StochasticStop::seconds;
        const std::int64_t n = std::min(batches.batch, batches.count - begin);
        gradient.add(batches.samples + begin, n, screened, poll);
        const Projected status = screened.step(*t, gradient.marks);
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
