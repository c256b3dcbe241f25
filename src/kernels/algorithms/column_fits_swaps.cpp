#include "algorithms/column_fits_swaps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace levelprox {

namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double ROUNDING = 0x1p-46;                          // of a figure that comes from well-conditioned columns
constexpr double UNRELIABLE = 1e-4;                           // relative error from which on there is no bound
constexpr double SPARE_SHARE = 1e-3;                          // of what leaving a column out costs
constexpr std::int64_t MOST_NUMBERS = std::int64_t(1) << 23;  // in bounds at fits without each column
constexpr std::int64_t NUMBERS_PER_SAMPLE = 5;
constexpr double FRACTIONS[] = {1.0, 0.75, 0.5, 0.25, 0.1};  // of the longest step: shorter ones change margins less

// The inverse of a positive definite matrix, by its Cholesky factor; empty where it is not.
std::vector<double> inverse_of(std::size_t m, std::vector<double> H) {
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k <= j; ++k) {
            double sum = H[j * m + k];
            for (std::size_t l = 0; l < k; ++l) sum -= H[j * m + l] * H[k * m + l];
            if (j == k && !(sum > 0)) return {};
            H[j * m + k] = j == k ? std::sqrt(sum) : sum / H[k * m + k];
        }
    std::vector<double> K(m * m, 0.0), column(m);
    for (std::size_t c = 0; c < m; ++c) {
        for (std::size_t j = c; j < m; ++j) {
            double sum = j == c ? 1.0 : 0.0;
            for (std::size_t l = c; l < j; ++l) sum -= H[j * m + l] * column[l];
            column[j] = sum / H[j * m + j];
        }
        for (std::size_t j = m; j-- > c;) {
            double sum = column[j];
            for (std::size_t l = j + 1; l < m; ++l) sum -= H[l * m + j] * column[l];
            column[j] = sum / H[j * m + j];
            K[j * m + c] = K[c * m + j] = column[j];
        }
    }
    return K;
}

double frobenius(const std::vector<double> &A) {
    double sum = 0;
    for (const double entry : A) sum += entry * entry;
    return std::sqrt(sum);
}

}  // namespace

std::vector<double> least_costs(const std::vector<double> &x, const std::vector<double> &hessian,
                                const std::vector<double> &magnitude, double concordance) {
    const std::size_t m = x.size();
    std::vector<double> cost(m, 0.0), unit(m), scaled(m * m);
    if (!std::isfinite(concordance)) return cost;
    for (std::size_t j = 0; j < m; ++j) {
        if (!(hessian[j * m + j] > 0) || !std::isfinite(hessian[j * m + j])) return cost;
        unit[j] = 1 / std::sqrt(hessian[j * m + j]);
    }
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < m; ++k)
            scaled[j * m + k] = unit[j] * 0.5 * (hessian[j * m + k] + hessian[k * m + j]) * unit[k];
    const std::vector<double> K = inverse_of(m, scaled);
    if (K.empty()) return cost;
    const double error = ROUNDING * frobenius(scaled) * frobenius(K);  // at least that of the condition number
    if (!(error <= UNRELIABLE)) return cost;
    for (std::size_t i = 0; i < m; ++i) {
        const double own = unit[i] * K[i * m + i] * unit[i];
        double reach = 0;
        for (std::size_t l = 0; l < m; ++l) reach += std::abs(unit[i] * K[i * m + l] * unit[l]) * magnitude[l];
        const double rho = concordance * std::abs(x[i]) * reach / own, longest = rho > 1 ? 1 / rho : 1.0;
        for (const double fraction : FRACTIONS) {
            const double t = fraction * longest;
            const double factor = t - self_concordant_factor(t * rho) * t * t;
            if (own > 0 && std::isfinite(factor)) cost[i] = std::max(cost[i], x[i] * x[i] / own * factor);
            if (concordance == 0) break;
        }
        cost[i] *= 1 - error;
    }
    return cost;
}

SwapExamination::SwapExamination(const ColumnFits &fits, const SwapColumns &inside, const std::vector<double> &x,
                                 const SwapSettings &settings)
    : fits_(fits), inside_(inside), x_(x), settings_(settings), left_out_(x.size()), tried_(x.size(), 0) {
    std::int64_t numbers = NUMBERS_PER_SAMPLE * fits.rows();
    for (const Column &column : inside.columns) numbers += column.count;
    has_bounds_ = AdditionBounds::exist_for(fits) && numbers * std::int64_t(x.size()) <= MOST_NUMBERS;
    if (has_bounds_) rows_ = ColumnRows(fits.rows(), inside.columns);
}

