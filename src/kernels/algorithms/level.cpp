#include "algorithms/level.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/norm.hpp"

namespace levelprox {
namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double INF = std::numeric_limits<double>::infinity();
// phi, its sum and tau are rounded; the surrogate set is this many units in the last place inside the level.
constexpr double MARGIN = 16 * EPS;
constexpr double CLEARLY = 1e-6;       // relative: inside the level, and stationary
constexpr double ROUNDING = 64 * EPS;  // of g, relative to the level: less slack is none

// Sizes of the features that are not zero, and their slopes.
struct Support {
    std::vector<std::int64_t> features;
    std::vector<double> sizes, slopes;

    Support(const LevelSet &set, const double *x) {
        for (std::int64_t j = 0; j < set.n_features; ++j) {
            const double size = set.size(x, j);
            if (size == 0) continue;
            features.push_back(j);
            sizes.push_back(size);
        }
        slopes.resize(sizes.size());
        set.penalty->slope(std::int64_t(sizes.size()), sizes.data(), slopes.data());
    }
};

// tau of the set that touches g at x with these prices of |x_j| on the support, rounded inwards.
double radius(const LevelSet &set, const double *x, const Support &support, const std::vector<double> &price) {
    double inner = 0;
    for (std::size_t k = 0; k < price.size(); ++k)
        inner += set.weight(support.features[k]) * (price[k] * support.sizes[k]);
    const double lam = set.penalty->lam;
    return std::max(0.0, (set.level - set.g(x)) / lam + inner - MARGIN * (set.level / lam + inner));
}

}  // namespace

double LevelSet::size(const double *x, std::int64_t j) const {
    return width == 1 ? std::fabs(x[j]) : norm_above(width, x + j * width);
}

double LevelSet::g(const double *x) const {
    if (width == 1) return penalty->total(n_features, x, weights);
    std::vector<double> sizes(static_cast<std::size_t>(n_features));
    for (std::int64_t j = 0; j < n_features; ++j) sizes[std::size_t(j)] = size(x, j);
    return penalty->total(n_features, sizes.data(), weights);
}

bool LevelSet::is_feasible(const double *x) const {
    if (!(g(x) <= level)) return false;
    if (!all_nonnegative && !nonnegative) return true;
    for (std::int64_t i = 0; i < dimension(); ++i)
        if (x[i] < 0 && is_nonnegative(i)) return false;
    return true;
}

bool LevelSet::is_vacuous() const {
    double total = double(n_features);
    if (weights) {
        total = 0;
        for (std::int64_t j = 0; j < n_features; ++j) total += weights[j];
    }
    return total * penalty->cap <= level;
}

Ball<double> SurrogateSet::ball(const LevelSet &set) const {
    Ball<double> ball;
    ball.d = set.dimension();
    ball.width = set.width;
    ball.omega = prices.empty() ? nullptr : prices.data();
    ball.u = u.empty() ? nullptr : u.data();
    ball.nonnegative = set.nonnegative;
    ball.all_nonnegative = set.all_nonnegative;
    ball.tau = tau;
    return ball;
}

SurrogateSet majorise(const LevelSet &set, const double *x) {
    const Support support(set, x);
    const double lam = set.penalty->lam;
    SurrogateSet near;
    near.prices.assign(std::size_t(set.n_features), 1.0);
    if (set.weights) std::copy_n(set.weights, set.n_features, near.prices.begin());
    std::vector<double> price(support.sizes.size());
    for (std::size_t k = 0; k < price.size(); ++k) {
        price[k] = support.slopes[k] > 0 ? std::max(support.slopes[k] / lam, SMALLEST_PRICE) : 0.0;
        near.prices[std::size_t(support.features[k])] *= price[k];
    }
    for (double &value : near.prices)  // of omega < 1: a larger price is a smaller set
        if (value > 0 && value < SMALLEST_PRICE) value = SMALLEST_PRICE;
    near.tau = radius(set, x, support, price);
    return near;
}

