// The gradient of a minibatch of a linear model stored by rows, a few rows at a time: those are still in cache when,
// after their margins, they are read again.
#pragma once
#include <algorithm>
#include <cstdint>

#include "algorithms/interrupt.hpp"
#include "algorithms/linear_model.hpp"
#include "algorithms/touched.hpp"

namespace levelprox {

class BatchGradient {
public:
    // `slope`, where there is one, holds what to subtract from the slope of each sample.
    BatchGradient(const LinearModel &model, const double *slope, std::int64_t batch)
        : model_(model), slices_(*model.design().slices), slope_(slope) {
        const double entries = double(slices_.stored(0, slices_.count)) / double(slices_.count) * double(batch);
        marks_ = entries < double(slices_.length) / 4;
    }

    // Adds mean over the batch of (l'(<a_i, x> + o_i, b_i) - slope_i) a_i to `gradient`, zero on entry, and collects in
    // `touched` where it is not zero.
    void add(const std::int64_t *samples, std::int64_t n, const double *x, double *gradient, Touched &touched,
             Poll &poll) {
        std::int64_t work = 0;
        for (std::int64_t begin = 0; begin < n; begin += ROWS) {
            const std::int64_t rows = std::min(ROWS, n - begin);
            add_rows(samples + begin, rows, n - begin, 1 / double(n), x, gradient, touched);
            for (std::int64_t k = 0; k < rows; ++k) work += slices_.stored(samples[begin + k], samples[begin + k] + 1);
            if (work > PIECE) work = 0, poll.check();
        }
        if (marks_) touched.collect();
        else touched.collect_nonzero(gradient);
    }

private:
    static constexpr std::int64_t ROWS = 32, AHEAD = 8;

    void prefetch(std::int64_t i) const {
        slices_.prefetch(i);
        __builtin_prefetch(model_.target() + i);
        if (slope_) __builtin_prefetch(slope_ + i);
    }

    // `left` samples may be read in advance, to prefetch the next rows.
    void add_rows(const std::int64_t *samples, std::int64_t rows, std::int64_t left, double share, const double *x,
                  double *gradient, Touched &touched) {
        double margins[ROWS], targets[ROWS], slopes[ROWS];
        for (std::int64_t k = 0; k < rows; ++k) {
            const std::int64_t i = samples[k];
            if (k + AHEAD < left) prefetch(samples[k + AHEAD]);
            slices_.dot(i, i + 1, x, &margins[k]);
            if (model_.offset()) margins[k] += model_.offset()[i];
            targets[k] = model_.target()[i];
        }
        model_.loss().derivative(rows, margins, targets, slopes);
        for (std::int64_t k = 0; k < rows; ++k) {
            const std::int64_t i = samples[k];
            const double change = slope_ ? slopes[k] - slope_[i] : slopes[k];
            const double coefficient = share * change;
            if (marks_) slices_.add_marking(i, coefficient, gradient, touched);
            else slices_.add(i, i + 1, &coefficient, gradient);
        }
    }

    const LinearModel &model_;
    const Slices &slices_;
    const double *slope_;
    bool marks_;  // whether touched coordinates are marked, rather than searched for
};

}  // namespace levelprox
