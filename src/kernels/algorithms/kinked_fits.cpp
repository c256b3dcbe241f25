#include "algorithms/kinked_fits.hpp"

#include <cmath>

#include "algorithms/exact.hpp"
#include "algorithms/kinked_refit.hpp"

namespace levelprox {
namespace {

constexpr double DEPENDENT_SHARE = 0x1p-43;  // of the norm of a column: the least part that is independent of others
constexpr double NEARLY_DEPENDENT_SHARES[] = {0x1p-36, 0x1p-26, 0x1p-16};  // where rounding of coefficients matters
constexpr double NO_LOSS_SHARE = 1e-13;  // of the mean of |b| and |o|: no psi is lower than such a one by more
constexpr double EPSILON = std::numeric_limits<double>::epsilon();

}  // namespace

KinkedSamples::KinkedSamples(std::int64_t count, LossKind kind, double parameter, const double *targets,
                             const double *weights, const double *origins, const double *lows, const double *highs)
    : n(count), loss(make_loss(kind, parameter, 0.0)), target(targets), weight(weights), origin(origins), low(lows),
      high(highs), total(double(count)) {
    if (weight) {
        const HeadTail sum = compensated_sum(n, weight);
        total = sum.head + sum.tail;
    }
    for (std::int64_t i = 0; i < n; ++i) {
        const double share = (weight ? weight[i] : 1.0) / total;
        if (!(share > 0)) continue;
        steepest = std::max({steepest, -low[i], high[i]});
        flattest = std::min({flattest, -low[i], high[i]});
        mean_size += share * (std::abs(target[i]) + std::abs(origin[i]));
    }
}

double KinkedSamples::value(const double *margins) const {
    constexpr std::int64_t BLOCK = 256;
    HeadTail sum{0, 0};
    double values[BLOCK];
    for (std::int64_t begin = 0; begin < n; begin += BLOCK) {
        const std::int64_t rows = std::min(BLOCK, n - begin);
        loss->value(rows, margins + begin, target + begin, values);
        for (std::int64_t i = 0; weight && i < rows; ++i)
            values[i] = weight[begin + i] == 0 ? 0.0 : weight[begin + i] * values[i];
        const HeadTail part = compensated_sum(rows, values);
        add_to(sum, part.head);
        add_to(sum, part.tail);
    }
    return (sum.head + sum.tail) / total;
}

KinkedFit KinkedFits::fit(KinkedColumns &columns, const std::vector<double> &x, const std::vector<double> &noise,
                          EdgeLimits limits, const double *slopes, Poll &poll) const {
    const auto refit = [&](double dependent) {
        std::vector<double> uncentred;
        if (dependent > DEPENDENT_SHARE)
            for (const double one : noise) uncentred.push_back(one / EPSILON);
        const KinkedCoordinates &at = columns.coordinates(dependent, uncentred, poll);
        return KinkedRefit(samples_, columns, at, noise, limits, poll).run(x, slopes);
    };
    const KinkedFit whole = refit(DEPENDENT_SHARE);
    KinkedFit best = whole;
    for (const double dependent : NEARLY_DEPENDENT_SHARES) {
        const bool no_loss = whole.psi + whole.rounding <= NO_LOSS_SHARE * samples_.steepest * samples_.mean_size;
        if (no_loss || !(whole.rounding > KINKED_ROUNDING_SHARE * whole.psi)) break;
        KinkedFit fewer = refit(dependent);
        if (!(fewer.psi + fewer.rounding < best.psi + best.rounding)) continue;
        const double error = std::min(fewer.psi - (whole.psi - whole.error), fewer.psi);  // no psi is below 0
        fewer.error = std::max(error, 0.0) + fewer.rounding;
        fewer.removal = whole.removal;
        best = std::move(fewer);
    }
    return best;
}

}  // namespace levelprox
