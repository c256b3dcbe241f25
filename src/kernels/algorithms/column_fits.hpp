// psi minimised over a few columns of A, without a constraint: Newton's method on margins, many times over.
//
//     z = o + sum_j x_j A_j,      psi = sum_i s_i l(z_i, b_i) / sum_i s_i
//
// One pass over the columns gives psi, gradient and Hessian. Dense columns are read in blocks of rows; of sparse ones,
// as of words in texts, only what is stored.
//
// Samples that are equal in all that a fit depends on are one row with the sum of their weights, where that leaves far
// fewer rows (equal_samples.hpp).
//
// With a ridge, sum_j r_j x_j^2 is added to psi: each column gets a row of its own below the samples, whose loss is the
// square of its margin x_j with the weight r_j. All that follows holds for these rows as for samples.
//
// A fit of a convex loss comes with a bound on what is left to gain. With the Newton step c, v = l'(z) + l''(z) Ac is
// orthogonal to all columns, hence feasible in the dual problem, and psi(x) minus the dual value is the weighted mean
// of the Fenchel-Young gaps l(z) + l*(v) - vz, which each loss gives in closed form.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "algorithms/equal_samples.hpp"
#include "algorithms/interrupt.hpp"
#include "algorithms/loss.hpp"
#include "algorithms/orthonormal.hpp"

namespace levelprox {

constexpr std::int64_t MANY_ROWS = 1 << 15;  // of which a pass takes long
constexpr std::int64_t FAR_ROWS = 1 << 13;   // of a bounded loss: psi is nearly that of infinitely many

enum class FitEnd { fitted, not_below, failed };

struct ColumnFit {
    FitEnd end = FitEnd::failed;
    std::vector<double> x, margins, hessian;  // the Hessian over all columns, row after row
    double psi = 0;
    double gap = 0;         // psi is at most so much above the minimum; infinite where that is not known
    double resolution = 0;  // by how much the rounding of margins may change psi
};

// sum_m rho^m / ((m + 1)(m + 2)) = (rho + (1 - rho) ln(1 - rho)) / rho^2, rounded up; infinite for rho > 1. Where
// |l'''| <= l'' and a Newton step changes margins by at most rho, the gap is at most g' H^-1 g times this.
double self_concordant_factor(double rho);

class ColumnFits {
public:
    // Null weights are all 1, null offsets all 0; the arrays are the caller's, and must outlive this.
    // `concordance` is sup |l'''|/l'': 0 where the curvature does not change, infinite where nothing is known.
    // `curvature_bound` is sup |l''|, perhaps infinite.
    // Where a loss is not `convex` and its infimum is not `attained`, psi is nearly flat far from 0, and still above
    // its infimum. Where it is attained, |l''| replaces l'' only if the Hessian is not positive definite.
    ColumnFits(std::int64_t n, LossKind loss, double parameter, double width, double concordance,
               double curvature_bound, const double *target, const double *weight, const double *offset, bool convex,
               bool attained);

    std::int64_t rows() const { return n_; }
    bool is_logistic() const { return conjugate_ == Conjugate::logistic; }
    double target(std::int64_t i) const { return target_[i]; }
    double share(std::int64_t i) const { return (weight_ ? weight_[i] : 1.0) / total_; }

    // Of a convex loss: a fit also ends, `not_below`, where psi would stay at `below` or above if it fell by so many
    // times what Newton's step predicts. This shows nothing; infinite: fits end only where that is shown.
    double largest_fall = std::numeric_limits<double>::infinity();

    // Groups of samples with the same target, offset and columns; null where these are too many.
    std::unique_ptr<const EqualSamples> equal_samples(const Columns &columns) const;

    // Returns body(fits, columns): over one row for each group where these are few when a column separates them
    // further, else over all rows.
    template <class Body>
    auto over_fewer_rows(const EqualSamples *groups, const Column &further, const Columns &columns, Body body) const {
        if (groups) {
            EqualSamples finer = *groups;
            finer.separate({further});
            if (finer.are_few()) {
                const DistinctSamples rows(finer, columns, target_, weight_, offset_);
                return body(ColumnFits(*this, rows), rows.columns);
            }
        }
        return body(*this, columns);
    }

    // From x, or from 0 where that is better, until what is left to gain is at most accuracy |psi|, or rounding. Ends
    // early, `not_below`, where psi is shown to stay at `below` or above. Losses that are not convex: until |gradient|
    // <= tolerance, with no bound on what is left to gain. `noise` is what rounding a coefficient of 1 does to the
    // margins, one number for each column, or none: nearly dependent columns whose large coefficients would lose more
    // by it than they gain are left out. `ridge` is r, one number for each column, or none; the margins of the fit then
    // end with x.
    ColumnFit fit(const Columns &columns, std::vector<double> x, double tolerance, double accuracy, double below,
                  const std::vector<double> &noise, const std::vector<double> &ridge, Poll &poll) const;

    // The least psi along each column by itself, from given margins of the samples; infinite where the search for it
    // fails.
    std::vector<double> least_along(const Columns &columns, const double *margins, const std::vector<double> &ridge,
                                    Poll &poll) const;

private:
    // How the conjugate of the loss is computed, for bounds on what is left to gain.
    enum class Conjugate { none, squared, rising_exponential, falling_exponential, logistic, huber, squared_hinge };
    class ConvexMinimiser;  // column_fits_convex.cpp

