// The best k features of a parabola, by its Gram matrix alone:
//
//     min  1/2 x'Gx - c'x   over all x with at most k nonzero features.
//
// Of the matrix [G, c; c', s], swept by the features of a set S, the rows of S, the last row and the diagonal are kept:
//
//     -K = -(G_SS)^-1,    x_S = K c_S,    B' = K G_S.,    G_jj - G_jS K G_Sj,    c_j - G_jS x_S,    s - c_S'x_S,
//
// so that the cost of removing a feature, the gain of adding one and the gain of a swap are a few multiplications each.
// To add or remove a feature changes each of these rows once; to add one takes its row of G, which may be computed
// then.
//
// Sweeps lose digits with the condition number of G, and nothing here measures that: the caller does, and fits the sets
// that it is given again.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "algorithms/gram_rows.hpp"
#include "algorithms/interrupt.hpp"

namespace levelprox {

class GramSearch {
public:
    using Allowed = std::function<bool()>;  // whether one more swap may be taken; none: any number

    // G has a diagonal of about 1; `kept` features are in every set and do not count. The arrays are the caller's.
    GramSearch(std::int64_t d, GramRows rows, const double *diagonal, const double *pull, double square,
               const std::uint8_t *kept);

    std::int64_t size() const { return d_; }

    // The features of the best set found of at most k of those that count, ascending, kept ones included. A function of
    // the parabola and k alone: starts that do not depend on k are kept for the next call. Where a set to begin with is
    // given, swaps start from it only. A brief search leaves a set only by removing or adding one feature. Where rows
    // are computed, the work of leaving sets is bounded. `allowed` is called before each swap of a start, and before
    // each step from one set to a better one.
    std::vector<std::int64_t> best(std::int64_t k, const std::vector<std::int64_t> *begin, bool brief, Poll &poll,
                                   const Allowed &allowed = {});

    // Up to `count` features that count, in the order in which they gain most.
    std::vector<std::int64_t> forward(std::int64_t count, Poll &poll);

    std::int64_t n_rows() const;  // that the last search used

private:
    struct Swept {
        std::vector<std::int64_t> features;  // of S, in the order of `rows`
        std::vector<double> rows;            // of S, of length d + 1 each
        std::vector<double> last, diagonal;  // of length d + 1
        std::vector<std::uint8_t> inside;
        std::int64_t count = 0;  // of features inside that count
    };
    using Features = std::vector<std::int64_t>;

    // Penalised fits for decreasing lambda (gram_search_thresholds.cpp).
    struct ThresholdPath {
        struct Stage {
            Features by_size;    // those that are not 0, the largest first
            std::size_t active;  // how many have become active
        };
        std::vector<double> x, left, scale;  // coefficients, gradients, and the lengths of columns
        std::vector<std::vector<double>> rows;
        Features active;
        double lambda = 0.0;
        std::vector<Stage> stages;
    };

    double loss(const Swept &at) const { return at.last[std::size_t(d_)]; }
    double least_gain(const Swept &at) const;
    const double *gram_row(std::int64_t j);
    void left_of_row(const Swept &at, std::int64_t j, double *row);
    bool add(Swept &at, std::int64_t j);
    void remove(Swept &at, std::int64_t j);
    void sweep(Swept &at, std::int64_t j) { at.inside[j] ? remove(at, j) : void(add(at, j)); }
    void eliminate(Swept &at, const double *row, std::int64_t j, double pivot);
    Swept over(const Features &features, Poll &poll);
    std::int64_t best_addition(const Swept &at, std::int64_t without) const;
    std::int64_t least_costly(const Swept &at, std::int64_t without = -1) const;
    double cost(const Swept &at, std::int64_t i) const;
    std::pair<std::int64_t, std::int64_t> best_swap(const Swept &at, double most, const std::uint8_t *held);
    bool swap(Swept &at, const std::uint8_t *held, const Allowed &allowed);
    bool wander(Swept &at, Poll &poll);
    void improve(Swept &at, Poll &poll, const std::uint8_t *held = nullptr, const Allowed &allowed = {});
    bool escape(Swept &at, bool brief, Poll &poll);
    void grow(Swept &at, std::int64_t k, std::int64_t without, Poll &poll);
    void shrink(Swept &at, std::int64_t k, Poll &poll);
    void take_forward(std::int64_t count, Poll &poll);
    void take_backward(Poll &poll);
    void begin(ThresholdPath &path) const;
    void descend(ThresholdPath &path, double shape);
    void take_stage(ThresholdPath &path, double shape, Poll &poll);
    Features by_thresholds(std::int64_t k, std::size_t shape, Poll &poll);
    double loss_over(const Features &features, const std::vector<std::vector<double>> &rows) const;
    bool may_continue() const { return gram_.complete() || work_ < most_work_; }
    Features counted(const Swept &at) const;

    std::int64_t d_;
    std::size_t order_;
    GramRows gram_;
    const double *pull_;
    double square_;
    const std::uint8_t *kept_;
    Swept empty_, ahead_;                  // the kept features; and with all those of `forward_`
    Features forward_, backward_;          // in the order in which features are taken in; left out
    std::array<ThresholdPath, 2> paths_;   // of each penalty
    bool ended_ = false;                   // whether no further feature gains
    double work_ = 0.0, most_work_ = 0.0;  // of the search that runs: multiplications
    std::vector<std::uint8_t> used_;       // the rows that it has used
};

}  // namespace levelprox
