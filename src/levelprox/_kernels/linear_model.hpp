// psi(x) = sum_i s_i l((Xx)_i, b_i) / sum_i s_i, and its gradient, in as few passes over X as its storage allows.
//
// Rows stored together (CSR, C order) need one: each block of rows gives its margins, then its share of
// the gradient while it is still in cache. Columns stored together need two.
#pragma once
#include <memory>
#include <vector>

#include "design.hpp"
#include "exact.hpp"
#include "interrupt.hpp"
#include "loss.hpp"
#include "objective.hpp"

namespace levelprox {

class LinearModel : public Objective {
public:
    LinearModel(Design design, std::unique_ptr<Loss> loss, const double *target, const double *weight)
        : design_(design), loss_(std::move(loss)), target_(target), weight_(weight), total_(double(design.rows())) {
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

    double value_and_gradient(const double *x, double *gradient) override {
        sum_ = {0, 0};
        std::fill(gradient, gradient + design_.columns(), 0.0);
        design_.by_rows ? one_pass(x, gradient) : two_passes(x, gradient);
        return (sum_.head + sum_.tail) / total_;
    }

private:
    static constexpr std::int64_t CACHED = 1 << 15, PIECE = 1 << 21, ROWS = 1 << 12;

    void one_pass(const double *x, double *gradient) {
        margins_.resize(ROWS), residual_.resize(ROWS);
        in_pieces(CACHED, ROWS, [&](std::int64_t begin, std::int64_t end) {
            design_.slices->dot(begin, end, x, margins_.data());
            weigh(begin, end, margins_.data(), residual_.data());
            design_.slices->add(begin, end, residual_.data(), gradient);
        });
    }

    void two_passes(const double *x, double *gradient) {
        const std::int64_t n = design_.rows();
        margins_.assign(n, 0.0), residual_.resize(n);
        in_pieces(PIECE, PIECE, [&](std::int64_t begin, std::int64_t end) { design_.slices->add(begin, end, x + begin, margins_.data()); });
        for (std::int64_t begin = 0; begin < n; begin += ROWS)
            weigh(begin, std::min(n, begin + ROWS), margins_.data() + begin, residual_.data() + begin);
        in_pieces(PIECE, PIECE, [&](std::int64_t begin, std::int64_t end) { design_.slices->dot(begin, end, residual_.data(), gradient + begin); });
    }

    // Slices begin..end at a time, about `stored` entries and at most `most` slices; Ctrl-C is seen in between.
    template <class F>
    void in_pieces(std::int64_t stored, std::int64_t most, F &&work) {
        const std::int64_t count = design_.slices->count;
        const double average = double(design_.slices->stored(0, count)) / double(std::max<std::int64_t>(count, 1));
        const auto piece = std::int64_t(std::min(double(most), std::max(1.0, double(stored) / std::max(average, 1.0))));
        for (std::int64_t begin = 0; begin < count; begin += piece) {
            poll_.check();
            work(begin, std::min(count, begin + piece));
        }
    }

    // Adds the losses of samples begin..end to the sum; residual_i = s_i l'(z_i, b_i) / sum s.
    void weigh(std::int64_t begin, std::int64_t end, const double *margins, double *residual) {
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
            const HeadTail next = two_sum(sum_.head, weight * losses[i]);
            // An infinite loss makes the tail NaN; the sum is then its head alone.
            sum_ = {next.head, std::isfinite(next.head) ? sum_.tail + next.tail : 0.0};
            residual[i] *= weight / total_;
        }
    }

    Design design_;
    std::unique_ptr<Loss> loss_;
    const double *target_, *weight_;
    double total_;
    HeadTail sum_{0, 0};
    std::vector<double> margins_, residual_;
    Poll poll_;
};

}  // namespace levelprox
