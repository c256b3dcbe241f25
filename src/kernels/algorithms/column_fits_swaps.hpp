// Which swaps of a feature of a fit S for a newcomer j cannot lower psi, by refits.
//
// Each feature i is left out first: where the fit of S without i is above psi(S) by more than a newcomer j gains there
// (column_fits_additions.hpp), that swap is shown. Else j is added to S. By the fit of S and j, leaving i out costs at
// least x_i^2 / K_ii (t - kappa(t rho) t^2) for any t, with the inverse K of its Hessian and rho = M |x_i| sum_l |K_il|
// max |A_l| / K_ii where |l'''| <= M l''. Where that does not show that the swap stays above psi(S), it is refitted.
#pragma once
#include <cstdint>
#include <vector>

#include "algorithms/column_fits.hpp"
#include "algorithms/column_fits_additions.hpp"

namespace levelprox {

// Columns of features with, for each, by how much a coefficient of 1 changes a margin at most, and its ridge; or no
// ridges.
struct SwapColumns {
    Columns columns;
    std::vector<double> magnitude, ridge;
};

struct SwapSettings {
    double psi, resolution;  // of the fit of S, and of its rounding
    double threshold;        // by how much psi must fall to be lower
    double tolerance, accuracy, concordance;
};

// How an examination ends: all newcomers are examined; one lowers psi; a fit fails; there are no more refits.
enum class SwapEnd { examined, lower, failed, refits };

struct ExaminedSwaps {
    SwapEnd end = SwapEnd::examined;
    std::int64_t newcomer = 0;  // that was examined last
    std::int64_t leaves = -1;   // where psi is lower: the column of S that leaves
    std::int64_t shown = 0;     // swaps that do not lower psi
    std::int64_t n_refits = 0;
};

class SwapExamination {
public:
    // Of the fit of S at x; all that is given must outlive this.
    SwapExamination(const ColumnFits &fits, const SwapColumns &inside, const std::vector<double> &x,
                    const SwapSettings &settings);

    // Examines newcomers one after another, each for some columns of S (`leaving`). Of a newcomer that fails, or lowers
    // psi, no swaps are counted: the caller examines it.
    ExaminedSwaps examine(const SwapColumns &newcomers, const std::vector<std::vector<std::int64_t>> &leaving,
                          std::int64_t most_refits, Poll &poll);

private:
    // The fit without a column of S, where it says anything of newcomers.
    struct LeftOut {
        double above;  // by how much it is above psi(S) at least
        AdditionBounds bounds;
    };
    LeftOut *without(std::int64_t i, Poll &poll);
    std::unique_ptr<LeftOut> left_out(std::int64_t i, Poll &poll) const;
    std::vector<std::int64_t> not_shown(const Column &newcomer, const std::vector<std::int64_t> &leaving, Poll &poll);

    const ColumnFits &fits_;
    const SwapColumns &inside_;
    const std::vector<double> &x_;
    const SwapSettings settings_;
    bool has_bounds_ = false;
    ColumnRows rows_;
    std::vector<std::unique_ptr<LeftOut>> left_out_;
    std::vector<char> tried_;  // which of them
    std::int64_t fits_without_ = 0;
};

struct BestAddition {
    bool failed = false;         // a fit failed: that of `tried`
    std::int64_t tried = 0;      // newcomers
    std::int64_t n_refits = 0;   // of those that no bound shows
    std::int64_t shown = 0;      // of those tried, how many are shown not to gain more than the best
    std::int64_t newcomer = -1;  // the best, where there is one that gains more than before
    double gain = 0;
};

// The newcomer that gains most, more than `gain`. Newcomers come in the order of bounds on what they gain; those that
// gain at most as much as another need not be tried. Ends before a refit too many.
BestAddition best_addition(const ColumnFits &fits, const SwapColumns &inside, const std::vector<double> &x,
                           const SwapColumns &newcomers, const std::vector<double> &bounds, double gain,
                           const SwapSettings &settings, std::int64_t most_refits, Poll &poll);

// What leaving out each column of an exact fit costs at least; 0 where its columns nearly depend on each other.
std::vector<double> least_costs(const std::vector<double> &x, const std::vector<double> &hessian,
                                const std::vector<double> &magnitude, double concordance);

}  // namespace levelprox