std::unique_ptr<SwapExamination::LeftOut> SwapExamination::left_out(std::int64_t i, Poll &poll) const {
    Columns others = inside_.columns;
    std::vector<double> start = x_, ridge = inside_.ridge;
    others.erase(others.begin() + i);
    start.erase(start.begin() + i);
    if (!ridge.empty()) ridge.erase(ridge.begin() + i);
    const ColumnFit fit =
        fits_.fit(others, std::move(start), settings_.tolerance, settings_.accuracy, INFINITE, {}, ridge, poll);
    const double above = fit.psi - fit.resolution - (settings_.psi - settings_.threshold);
    if (fit.end != FitEnd::fitted || !(above > 0)) return nullptr;
    std::vector<std::int64_t> place(x_.size());
    for (std::int64_t j = 0; j < std::int64_t(place.size()); ++j) place[std::size_t(j)] = j < i ? j : j - 1;
    place[std::size_t(i)] = -1;
    return std::make_unique<LeftOut>(
        LeftOut{above, AdditionBounds(fits_, rows_, place, fit, ridge, SPARE_SHARE * above)});
}

SwapExamination::LeftOut *SwapExamination::without(std::int64_t i, Poll &poll) {
    const auto at = std::size_t(i);
    if (has_bounds_ && !tried_[at]) {
        tried_[at] = 1;
        ++fits_without_;
        left_out_[at] = left_out(i, poll);
    }
    return left_out_[at].get();
}

// The columns of S for which no bound shows that a newcomer in their place does not lower psi.
std::vector<std::int64_t> SwapExamination::not_shown(const Column &newcomer, const std::vector<std::int64_t> &leaving,
                                                     Poll &poll) {
    if (!AdditionBounds::exist_for(newcomer)) return leaving;
    std::vector<std::int64_t> left;
    for (const std::int64_t i : leaving) {
        LeftOut *const fit = without(i, poll);
        if (!fit || !fit->bounds.gains_at_most(newcomer, fit->above)) left.push_back(i);
    }
    return left;
}

ExaminedSwaps SwapExamination::examine(const SwapColumns &newcomers,
                                       const std::vector<std::vector<std::int64_t>> &leaving, std::int64_t most_refits,
                                       Poll &poll) {
    const ColumnFits &fits = fits_;
    const SwapColumns &inside = inside_;
    const std::vector<double> &x = x_;
    const SwapSettings &settings = settings_;
    const double threshold = settings.threshold;
    ExaminedSwaps found;
    const std::int64_t fits_before = fits_without_;
    SwapColumns larger = inside;
    larger.columns.push_back({});
    larger.magnitude.push_back(0.0);
    if (!inside.ridge.empty()) larger.ridge.push_back(0.0);
    // Examines a newcomer, with columns those of S and its own: whether it lowers psi, or a fit fails.
    const auto examine = [&](const ColumnFits &here, const Columns &columns, const auto &leaving_for) {
        const auto fit = [&](const Columns &over, std::vector<double> start, double below,
                             const std::vector<double> &ridge) {
            ++found.n_refits;
            return here.fit(over, std::move(start), settings.tolerance, settings.accuracy, below, {}, ridge, poll);
        };
        std::vector<double> start = x;
        start.push_back(0.0);
        const ColumnFit with = fit(columns, std::move(start), INFINITE, larger.ridge);
        std::int64_t shown = 0;
        if (with.end == FitEnd::failed) return SwapEnd::failed;
        const std::vector<double> costs = least_costs(with.x, with.hessian, larger.magnitude, settings.concordance);
        const double least = std::isfinite(settings.concordance) ? with.psi - with.gap - with.resolution : -INFINITE;
        for (const std::int64_t i : leaving_for) {
            if (least + costs[std::size_t(i)] >= settings.psi - threshold) {
                ++shown;
                continue;
            }
            if (found.n_refits >= most_refits) break;
            Columns others = columns;
            std::vector<double> near = with.x, ridge = larger.ridge;
            others.erase(others.begin() + i);
            near.erase(near.begin() + i);
            if (!ridge.empty()) ridge.erase(ridge.begin() + i);
            const ColumnFit without = fit(others, std::move(near), settings.psi, ridge);
            if (without.end == FitEnd::failed) return SwapEnd::failed;
            const double coarser = std::max(without.resolution - settings.resolution, 0.0);
            if (without.end == FitEnd::fitted && without.psi < settings.psi - threshold - coarser) {
                found.leaves = i;
                return SwapEnd::lower;
            }
            shown += without.end == FitEnd::not_below || without.psi - without.gap >= settings.psi - 2 * threshold;
        }
        found.shown += shown;
        return SwapEnd::examined;
    };
    const auto groups = fits.equal_samples(inside.columns);
    for (std::size_t j = 0; j < newcomers.columns.size() && found.end == SwapEnd::examined; ++j) {
        found.newcomer = std::int64_t(j);
        if (found.n_refits >= most_refits) {
            found.end = SwapEnd::refits;
            break;
        }
        larger.columns.back() = newcomers.columns[j];
        larger.magnitude.back() = newcomers.magnitude[j];
        if (!inside.ridge.empty()) larger.ridge.back() = newcomers.ridge[j];
        const std::vector<std::int64_t> left = not_shown(newcomers.columns[j], leaving[j], poll);
        const auto shown = std::int64_t(leaving[j].size() - left.size());
        if (left.empty()) {
            found.shown += shown;
            continue;
        }
        const std::int64_t before = found.n_refits;
        found.end = fits.over_fewer_rows(
            groups.get(), newcomers.columns[j], larger.columns,
            [&](const ColumnFits &here, const Columns &columns) { return examine(here, columns, left); });
        if (found.end == SwapEnd::examined) found.shown += shown;
        else found.n_refits = before;
    }
    found.n_refits += fits_without_ - fits_before;
    return found;
}

