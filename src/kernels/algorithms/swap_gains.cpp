#include "algorithms/swap_gains.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/column_fits.hpp"
#include "algorithms/passes.hpp"

namespace levelprox {
namespace {

constexpr double FRACTIONS[] = {1.0, 0.75, 0.5, 0.25, 0.1};  // of the best step: shorter ones change margins less
constexpr double BEYOND = 1 + 1e-9;                          // from here on there is no bound

// The largest change of a margin by e times row `leaving` of K, and by the newcomer with what its coming moves.
double change(const SwapGains &swap, const double *B, double e, double moved) {
    constexpr int LANES = 4;
    double sum[LANES] = {};
    std::int64_t s = 0;
    for (; s + LANES <= swap.size; s += LANES)
        for (int k = 0; k < LANES; ++k)
            sum[k] += std::abs(e * swap.across[s + k] + moved * B[s + k]) * swap.inside[s + k];
    for (; s < swap.size; ++s) sum[0] += std::abs(e * swap.across[s] + moved * B[s]) * swap.inside[s];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// By how much more may be gained because the fit itself is not exact.
double inexact(const SwapGains &swap, double size) {
    const double gained = std::isfinite(size) ? std::max(size, 0.0) : 0.0;
    return swap.gap + 2 * std::sqrt(swap.gap) * std::sqrt(gained + std::abs(swap.psi));
}

double bound_of(const SwapGains &swap, std::int64_t j) {
    const double *B = swap.B + j * swap.size;
    const double s = swap.left[j], g = swap.gradient[j], here = B[swap.leaving], stiff = swap.across[swap.leaving];
    const double own = stiff + here * here / s, across = -here / s;  // of the inverse of H over the fit and j
    const double best = (g * across - swap.x) / own;
    double bound = std::numeric_limits<double>::infinity();
    for (const double fraction : FRACTIONS) {
        const double e = fraction * best, moved = (e * here + g) / s, reach = std::abs(moved) * swap.magnitude[j];
        const double least = std::max(reach, std::abs(e * stiff + moved * here) * swap.inside[swap.leaving]);
        if (!(swap.concordance * least <= BEYOND)) continue;
        const double rho = swap.concordance * (change(swap, B, e, moved) + reach);
        if (rho > 1) continue;
        const double growth = e * e * own - 2 * e * g * across + g * g / s;
        const double gain = swap.x * e + growth * self_concordant_factor(rho);
        const double size = std::abs(swap.x * e) + growth + std::abs(swap.psi);
        const double most = gain + swap.error[j] * size + inexact(swap, size);
        if (std::isnan(most)) return std::numeric_limits<double>::infinity();
        bound = std::min(bound, most);
        if (swap.concordance == 0) break;  // every length has the same curvature, and the first is the best
    }
    return bound;
}

}  // namespace

void bound_gains(const SwapGains &swap, std::int64_t count, const std::int64_t *newcomers, double *bound, Poll &poll) {
    constexpr std::int64_t STEP = 4096, AT_ONCE = 64 * STEP, WORK = 8;  // for each number of B
    for (std::int64_t first = 0; first < count; first += AT_ONCE) {
        const std::int64_t here = std::min(AT_ONCE, count - first);
        for_ranges(here, STEP, WORK * here * (swap.size + 1), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = first + begin; k < first + end; ++k) bound[k] = bound_of(swap, newcomers[k]);
        });
        poll.check();
    }
}

}  // namespace levelprox
