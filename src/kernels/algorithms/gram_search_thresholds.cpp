// Sets of features on a path of penalised fits,
//
//     min  1/2 x'Gx - c'x + sum_j p(sqrt(G_jj) |x_j|),    p(t) = lambda t  or MCP of slope lambda,
//
// for decreasing lambda, by coordinate descent: G is that of what the kept features leave.
#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/gram_search.hpp"
#include "simd/simd.hpp"

namespace levelprox {

namespace {

constexpr double DEPENDENT = 1e-10;       // of a diagonal of 1: the rest of a feature that others almost span
constexpr int STAGES = 40, SWEEPS = 10;   // of a path
constexpr std::size_t TOGETHER = 2;       // features that become active between two descents
constexpr double STAGE_FACTOR = 0.8;      // from one lambda to the next
constexpr double STAGE_TOLERANCE = 1e-2;  // of lambda: a change of a coefficient that ends a stage
constexpr std::int64_t SURPLUS = 2;       // times k: features at which a path ends

// The coefficient that minimises 1/2 v x^2 - g x + p(x) for MCP, which is flat from `shape` times lambda on; an
// infinite shape is the absolute value.
double thresholded(double g, double v, double slope, double shape) {
    const double size = std::abs(g) - slope;
    if (size <= 0) return 0.0;
    return std::copysign(std::min(size / (v * (1 - 1 / shape)), std::abs(g) / v), g);
}

}  // namespace

// The loss over some features, by the Cholesky factor of their rows; infinite where they depend on each other.
double GramSearch::loss_over(const Features &features, const std::vector<std::vector<double>> &rows) const {
    const std::size_t m = features.size();
    std::vector<double> factor(m * m), pull(m);
    double value = empty_.last[std::size_t(d_)];
    for (std::size_t i = 0; i < m; ++i) {
        const double *row = rows[std::size_t(features[i])].data();
        pull[i] = empty_.last[std::size_t(features[i])];
        for (std::size_t l = 0; l <= i; ++l) {
            double sum = row[features[l]];
            for (std::size_t h = 0; h < l; ++h) sum -= factor[i * m + h] * factor[l * m + h];
            if (l == i && !(sum > DEPENDENT)) return std::numeric_limits<double>::infinity();
            factor[i * m + l] = l == i ? std::sqrt(sum) : sum / factor[l * m + l];
        }
        for (std::size_t h = 0; h < i; ++h) pull[i] -= factor[i * m + h] * pull[h];
        pull[i] /= factor[i * m + i];
        value -= pull[i] * pull[i];
    }
    return value;
}

// The best of the sets of the k largest coefficients along the path.
GramSearch::Features GramSearch::by_thresholds(std::int64_t k, double shape, Poll &poll) {
    std::vector<double> x(std::size_t(d_), 0.0), left = empty_.last, scale(std::size_t(d_), 0.0);
    std::vector<std::vector<double>> rows(static_cast<std::size_t>(d_));
    Features active, before, best;
    double lambda = 0.0, least = std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < d_; ++j) {
        if (empty_.inside[j] || !(empty_.diagonal[j] > DEPENDENT)) continue;
        scale[j] = std::sqrt(empty_.diagonal[j]);
        lambda = std::max(lambda, std::abs(left[j]) / scale[j]);
    }
    const auto target = [&](std::int64_t j) {
        const double v = empty_.diagonal[j];
        return thresholded(left[j] + v * x[j], v, lambda * scale[j], shape);
    };
    // Coordinate descent over the active features, whose gradients alone are kept up to date until its end.
    const auto descend = [&] {
        std::vector<double> from(active.size());
        for (std::size_t a = 0; a < active.size(); ++a) from[a] = x[active[a]];
        for (int sweep = 0; sweep < SWEEPS; ++sweep) {
            double most = 0.0;
            for (const std::int64_t j : active) {
                const double change = target(j) - x[j];
                if (change == 0.0) continue;
                x[j] += change;
                for (const std::int64_t l : active) left[l] -= change * rows[j][l];
                most = std::max(most, std::abs(change) * scale[j]);
            }
            work_ += double(active.size() * active.size());
            if (most <= STAGE_TOLERANCE * lambda) break;
        }
        std::vector<double> here(active.size());
        for (std::size_t a = 0; a < active.size(); ++a) here[a] = left[active[a]];
        for (std::size_t a = 0; a < active.size(); ++a) {
            const double change = x[active[a]] - from[a];
            if (change != 0.0) simd().f64.dense.add(d_, -change, rows[active[a]].data(), left.data());
        }
        for (std::size_t a = 0; a < active.size(); ++a) left[active[a]] = here[a];
        work_ += double(active.size() * order_);
    };
    for (int stage = 0; stage < STAGES; ++stage) {
        lambda *= STAGE_FACTOR;
        for (int sweep = 0; sweep < SWEEPS; ++sweep) {
            poll.check();
            const std::size_t known = active.size();
            std::vector<std::pair<double, std::int64_t>> steep;
            for (std::int64_t j = 0; j < d_; ++j)
                if (scale[j] > 0 && rows[j].empty() && std::abs(left[j]) > lambda * scale[j])
                    steep.emplace_back(-std::abs(left[j]) / scale[j], j);
            const auto some = std::ptrdiff_t(std::min<std::size_t>(steep.size(), TOGETHER));
            std::partial_sort(steep.begin(), steep.begin() + some, steep.end());
            for (std::ptrdiff_t i = 0; i < some; ++i) {
                const std::int64_t j = steep[std::size_t(i)].second;
                rows[j].resize(order_);
                left_of_row(empty_, j, rows[j].data());
                active.push_back(j);
            }
            if (sweep > 0 && active.size() == known) break;
            descend();
        }
        std::vector<std::pair<double, std::int64_t>> sizes;
        for (const std::int64_t j : active)
            if (x[j] != 0.0) sizes.emplace_back(-std::abs(x[j]) * scale[j], j);
        if (std::int64_t(sizes.size()) < k) continue;
        std::sort(sizes.begin(), sizes.end());
        Features set;
        for (std::int64_t i = 0; i < k; ++i) set.push_back(sizes[std::size_t(i)].second);
        std::sort(set.begin(), set.end());
        const double reached = set == before ? least : loss_over(set, rows);
        if (reached < least) {
            least = reached;
            best = set;
        }
        before = std::move(set);
        if (std::int64_t(sizes.size()) >= SURPLUS * k) break;
    }
    return best;
}

}  // namespace levelprox