    struct Derivatives {
        double psi = 0, size = 0;               // the mean of losses, and of their sizes
        std::vector<double> gradient, hessian;  // the lower triangle
        std::vector<double> slope, bend;        // of each sample, as they enter the mean
    };

    struct Move {
        std::vector<double> step, along;                       // in coefficients, and in margins
        double psi = std::numeric_limits<double>::infinity();  // after it
    };

    struct SampleGap {
        double gap;   // of a sample of weight 1
        bool inside;  // the domain of the conjugate
        double end;   // of the domain, where it is not
    };

    // Columns with the rows of a ridge below the samples, and what belongs to these rows.
    struct Extended {
        Extended(const ColumnFits &fits, const Columns &columns, const std::vector<double> &ridge,
                 const double *offset);
        Columns columns;
        std::vector<double> target, weight, offset;

    private:
        std::vector<std::vector<double>> values_;
        std::vector<std::vector<std::int64_t>> rows_;
    };

    static Conjugate conjugate_of(LossKind loss);
    ColumnFits(const ColumnFits &other, const double *offset) : ColumnFits(other) { offset_ = offset; }
    ColumnFits(const ColumnFits &other, const Extended &extended);
    ColumnFits(const ColumnFits &other, const DistinctSamples &rows);
    struct SomeRows;
    ColumnFits(const ColumnFits &other, const SomeRows &rows);
    ColumnFit fit_all_rows(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                           double below, const std::vector<double> &noise, const std::vector<double> &ridge,
                           Poll &poll) const;
    ColumnFit fit_without_ridge(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                                double below, const std::vector<double> &noise, Poll &poll) const;
    void evaluate(std::int64_t begin, std::int64_t rows, const double *margins, double *value, double *slope,
                  double *bend) const;
    ColumnFits(const ColumnFits &) = default;
    ColumnFit descend(const Columns &columns, std::vector<double> x, double tolerance, double below, double reach,
                      Poll &poll) const;
    ColumnFit descend_far(const Columns &columns, std::vector<double> x, double tolerance, double accuracy,
                          double below, Poll &poll) const;
    std::vector<double> least_along_far(const Columns &columns, const double *margins, Poll &poll) const;
    std::vector<std::int64_t> rows_with_slope(const Derivatives &at) const;
    ColumnFit minimise(const Columns &columns, std::vector<double> x, const std::vector<double> *errors,
                       double tolerance, double accuracy, double below, Poll &poll) const;
    ColumnFit minimise_in_basis(const Columns &columns, const std::vector<double> &x, double accuracy, double below,
                                const std::vector<double> &noise, Poll &poll) const;
    bool is_reached(const Columns &columns, const ColumnFit &found, Poll &poll) const;
    double value_with_noise(const std::vector<double> &margins, const std::vector<double> &x,
                            const std::vector<double> &noise, Poll &poll) const;
    std::vector<double> combined(const Columns &columns, const std::vector<double> &x) const;
    std::vector<double> origin() const;
    Derivatives differentiate(const Columns &columns, const double *margins, Poll &poll) const;
    Derivatives differentiate(const Columns &columns, const double *margins, bool convex, Poll &poll) const;
    double value(const double *margins, Poll &poll) const;
    void weigh(std::int64_t begin, std::int64_t rows, bool convex, double *value, double *slope, double *bend) const;
    double sample_derivatives(const double *margins, bool convex, double *slope, double *bend, double &size,
                              Poll &poll) const;
    std::vector<std::int64_t> counting_rows(const Derivatives &seen) const;
    void add_dense(const Columns &columns, Derivatives &seen, Poll &poll) const;
    void add_sparse(const Columns &columns, Derivatives &seen, Poll &poll) const;
    double change_along(const std::vector<double> &along) const;
    bool stays_above(const Columns &columns, const Derivatives &at, double below) const;
    double gap(const Derivatives &at, const std::vector<double> &margins, const std::vector<double> &along) const;
    double gap_at_ends(const Columns &columns, const Derivatives &at, const std::vector<double> &margins,
                       std::vector<double> along, double least, double spare, Poll &poll) const;
    double orthogonality_error(const Columns &columns, const Derivatives &at, const std::vector<double> &along,
                               const std::vector<double> &step) const;
    SampleGap sample_gap(std::int64_t i, double slope, double bend, double margin, double move) const;
    double resolution(const Derivatives &at, const std::vector<double> &margins) const;
    std::vector<double> secant_curvature(const Derivatives &at, const std::vector<double> &margins) const;
    Move best_move(const Columns &columns, const Derivatives &at, const std::vector<double> &margins,
                   const std::vector<double> &x, std::vector<std::vector<double>> directions, double least,
                   Poll &poll) const;
    double spurious_decrease(const Derivatives &at, const std::vector<double> &step,
                             const std::vector<double> &errors) const;
    std::vector<double> reference_curvature(const Columns &columns, const Derivatives &at) const;
    bool is_noise(const Derivatives &at, const Column &column, double gradient, double error) const;

    std::int64_t n_, samples_;  // rows, and those of them that are no ridge's
    std::shared_ptr<const Loss> loss_;
    Conjugate conjugate_;
    double parameter_, curvature_bound_, concordance_, total_;
    const double *target_, *weight_, *offset_;
    bool infimum_at_infinity_, is_far_, nonconvex_attained_;
    std::shared_ptr<const EqualSamples> equal_samples_;
};

}  // namespace levelprox
