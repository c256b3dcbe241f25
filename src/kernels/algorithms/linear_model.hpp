// psi(x) = sum_i s_i l((Xx)_i + o_i, b_i) / sum_i s_i, and its gradient, in as few passes over X as its storage allows.
//
// Rows stored together (CSR, C order) need one, unless they are very long: each block of rows gives its margins, then
// its share of the gradient while it is still in cache. Columns stored together need two.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "algorithms/design.hpp"
#include "algorithms/exact.hpp"
#include "algorithms/loss.hpp"
#include "algorithms/objective.hpp"
#include "algorithms/passes.hpp"

namespace levelprox {

class LinearModel : public Objective {
public:
    // Null weights are all 1, null offsets all 0. The arrays are the caller's, and must outlive the model.
    LinearModel(Design design, std::unique_ptr<Loss> loss, const double *target, const double *weight,
                const double *offset)
        : design_(design), loss_(std::move(loss)), target_(target), weight_(weight), offset_(offset),
          total_(double(design.rows())) {
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
        const Sums sums = is_one_pass() ? one_pass(x, shift, gradient, poll) : two_passes(x, shift, gradient, poll);
        *residual_sum = sums.residual.head + sums.residual.tail;
        return (sums.loss.head + sums.loss.tail) / total_;
    }

private:
    static constexpr std::int64_t CACHED = 1 << 15, ROWS = 1 << 12;
    static constexpr std::int64_t LOSS_WORK = 4;  // of a sample's loss and derivative, in entries of X

    struct Sums {
        HeadTail loss{0, 0}, residual{0, 0};

        void add(const Sums &other) {
            for (const double term : {other.loss.head, other.loss.tail}) add_to(loss, term);
            for (const double term : {other.residual.head, other.residual.tail}) add_to(residual, term);
        }
    };

    // One pass pays while a block of rows stays in cache between its two uses; and, where rows are compressed, while x
    // and the gradient do, which would else drive each other out.
    bool is_one_pass() const {
        const Slices &slices = *design_.slices;
        return design_.by_rows && slices.stored(0, slices.count) <= CACHED * std::max<std::int64_t>(slices.count, 1) &&
               (slices.divisible || slices.length <= CACHED);
    }

    Sums one_pass(const double *x, double shift, double *gradient, Poll &poll) const {
        const Slices &slices = *design_.slices;
        const Chunks chunks(slices);
        std::vector<Sums> sums(chunks.count());
        chunks.add_up(gradient, poll, [&](std::int64_t chunk, std::int64_t first, std::int64_t last, double *sum) {
            std::vector<double> margins(ROWS), residual(ROWS);
            for (std::int64_t begin = first, end; begin < last; begin = end) {
                end = std::min(reach(slices, begin, last, CACHED), begin + ROWS);
                slices.dot(begin, end, x, margins.data());
                add_offset(begin, end, shift, margins.data());
                weigh(begin, end, margins.data(), residual.data(), sums[chunk]);
                slices.add(begin, end, residual.data(), sum);
            }
        });
        return in_order(sums);
    }

    Sums two_passes(const double *x, double shift, double *gradient, Poll &poll) const {
        const std::int64_t n = design_.rows(), blocks = (n + ROWS - 1) / ROWS;
        std::vector<double> margins(n);  // and then the residual, in their place
        std::vector<Sums> sums(blocks);
        matvec(design_, x, margins.data(), poll);
        const auto weigh_block = [&](std::int64_t k) {
            const std::int64_t begin = k * ROWS, end = std::min(n, begin + ROWS);
            double residual[ROWS];
            add_offset(begin, end, shift, margins.data() + begin);
            weigh(begin, end, margins.data() + begin, residual, sums[k]);
            std::copy_n(residual, end - begin, margins.data() + begin);
        };
        for (std::int64_t first = 0; first < blocks; first += ROWS) {
            const std::int64_t count = std::min(blocks - first, ROWS);
            for_ranges(count, 4, count * ROWS * LOSS_WORK, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t k = begin; k < end; ++k) weigh_block(first + k);
            });
            poll.check();
        }
        rmatvec(design_, margins.data(), gradient, poll);
        return in_order(sums);
    }

    static Sums in_order(const std::vector<Sums> &parts) {
        Sums all;
        for (const Sums &part : parts) all.add(part);
        return all;
    }

    void add_offset(std::int64_t begin, std::int64_t end, double shift, double *margins) const {
        if (offset_)
            for (std::int64_t i = begin; i < end; ++i) margins[i - begin] += offset_[i];
        if (shift != 0)
            for (std::int64_t i = begin; i < end; ++i) margins[i - begin] += shift;
    }

    // Adds the losses and residuals of samples begin..end to the sums; residual_i = s_i l'(z_i, b_i) / sum s.
    void weigh(std::int64_t begin, std::int64_t end, const double *margins, double *residual, Sums &sum) const {
        double losses[ROWS];
        const std::int64_t n = end - begin;
        loss_->evaluate(n, margins, target_ + begin, losses, residual, nullptr);
        for (std::int64_t i = 0; i < n; ++i) {
            const double weight = weight_ ? weight_[begin + i] : 1.0;
            // A sample of weight 0 does not count, even where its loss is infinite.
            losses[i] = weight == 0 ? 0.0 : weight * losses[i];
            residual[i] = weight == 0 ? 0.0 : residual[i] * (weight / total_);
        }
        sum.add({compensated_sum(n, losses), compensated_sum(n, residual)});
    }

    Design design_;
    std::unique_ptr<Loss> loss_;
    const double *target_, *weight_, *offset_;
    double total_;
};

}  // namespace levelprox
