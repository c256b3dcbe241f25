// The best k features of a parabola, by its Gram matrix alone:
//
//     min  1/2 x'Gx - c'x   over all x with at most k nonzero features.
//
// The matrix [G, c; c', s] is kept swept by the features of a set S. It then has at hand
//
//     -K = -(G_SS)^-1,    x_S = K c_S,    B' = K G_S.,    G_jj - G_jS K G_Sj,    c_j - G_jS x_S,    s - c_S'x_S,
//
// so that the cost of removing a feature, the gain of adding one and the gain of a swap are a few multiplications each.
// To add or remove a feature is one update of the whole matrix.
//
// Sweeps lose digits with the condition number of G, and nothing here measures that: the caller does, and fits the sets
// that it is given again.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "algorithms/interrupt.hpp"

namespace levelprox {

class GramSearch {
public:
    // G in rows, with a diagonal of about 1; `kept` features are in every set and do not count. The arrays are the
    // caller's.
    GramSearch(std::int64_t d, const double *gram, const double *pull, double square, const std::uint8_t *kept);

    std::int64_t size() const { return d_; }

    // The features of the best set found of at most k of those that count, ascending, kept ones included. A function of
    // the parabola and k alone: starts that do not depend on k are kept for the next call. Where a set to begin with is
    // given, swaps start from it only. A brief search leaves a set only by removing or adding one feature.
    std::vector<std::int64_t> best(std::int64_t k, const std::vector<std::int64_t> *begin, bool brief, Poll &poll);

private:
    struct Swept {
        std::vector<double> matrix, diagonal;  // of order d + 1; the diagonal of features outside
        std::vector<std::uint8_t> inside;
        std::int64_t count = 0;  // of features inside that count
    };

    double loss(const Swept &at) const { return at.matrix[std::size_t(d_) * order_ + d_]; }
    double least_gain(const Swept &at) const;
    void sweep(Swept &at, std::int64_t j) const;
    Swept over(const std::vector<std::int64_t> &features) const;
    std::int64_t best_addition(const Swept &at, std::int64_t without) const;
    std::int64_t least_costly(const Swept &at) const;
    double cost(const Swept &at, std::int64_t i) const;
    std::pair<std::int64_t, std::int64_t> best_exchange(const Swept &at, double most, const std::uint8_t *held) const;
    bool exchange(Swept &at, const std::uint8_t *held) const;
    bool wander(Swept &at, Poll &poll) const;
    void improve(Swept &at, Poll &poll, const std::uint8_t *held = nullptr) const;
    bool escape(Swept &at, bool brief, Poll &poll) const;
    void grow(Swept &at, std::int64_t k, std::int64_t without) const;
    void shrink(Swept &at, std::int64_t k) const;
    void take_forward(std::int64_t count);
    void take_backward(Poll &poll);
    std::vector<std::int64_t> counted(const Swept &at) const;

    std::int64_t d_;
    std::size_t order_;
    const double *gram_, *pull_;
    double square_;
    const std::uint8_t *kept_;
    Swept empty_, ahead_;                           // the kept features; and with all those of `forward_`
    std::vector<std::int64_t> forward_, backward_;  // in the order in which features are taken in; left out
    bool ended_ = false;                            // whether no further feature gains
};

}  // namespace levelprox