KktLines::KktLines(const LevelSet &set, const FeatureUnits &units, const double *x, const double *gradient)
    : set_(set) {
    Support nonzero(set, x);
    const auto width = std::size_t(set.width);
    const double *at_intercept = units.mean && units.intercept >= 0 ? gradient + units.intercept * set.width : nullptr;
    // The gradient along coordinate k of feature j, after the intercept has taken up the mean of the column.
    const auto measured = [&](std::int64_t j, std::size_t k) {
        double value = gradient[std::size_t(j) * width + k];
        if (at_intercept) value = value - units.mean[j] * at_intercept[k];
        return units.size ? value / units.size[j] : value;
    };

    for (std::size_t k = 0; k < nonzero.features.size(); ++k) {
        const std::int64_t j = nonzero.features[k];
        const double slope = set.weight(j) * nonzero.slopes[k] / (units.size ? units.size[j] : 1.0);
        for (std::size_t c = 0; c < width; ++c) {
            const double value = x[std::size_t(j) * width + c];
            support_offset.push_back(measured(j, c));
            support_slope.push_back(width == 1 ? (value < 0 ? -slope : slope) : slope * (value / nonzero.sizes[k]));
        }
    }

    zero_offset.resize(std::size_t(set.n_features));
    std::vector<double> row(width);
    std::size_t next = 0;
    for (std::int64_t j = 0; j < set.n_features; ++j) {
        if (next < nonzero.features.size() && nonzero.features[next] == j) {
            zero_offset[std::size_t(j)] = -INF;
            ++next;
            continue;
        }
        for (std::size_t c = 0; c < width; ++c) row[c] = measured(j, c);
        double &offset = zero_offset[std::size_t(j)];
        if (width > 1) offset = norm_above(set.width, row.data());
        else offset = set.is_nonnegative(j) ? -row[0] : std::fabs(row[0]);
    }

    const double lam = set.penalty->lam;
    const bool differs = set.weights || units.size;
    zero_slope.assign(differs ? std::size_t(set.n_features) : 1, -lam);
    if (differs)
        for (std::int64_t j = 0; j < set.n_features; ++j)
            zero_slope[std::size_t(j)] = -lam * set.weight(j) / (units.size ? units.size[j] : 1.0);
    support = std::move(nonzero.features);
    t = std::move(nonzero.sizes);
}

Residual KktLines::residual() const {
    return Residual({std::int64_t(support_offset.size()), std::int64_t(zero_offset.size()), support_offset.data(),
                     support_slope.data(), zero_offset.data(), zero_slope.data(), zero_slope.size() == 1});
}

Best KktLines::best(double g, double curvature) const {
    // What each feature can cost more than it does: omega_j (cap - phi(|x_j|)).
    const auto width = std::size_t(set_.width);
    std::vector<double> support_room(support_offset.size(), INF), zero_room(1, INF);
    if (std::isfinite(set_.penalty->cap)) {
        std::vector<double> cost(t.size());
        set_.penalty->phi(std::int64_t(t.size()), t.data(), cost.data());
        for (std::size_t k = 0; k < t.size(); ++k)
            std::fill_n(support_room.begin() + std::ptrdiff_t(k * width), width,
                        set_.weight(support[k]) * std::max(set_.penalty->cap - cost[k], 0.0));
        zero_room[0] = set_.penalty->cap;
        if (set_.weights) {
            zero_room.resize(std::size_t(set_.n_features));
            for (std::size_t j = 0; j < zero_room.size(); ++j) zero_room[j] = set_.penalty->cap * set_.weights[j];
        }
    }
    const double slack = std::max(set_.level - g - ROUNDING * set_.level, 0.0);
    return residual().best(
        {slack, set_.level, curvature, support_room.data(), zero_room.data(), zero_room.size() == 1});
}

Best KktLines::best_or_free(double g, double scale, double curvature) const {
    if (set_.level - g > CLEARLY * set_.level) {
        const double free = largest(0);
        if (free <= CLEARLY * scale) return {0, free, 0};
    }
    return best(g, curvature);
}

std::vector<std::int64_t> free_places(const LevelSet &set, const double *x) {
    std::vector<std::int64_t> places;
    for (std::int64_t j = 0; j < set.n_features; ++j)
        if (set.size(x, j) != 0 || (set.weights && set.weights[j] == 0))
            for (std::int64_t k = j * set.width; k < (j + 1) * set.width; ++k) places.push_back(k);
    return places;
}

}  // namespace levelprox
