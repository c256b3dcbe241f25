// One refit of a loss with kinks in given coordinates (kinked_fits.hpp): descents over samples, the vertex, its error.
#pragma once
#include <vector>

#include "algorithms/kinked_fits.hpp"
#include "algorithms/kinked_simplex.hpp"

namespace levelprox {

constexpr double KINKED_ROUNDING_SHARE = 1e-9;  // of psi: rounding beyond which that of coefficients matters

// Rows are the n samples of positive weight, and then the coordinates x_j that are not left out.
class KinkedRefit {
public:
    KinkedRefit(const KinkedSamples &samples, const KinkedColumns &columns, const KinkedCoordinates &at,
                const std::vector<double> &noise, EdgeLimits limits, Poll &poll);

    KinkedFit run(const std::vector<double> &x, const double *slopes) const;

private:
    struct Dual {
        std::vector<std::size_t> basis;
        std::vector<double> u;
    };

    // kinked_refit.cpp: descents
    std::vector<double> coordinates_of(const std::vector<double> &x) const;
    std::vector<double> along(const std::vector<double> &w) const;
    std::vector<double> moved_kinks(double move) const;
    KinkedRows gathered(const std::vector<std::size_t> &rows, const std::vector<double> &kinks) const;
    void set_far(KinkedRows &near, const std::vector<double> &u) const;
    std::vector<double> from_some_samples(std::vector<double> w, std::size_t count) const;
    std::vector<std::size_t> nearest(const std::vector<double> &off, std::size_t count,
                                     const std::vector<std::size_t> &basis) const;
    Dual descended(std::vector<double> w, std::vector<std::size_t> basis, double move, std::size_t count) const;
    double move_for(const std::vector<double> &residuals) const;
    double mean_size(const std::vector<double> &residuals) const;

    // kinked_vertex.cpp: the vertex of a basis
    std::vector<double> residuals(const std::vector<double> &margins) const;
    KinkedFit vertex(const Dual &dual) const;
    std::vector<double> coefficients(const std::vector<std::size_t> &basis, const double *beyond) const;
    void evaluate(KinkedFit &fit) const;
    double rounding(const KinkedFit &fit) const;
    double change(std::size_t i, const std::vector<double> &x) const;
    std::vector<double> imbalance(const std::vector<double> &products, const std::vector<double> &u) const;
    double gap(const KinkedFit &fit, const std::vector<double> &u, const std::vector<double> &left) const;
    std::vector<double> removal(const std::vector<double> &x, const Dual &dual,
                                const std::vector<double> &inverse) const;
    std::vector<double> inverse(const std::vector<std::size_t> &basis) const;

    double row(std::size_t i, std::size_t r) const;
    std::size_t counted(std::size_t i) const { return std::size_t(columns_.counts()[i]); }
    double target(std::size_t i) const { return samples_.target[counted(i)]; }

    const KinkedSamples &samples_;
    const KinkedColumns &columns_;
    const KinkedCoordinates &at_;
    const std::vector<double> &noise_;
    const std::size_t n_, m_, dimension_, most_edges_;
    std::vector<double> low_, high_, kinks_;
    double largest_kink_ = 0;
    Poll &poll_;
};

}  // namespace levelprox
