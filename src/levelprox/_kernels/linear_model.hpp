// psi(x) = sum_i s_i l((Xx)_i + o_i, b_i) / sum_i s_i, and its gradient, in as few passes over X as its storage allows.
//
// Rows stored together (CSR, C order) need one: each block of rows gives its margins, then its share of
// the gradient while it is still in cache. Columns stored together need two.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "design.hpp"
#include "exact.hpp"
#include "loss.hpp"
#include "objective.hpp"

namespace levelprox {

class LinearModel : public Objective {
public:
    // Null weights are all 1, null offsets all 0. The arrays are the caller's, and must outlive the model.
    LinearModel(Design design, std::unique_ptr<Loss> loss, const double *target, const double *weight, const double *offset)
        : design_(design), loss_(std::move(loss)), target_(target), weight_(weight), offset_(offset), total_(double(design.rows())) {
        if (weight_) {
            HeadTail sum{0, 0};
            for (std::int64_t i = 0; i < design_.rows(); ++i) {
                const HeadTail next = two_sum(sum.head, weight_[i]);
                sum = {next.head, sum.tail + next.tail};
            }
            total_ = sum.head + sum.tail;
        }
    }

    std::int64_t dimension() const override { return design_.columns(); }

    const Design &design() const { return design_; }
    const Loss &loss() const { return *loss_; }
    const double *target() const { return target_; }
    const double *weight() const { return weight_; }  // null: all 1
    const double *offset() const { return offset_; }  // null: all 0
    double total() const { return total_; }           // sum s_i

    double value_and_gradient(const double *x, double *gradient, Poll &poll) const override {
        double residual_sum;
        return value_and_gradient(x, 0.0, gradient, &residual_sum, poll);
    }

    // psi with `shift` added to every margin; the gradient is X'r, and *residual_sum the sum of r: what an
    // intercept needs besides.
    double value_and_gradient(const double *x, double shift, double *gradient, double *residual_sum, Poll &poll) const {
        std::fill(gradient, gradient + design_.columns(), 0.0);
        const Sums sums = design_.by_rows ? one_pass(x, shift, gradient, poll) : two_passes(x, shift, gradient, poll);
        *residual_sum = sums.residual.head + sums.residual.tail;
        return (sums.loss.head + sums.loss.tail) / total_;
    }

private:
    static constexpr std::int64_t CACHED = 1 << 15, LONG = 1 << 21, ROWS = 1 << 12;

    struct Sums {
        HeadTail loss{0, 0}, residual{0, 0};
    };

    Sums one_pass(const double *x, double shift, double *gradient, Poll &poll) const {
        std::vector<double> margins(ROWS), residual(ROWS);
        Sums sum;
        in_pieces(CACHED, ROWS, poll, [&](std::int64_t begin, std::int64_t end) {
            design_.slices->dot(begin, end, x, margins.data());
            add_offset(begin, end, shift, margins.data());
            weigh(begin, end, margins.data(), residual.data(), sum);
            design_.slices->add(begin, end, residual.data(), gradient);
        });
        return sum;
    }

    Sums two_passes(const double *x, double shift, double *gradient, Poll &poll) const {
        const std::int64_t n = design_.rows();
        std::vector<double> margins(n), residual(n);
        Sums sum;
        in_pieces(LONG, LONG, poll, [&](std::int64_t begin, std::int64_t end) {
            design_.slices->add(begin, end, x + begin, margins.data());
        });
        add_offset(0, n, shift, margins.data());
        for (std::int64_t begin = 0; begin < n; begin += ROWS)
            weigh(begin, std::min(n, begin + ROWS), margins.data() + begin, residual.data() + begin, sum);
        in_pieces(LONG, LONG, poll, [&](std::int64_t begin, std::int64_t end) {
            design_.slices->dot(begin, end, residual.data(), gradient + begin);
        });
        return sum;
    }

    // Slices begin..end at a time, about `stored` entries and at most `most` slices; Ctrl-C is seen in between.
    template <class F>
    void in_pieces(std::int64_t stored, std::int64_t most, Poll &poll, F &&work) const {
        const std::int64_t count = design_.slices->count;
        const double average = double(design_.slices->stored(0, count)) / double(std::max<std::int64_t>(count, 1));
        const auto piece = std::int64_t(std::min(double(most), std::max(1.0, double(stored) / std::max(average, 1.0))));
        for (std::int64_t begin = 0; begin < count; begin += piece) {
            poll.check();
            work(begin, std::min(count, begin + piece));
        }
    }

    void add_offset(std::int64_t begin, std::int64_t end, double shift, double *margins) const {
        if (offset_)
            for (std::int64_t i = begin; i < end; ++i) margins[i - begin] += offset_[i];
        if (shift != 0)
            for (std::int64_t i = begin; i < end; ++i) margins[i - begin] += shift;
    }

    static void add(HeadTail &sum, double term) {
        const HeadTail next = two_sum(sum.head, term);
        // An infinite term makes the tail NaN; the sum is then its head alone.
        sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
    }

    // Adds the losses and residuals of samples begin..end to the sums; residual_i = s_i l'(z_i, b_i) / sum s.
    void weigh(std::int64_t begin, std::int64_t end, const double *margins, double *residual, Sums &sum) const {
        double losses[ROWS];
        const std::int64_t n = end - begin;
        loss_->value(n, margins, target_ + begin, losses);
        loss_->derivative(n, margins, target_ + begin, residual);
        for (std::int64_t i = 0; i < n; ++i) {
            const double weight = weight_ ? weight_[begin + i] : 1.0;
            if (weight == 0) {  // a removed sample, even where its loss is infinite
                residual[i] = 0;
                continue;
            }
            add(sum.loss, weight * losses[i]);
            residual[i] *= weight / total_;
            add(sum.residual, residual[i]);
        }
    }

    Design design_;
    std::unique_ptr<Loss> loss_;
    const double *target_, *weight_, *offset_;
    double total_;
};

}  // namespace levelprox