BestAddition best_addition(const ColumnFits &fits, const SwapColumns &inside, const std::vector<double> &x,
                           const SwapColumns &newcomers, const std::vector<double> &bounds, double gain,
                           const SwapSettings &settings, std::int64_t most_refits, Poll &poll) {
    BestAddition best;
    best.gain = gain;
    SwapColumns larger = inside;
    larger.columns.push_back({});
    if (!inside.ridge.empty()) larger.ridge.push_back(0.0);
    const auto groups = fits.equal_samples(inside.columns);
    std::unique_ptr<ColumnRows> rows;
    std::unique_ptr<AdditionBounds> gains;
    double above = 0;  // by how much the fit that the bounds are about is above psi at least
    for (std::size_t j = 0; j < newcomers.columns.size(); ++j) {
        const double least = std::max(best.gain, settings.threshold);
        if (bounds[j] <= least) break;
        if (best.gain > settings.threshold && AdditionBounds::exist_for(fits) &&
            AdditionBounds::exist_for(newcomers.columns[j])) {
            if (!gains) {  // at x itself: without a step
                const ColumnFit fit =
                    fits.fit(inside.columns, x, settings.tolerance, INFINITE, INFINITE, {}, inside.ridge, poll);
                above = fit.end == FitEnd::fitted ? fit.psi - fit.resolution - settings.psi : -INFINITE;
                rows = std::make_unique<ColumnRows>(fits.rows(), inside.columns);
                std::vector<std::int64_t> place(x.size());
                std::iota(place.begin(), place.end(), std::int64_t(0));
                gains =
                    std::make_unique<AdditionBounds>(fits, *rows, place, fit, inside.ridge, SPARE_SHARE * best.gain);
            }
            if (gains->gains_at_most(newcomers.columns[j], above + best.gain + settings.threshold)) {
                ++best.tried;
                ++best.shown;
                continue;
            }
        }
        if (best.n_refits >= most_refits) break;
        larger.columns.back() = newcomers.columns[j];
        if (!inside.ridge.empty()) larger.ridge.back() = newcomers.ridge[j];
        std::vector<double> start = x;
        start.push_back(0.0);
        const ColumnFit with = fits.over_fewer_rows(
            groups.get(), newcomers.columns[j], larger.columns, [&](const ColumnFits &here, const Columns &columns) {
                return here.fit(columns, std::move(start), settings.tolerance, settings.accuracy, settings.psi - least,
                                {}, larger.ridge, poll);
            });
        best.failed = with.end == FitEnd::failed;
        if (best.failed) break;
        ++best.n_refits;
        ++best.tried;
        if (with.end == FitEnd::not_below) {
            ++best.shown;
            continue;
        }
        const double reached = settings.psi - with.psi, coarser = std::max(with.resolution - settings.resolution, 0.0);
        if (reached > least && reached > coarser) {
            best.gain = reached;
            best.newcomer = std::int64_t(j);
        }
        best.shown += with.psi - with.gap >= settings.psi - std::max(best.gain, 0.0) - 2 * settings.threshold;
    }
    return best;
}

}  // namespace levelprox
