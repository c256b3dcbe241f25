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

constexpr double DEPENDENT = 1e-10;  // of a diagonal of 1: the rest of a feature that others almost span
constexpr std::size_t STAGES = 40;   // of a path
constexpr int SWEEPS = 10;           // of a stage: additions of features, and of coordinate descent
constexpr double SHAPES[] = {std::numeric_limits<double>::infinity(), 3.0};  // of penalties: the absolute value, MCP
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

void GramSearch::begin(ThresholdPath &path) const {
    path.x.assign(std::size_t(d_), 0.0);
    path.scale.assign(std::size_t(d_), 0.0);
    path.left = empty_.last;
    path.rows.resize(std::size_t(d_));
    for (std::int64_t j = 0; j < d_; ++j) {
        if (empty_.inside[j] || !(empty_.diagonal[j] > DEPENDENT)) continue;
        path.scale[j] = std::sqrt(empty_.diagonal[j]);
        path.lambda = std::max(path.lambda, std::abs(path.left[j]) / path.scale[j]);
    }
}

// Coordinate descent over the active features, whose gradients alone are kept up to date until its end.
void GramSearch::descend(ThresholdPath &path, double shape) {
    const Features &active = path.active;
    std::vector<double> &x = path.x, &left = path.left, from(active.size());
    const auto target = [&](std::int64_t j) {
        const double v = empty_.diagonal[j];
        return thresholded(left[j] + v * x[j], v, path.lambda * path.scale[j], shape);
    };
    for (std::size_t a = 0; a < active.size(); ++a) from[a] = x[active[a]];
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        double most = 0.0;
        for (const std::int64_t j : active) {
            const double change = target(j) - x[j];
            if (change == 0.0) continue;
            x[j] += change;
            for (const std::int64_t l : active) left[l] -= change * path.rows[j][l];
            most = std::max(most, std::abs(change) * path.scale[j]);
        }
        if (most <= STAGE_TOLERANCE * path.lambda) break;
    }
    std::vector<double> here(active.size());
    for (std::size_t a = 0; a < active.size(); ++a) here[a] = left[active[a]];
    for (std::size_t a = 0; a < active.size(); ++a) {
        const double change = x[active[a]] - from[a];
        if (change != 0.0) simd().f64.dense.add(d_, -change, path.rows[active[a]].data(), left.data());
    }
    for (std::size_t a = 0; a < active.size(); ++a) left[active[a]] = here[a];
}

// The fit for the next lambda.
void GramSearch::take_stage(ThresholdPath &path, double shape, Poll &poll) {
    path.lambda *= STAGE_FACTOR;
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        poll.check();
        const std::size_t known = path.active.size();
        std::vector<std::pair<double, std::int64_t>> steep;
        for (std::int64_t j = 0; j < d_; ++j)
            if (path.scale[j] > 0 && path.rows[j].empty() && std::abs(path.left[j]) > path.lambda * path.scale[j])
                steep.emplace_back(-std::abs(path.left[j]) / path.scale[j], j);
        const auto some = std::ptrdiff_t(std::min<std::size_t>(steep.size(), TOGETHER));
        std::partial_sort(steep.begin(), steep.begin() + some, steep.end());
        for (std::ptrdiff_t i = 0; i < some; ++i) {
            const std::int64_t j = steep[std::size_t(i)].second;
            path.rows[j].resize(order_);
            left_of_row(empty_, j, path.rows[j].data());
            path.active.push_back(j);
        }
        if (sweep > 0 && path.active.size() == known) break;
        descend(path, shape);
    }
    std::vector<std::pair<double, std::int64_t>> sizes;
    for (const std::int64_t j : path.active)
        if (path.x[j] != 0.0) sizes.emplace_back(-std::abs(path.x[j]) * path.scale[j], j);
    std::sort(sizes.begin(), sizes.end());
    Features ordered;
    for (const auto &size : sizes) ordered.push_back(size.second);
    path.stages.push_back({std::move(ordered), path.active.size()});
}

// The best of the sets of the k largest coefficients along the path. The path does not depend on k, and is kept for the
// next one, unless rows are computed elsewhere, where they take much memory.
GramSearch::Features GramSearch::by_thresholds(std::int64_t k, std::size_t shape, Poll &poll) {
    ThresholdPath path = std::move(paths_[shape]);  // a search that is interrupted leaves no part of it
    paths_[shape] = {};
    if (path.x.empty()) begin(path);
    Features before, best;
    std::size_t known = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t stage = 0; stage < STAGES; ++stage) {
        if (stage == path.stages.size()) take_stage(path, SHAPES[shape], poll);
        const auto &[by_size, active] = path.stages[stage];
        for (; known < active; ++known) used_[std::size_t(path.active[known])] = 1;
        if (std::int64_t(by_size.size()) < k) continue;
        Features set(by_size.begin(), by_size.begin() + k);
        std::sort(set.begin(), set.end());
        const double reached = set == before ? least : loss_over(set, path.rows);
        if (reached < least) {
            least = reached;
            best = set;
        }
        before = std::move(set);
        if (std::int64_t(by_size.size()) >= SURPLUS * k) break;
    }
    if (gram_.keeps()) paths_[shape] = std::move(path);
    return best;
}

}  // namespace levelprox
