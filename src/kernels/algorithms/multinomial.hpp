// The multinomial loss l(z, y) = log sum_k exp(z_k) - z_y of K margins, and psi of a linear model with K outputs:
//
//     psi(B) = sum_i s_i l((XB)_i + o_i, y_i) / sum_i s_i,      B of shape (d, K), row after row.
//
// X is read as by the linear model: rows stored together once, columns stored together twice. A piece of X that is in
// cache serves all K classes, each a vector of its own, so that any storage will do.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/design.hpp"
#include "algorithms/exact.hpp"
#include "algorithms/objective.hpp"

namespace levelprox {

// The loss of one sample; z[k] becomes p_k = exp(z_k) / sum exp(z). Only differences to the largest margin are raised
// to powers, so nothing overflows; the loss of a sure and right prediction keeps its digits.
inline double softmax(std::int64_t K, double *z, std::int64_t label) {
    std::int64_t top = 0;
    for (std::int64_t k = 1; k < K; ++k)
        if (z[k] > z[top]) top = k;
    const double largest = z[top], short_of = z[label] == largest ? 0.0 : z[label] - largest;  // inf - inf is none
    double others = 0;
    for (std::int64_t k = 0; k < K; ++k) {
        z[k] = z[k] == largest ? 1.0 : std::exp(z[k] - largest);
        if (k != top) others += z[k];
    }
    for (std::int64_t k = 0; k < K; ++k) z[k] /= 1 + others;
    return std::log1p(others) - short_of;
}

// dl/dz from p, in place: p_k - [k = y]. For y itself minus the sum of the others, or a sure prediction loses its
// digits.
inline void to_slopes(std::int64_t K, double *p, std::int64_t label) {
    double others = 0;
    for (std::int64_t k = 0; k < K; ++k)
        if (k != label) others += p[k];
    p[label] = -others;
}

inline double sum_of(std::int64_t n, const double *weight) {
    if (!weight) return double(n);
    HeadTail sum{0, 0};
    for (std::int64_t i = 0; i < n; ++i) {
        const HeadTail next = two_sum(sum.head, weight[i]);
        sum = {next.head, sum.tail + next.tail};
    }
    return sum.head + sum.tail;
}

class MultinomialModel : public Objective {
public:
    // Null weights are all 1, null offsets all 0 (else n x K, row after row). The arrays are the caller's, and must
    // outlive the model; labels are in 0..K-1.
    MultinomialModel(Design design, std::int64_t classes, const std::int64_t *label, const double *weight,
                     const double *offset)
        : design_(design), K_(classes), label_(label), weight_(weight), offset_(offset),
          total_(sum_of(design.rows(), weight)) {}

    std::int64_t dimension() const override { return design_.columns() * K_; }
    std::int64_t classes() const { return K_; }
    const Design &design() const { return design_; }

    double value_and_gradient(const double *x, double *gradient, Poll &poll) const override {
        const std::int64_t d = design_.columns();
        std::vector<double> by_class(std::size_t(d * K_)), slope(std::size_t(d * K_));
        for (std::int64_t j = 0; j < d; ++j)
            for (std::int64_t k = 0; k < K_; ++k) by_class[std::size_t(k * d + j)] = x[j * K_ + k];
        const HeadTail sum = design_.by_rows ? one_pass(by_class.data(), slope.data(), poll)
                                             : two_passes(by_class.data(), slope.data(), poll);
        for (std::int64_t j = 0; j < d; ++j)
            for (std::int64_t k = 0; k < K_; ++k) gradient[j * K_ + k] = slope[std::size_t(k * d + j)];
        return (sum.head + sum.tail) / total_;
    }

private:
    static constexpr std::int64_t CACHED = 1 << 15, ROWS = 1 << 12;

    HeadTail one_pass(const double *x, double *gradient, Poll &poll) const {
        const std::int64_t d = design_.columns();
        std::vector<double> margins(std::size_t(ROWS * K_));
        HeadTail sum{0, 0};
        in_pieces(poll, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = 0; k < K_; ++k) design_.slices->dot(begin, end, x + k * d, margins.data() + k * ROWS);
            weigh(begin, end, margins.data(), ROWS, sum);
            for (std::int64_t k = 0; k < K_; ++k)
                design_.slices->add(begin, end, margins.data() + k * ROWS, gradient + k * d);
        });
        return sum;
    }

    HeadTail two_passes(const double *x, double *gradient, Poll &poll) const {
        const std::int64_t n = design_.rows(), d = design_.columns();
        std::vector<double> margins(std::size_t(n * K_));
        HeadTail sum{0, 0};
        in_pieces(poll, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = 0; k < K_; ++k)
                design_.slices->add(begin, end, x + k * d + begin, margins.data() + k * n);
        });
        for (std::int64_t begin = 0; begin < n; begin += ROWS) {
            weigh(begin, std::min(n, begin + ROWS), margins.data() + begin, n, sum);
            poll.check();
        }
        in_pieces(poll, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = 0; k < K_; ++k)
                design_.slices->dot(begin, end, margins.data() + k * n, gradient + k * d + begin);
        });
        return sum;
    }

    // Slices begin..end at a time, few enough to stay in cache for all classes; Ctrl-C is seen in between.
    template <class F>
    void in_pieces(Poll &poll, F &&work) const {
        const std::int64_t count = design_.slices->count;
        const double average = double(design_.slices->stored(0, count)) / double(std::max<std::int64_t>(count, 1));
        const auto piece = std::int64_t(std::min(double(ROWS), std::max(1.0, double(CACHED) / std::max(average, 1.0))));
        for (std::int64_t begin = 0; begin < count; begin += piece) {
            poll.check();
            work(begin, std::min(count, begin + piece));
        }
    }

    // Adds the losses of samples begin..end to the sum. Margin k of sample i, at margins[k * stride + i - begin],
    // becomes s_i dl/dz_k / sum s.
    void weigh(std::int64_t begin, std::int64_t end, double *margins, std::int64_t stride, HeadTail &sum) const {
        std::vector<double> z(static_cast<std::size_t>(K_));
        for (std::int64_t i = begin; i < end; ++i, ++margins) {
            const double weight = weight_ ? weight_[i] : 1.0;
            for (std::int64_t k = 0; k < K_; ++k)
                z[std::size_t(k)] = margins[k * stride] + (offset_ ? offset_[i * K_ + k] : 0.0);
            const double loss = softmax(K_, z.data(), label_[i]);
            to_slopes(K_, z.data(), label_[i]);
            // A removed sample counts nothing, even where its loss is infinite.
            for (std::int64_t k = 0; k < K_; ++k)
                margins[k * stride] = weight == 0 ? 0.0 : z[std::size_t(k)] * (weight / total_);
            if (weight == 0) continue;
            const HeadTail next = two_sum(sum.head, weight * loss);
            sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
        }
    }

    Design design_;
    std::int64_t K_;
    const std::int64_t *label_;
    const double *weight_, *offset_;
    double total_;
};

}  // namespace levelprox
