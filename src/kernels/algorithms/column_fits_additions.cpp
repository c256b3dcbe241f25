#include "algorithms/column_fits_additions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levelprox {

namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double EPSILON = std::numeric_limits<double>::epsilon();
constexpr double TAIL = 1e-2;  // p of a sample without much loss, at most
constexpr double LEAST_TAIL = 0x1p-100;
constexpr double LEAST_PIVOT = 1e-9;     // of a diagonal of 1: less has too large errors
constexpr double ROUNDING = 1 + 1e-9;    // of a sum of divergences
constexpr double ERRORS = 64;            // times the rounding of a sum
constexpr int TILTS = 12;                // Newton steps along one column
constexpr std::size_t MOST_DROPPED = 4;  // columns
constexpr int ROUNDS = 4;                // steps for all others

}  // namespace

ColumnRows::ColumnRows(std::int64_t n, const Columns &columns) : begin(std::size_t(n) + 1, 0) {
    const auto each = [&](auto body) {
        for (std::size_t j = 0; j < columns.size(); ++j)
            for (std::int64_t e = 0; e < columns[j].count; ++e)
                if (columns[j].values[e] != 0)
                    body(std::size_t(columns[j].rows ? columns[j].rows[e] : e), j, columns[j].values[e]);
    };
    each([&](std::size_t i, std::size_t, double) { ++begin[i + 1]; });
    for (std::size_t i = 0; i < std::size_t(n); ++i) begin[i + 1] += begin[i];
    column.resize(std::size_t(begin.back()));
    value.resize(column.size());
    std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
    each([&](std::size_t i, std::size_t j, double x) {
        const auto e = std::size_t(next[i]++);
        column[e] = std::int32_t(j);
        value[e] = x;
    });
    for (std::size_t j = 0; j < columns.size() && constant < 0; ++j) {
        const double *const values = columns[j].values;
        if (columns[j].rows || n == 0 || values[0] == 0) continue;
        if (!std::all_of(values, values + n, [&](double x) { return x == values[0]; })) continue;
        constant = std::int64_t(j);
        constant_value = values[0];
    }
}

AdditionBounds::AdditionBounds(const ColumnFits &fits, const ColumnRows &rows, const std::vector<std::int64_t> &place,
                               const ColumnFit &fit, const std::vector<double> &ridge, double spare)
    : fits_(fits), place_(place.size(), -1) {
    const auto n = std::size_t(fits.rows());
    p_.resize(n);
    rest_.resize(n);
    bend_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        const double z = fits.target(std::int64_t(i)) * fit.margins[i], e = std::exp(-std::abs(z));
        p_[i] = (z > 0 ? e : 1.0) / (1 + e);
        rest_[i] = (z > 0 ? 1.0 : e) / (1 + e);
        usable_ = usable_ && std::isfinite(z);
    }
    usable_ = usable_ && spare > 0;
    if (!usable_) return;
    fix_samples_without_loss(spare);
    choose_columns(rows, place, fit, ridge);
    list_rows(rows);
    differentiate();
    free_bend_ = bend_;
    is_dropped_.assign(n, 0);
}

// Sets p = 0 where q = 0 is fixed.
void AdditionBounds::fix_samples_without_loss(double spare) {
    double tail = TAIL;
    for (; tail > LEAST_TAIL; tail /= 8) {
        fixed_ = 0;
        for (std::size_t i = 0; i < p_.size(); ++i)
            if (p_[i] <= tail) fixed_ -= fits_.share(std::int64_t(i)) * std::log1p(-p_[i]);
        if (fixed_ <= spare) break;
    }
    if (!(fixed_ <= spare)) tail = fixed_ = 0;
    for (std::size_t i = 0; i < p_.size(); ++i) {
        const double share = fits_.share(std::int64_t(i));
        if (p_[i] <= tail || !(share > 0)) p_[i] = 0;
        bend_[i] = share * p_[i] * rest_[i];
    }
}

// Columns with entries where q is not fixed, or with a ridge, need a step.
void AdditionBounds::choose_columns(const ColumnRows &rows, const std::vector<std::int64_t> &place,
                                    const ColumnFit &fit, const std::vector<double> &ridge) {
    std::vector<char> needed(place.size(), 0);
    for (std::size_t i = 0; i < p_.size(); ++i)
        for (std::int64_t e = rows.begin[i]; p_[i] > 0 && e < rows.begin[i + 1]; ++e)
            needed[std::size_t(rows.column[std::size_t(e)])] = 1;
    for (std::size_t j = 0; j < place.size(); ++j) {
        if (place[j] < 0) continue;
        const auto at = std::size_t(place[j]);
        const double curvature = ridge.empty() ? 0.0 : 2 * ridge[at];
        if (!needed[j] && !(curvature > 0)) continue;
        place_[j] = std::int64_t(m_++);
        x_.push_back(fit.x[at]);
        ridge_.push_back(curvature);
    }
}

void AdditionBounds::list_rows(const ColumnRows &rows) {
    rows_.begin.assign(1, 0);
    samples_.resize(m_);
    if (rows.constant >= 0 && place_[std::size_t(rows.constant)] >= 0) {
        rows_.constant = place_[std::size_t(rows.constant)];
        rows_.constant_value = rows.constant_value;
    }
    for (std::size_t i = 0; i < p_.size(); ++i) {
        for (std::int64_t e = rows.begin[i]; p_[i] > 0 && e < rows.begin[i + 1]; ++e) {
            const std::int64_t j = place_[std::size_t(rows.column[std::size_t(e)])];
            if (j < 0) continue;
            samples_[std::size_t(j)].push_back(std::int64_t(i));
            rows_.column.push_back(std::int32_t(j));
            rows_.value.push_back(rows.value[std::size_t(e)]);
        }
        rows_.begin.push_back(std::int64_t(rows_.column.size()));
        if (!(bend_[i] > 0)) continue;
        const std::int64_t count = rows_.begin[i + 1] - rows_.begin[i];
        const bool plain = count == 0 || (count == 1 && rows_.column.back() == rows_.constant);
        (plain ? plain_ : others_).push_back(std::int64_t(i));
        if (count != 1 || !plain) continue;
        const std::size_t of_class = fits_.target(std::int64_t(i)) > 0;
        plain_p_[of_class] = std::max(plain_p_[of_class], p_[i]);
        plain_rest_[of_class] = std::max(plain_rest_[of_class], rest_[i]);
    }
}

// What is not orthogonal to the columns in a step so far, and their Hessian.
void AdditionBounds::differentiate() {
    residual_.assign(m_, 0.0);
    size_.assign(m_, 0.0);
    hessian_.assign(m_ * m_, 0.0);
    for (std::size_t j = 0; j < m_; ++j) {
        residual_[j] = ridge_[j] * x_[j];
        size_[j] = std::abs(residual_[j]);
        hessian_[j * m_ + j] = ridge_[j];
    }
    for (std::size_t i = 0; i < p_.size(); ++i) {
        const double slope = -fits_.target(std::int64_t(i)) * fits_.share(std::int64_t(i)) * p_[i];
        for (auto e = std::size_t(rows_.begin[i]); e < std::size_t(rows_.begin[i + 1]); ++e) {
            const auto j = std::size_t(rows_.column[e]);
            residual_[j] += slope * rows_.value[e];
            size_[j] += std::abs(slope * rows_.value[e]);
            for (auto f = std::size_t(rows_.begin[i]); f <= e; ++f)
                hessian_[j * m_ + std::size_t(rows_.column[f])] += bend_[i] * rows_.value[e] * rows_.value[f];
        }
    }
}

// q of the samples of a column, next to p, with sum s b q x = 0: Newton's method for the t of the text, which is exact
// once the samples in [0, 1] do not change, and then smaller q on one side of the sum.
bool AdditionBounds::make_orthogonal(const Column &newcomer) {
    entries_.clear();
    double positive = 0, negative = 0;
    for (std::int64_t e = 0; e < newcomer.count; ++e) {
        const std::int64_t i = newcomer.rows[e];
        if (!(p_[std::size_t(i)] > 0) || newcomer.values[e] == 0 || is_dropped_[std::size_t(i)]) continue;
        const double x = fits_.target(i) * newcomer.values[e], sum = fits_.share(i) * x * p_[std::size_t(i)];
        (x > 0 ? positive : negative) += std::abs(sum);
        entries_.push_back({i, x, p_[std::size_t(i)]});
    }
    double tilt = 0;
    for (int tries = 0; tries < TILTS && positive > 0 && negative > 0; ++tries) {
        double curvature = 0;
        for (const Entry &entry : entries_)
            if (entry.q > 0 && entry.q < 1) curvature += bend_[std::size_t(entry.sample)] * entry.x * entry.x;
        if (!(curvature > 0) || std::abs(positive - negative) <= 1e-6 * positive) break;
        tilt += (positive - negative) / curvature;
        positive = negative = 0;
        for (Entry &entry : entries_) {
            const auto i = std::size_t(entry.sample);
            entry.q = std::min(std::max(p_[i] * (1 - rest_[i] * entry.x * tilt), 0.0), 1.0);
            (entry.x > 0 ? positive : negative) += fits_.share(entry.sample) * std::abs(entry.x) * entry.q;
        }
    }
    const double both = std::min(positive, negative);
    for (Entry &entry : entries_) {
        const double side = entry.x > 0 ? positive : negative;
        if (side > both) entry.q *= both / side;
    }
    error_ = EPSILON * both * std::abs(tilt);
    return std::isfinite(positive) && std::isfinite(negative) && std::isfinite(tilt);
}

// KL(q | p) of a sample, with its weight.
double AdditionBounds::divergence(std::int64_t i, double q) const {
    const double p = p_[std::size_t(i)], rest = rest_[std::size_t(i)];
    double sum = 0;
    if (q > 0) sum += q * std::log(q / p);
    if (q < 1) sum += (1 - q) * std::log((1 - q) / rest);
    return fits_.share(i) * sum;
}

// Moves a sample to another q: no Newton step changes it any more. Returns false where the divergence is not finite.
bool AdditionBounds::move(std::int64_t sample, double q) {
    const auto i = std::size_t(sample);
    const double change = -fits_.target(sample) * fits_.share(sample) * (q - p_[i]);
    for (auto e = std::size_t(rows_.begin[i]); e < std::size_t(rows_.begin[i + 1]); ++e) {
        const auto j = std::size_t(rows_.column[e]);
        left_[j] += change * rows_.value[e];
        for (auto f = std::size_t(rows_.begin[i]); f <= e; ++f)
            curvature_[j * m_ + std::size_t(rows_.column[f])] -= bend_[i] * rows_.value[e] * rows_.value[f];
    }
    free_bend_[i] = 0;
    moved_.push_back(sample);
    gap_ += divergence(sample, q);
    return std::isfinite(gap_);
}

// -(curvature)^-1 left, by Cholesky's method; false where columns nearly depend on each other.
bool AdditionBounds::find_step() {
    factor_ = curvature_;
    step_ = left_;
    for (std::size_t j = 0; j < m_; ++j) {
        double *own = &factor_[j * m_];
        if (dropped_[j]) {
            std::fill(own, own + j, 0.0);
            for (std::size_t k = j + 1; k < m_; ++k) factor_[k * m_ + j] = 0;
            own[j] = 1;
            step_[j] = 0;
        }
        const double before = dropped_[j] ? 0.0 : hessian_[j * m_ + j];
        for (std::size_t k = 0; k <= j; ++k) {
            const double *other = &factor_[k * m_];
            double sum = own[k];
            for (std::size_t l = 0; l < k; ++l) sum -= own[l] * other[l];
            if (k < j) {
                own[k] = sum / other[k];
            } else {
                if (!(sum > LEAST_PIVOT * before)) {
                    dependent_ = std::int64_t(j);
                    return false;
                }
                own[j] = std::sqrt(sum);
            }
        }
        for (std::size_t l = 0; l < j; ++l) step_[j] -= own[l] * step_[l];
        step_[j] /= own[j];
    }
    for (std::size_t j = m_; j-- > 0;) {
        for (std::size_t l = j + 1; l < m_; ++l) step_[j] -= factor_[l * m_ + j] * step_[l];
        step_[j] /= factor_[j * m_ + j];
    }
    for (double &entry : step_) entry = -entry;
    return true;
}

// Moves samples that a step takes out of [0, 1] to the end that is next to it.
bool AdditionBounds::move_outside(const std::vector<std::int64_t> &samples, double &largest, bool &inside) {
    for (const std::int64_t sample : samples) {
        const auto i = std::size_t(sample);
        if (!(free_bend_[i] > 0)) continue;
        double a = 0;
        for (auto e = std::size_t(rows_.begin[i]); e < std::size_t(rows_.begin[i + 1]); ++e)
            a += rows_.value[e] * step_[std::size_t(rows_.column[e])];
        a *= fits_.target(sample);
        largest = std::max(largest, std::abs(a));
        if (rest_[i] * a <= 1 && p_[i] * a >= -1) continue;
        inside = false;
        if (!move(sample, a > 0 ? 0.0 : 1.0)) return false;
    }
    return true;
}

// Whether a step leaves all samples with the constant column alone in [0, 1].
bool AdditionBounds::plain_samples_stay_inside(double &largest) const {
    if (rows_.constant < 0) return true;
    const double a = rows_.constant_value * step_[std::size_t(rows_.constant)];
    largest = std::max(largest, std::abs(a));
    const std::size_t falls = a > 0, rises = 1 - falls;  // the class whose q falls, and the other
    return plain_rest_[falls] * std::abs(a) <= 1 && plain_p_[rises] * std::abs(a) <= 1;
}

// What is not orthogonal after a step, times coefficients.
double AdditionBounds::error_of_step() const {
    double error = 0;
    for (std::size_t j = 0; j < m_; ++j) {
        if (dropped_[j]) continue;
        double rest = left_[j], size = size_[j] + std::abs(left_[j]);
        for (std::size_t l = 0; l < m_; ++l) {
            const double term = curvature_[std::max(j, l) * m_ + std::min(j, l)] * step_[l];
            rest += term;
            size += std::abs(term);
        }
        error += (std::abs(rest) + EPSILON * size) * (std::abs(x_[j]) + std::abs(step_[j]));
    }
    return error;
}

// The divergence of all samples that are not moved, and errors, at most; infinite where that is not known, or where all
// together is above `most`.
double AdditionBounds::correction(double most) {
    for (int round = 0; round < ROUNDS; ++round) {
        if (!(gap_ <= most) || !find_step()) return INFINITE;
        double square = 0;  // c' H c
        for (std::size_t j = 0; j < m_; ++j) square -= step_[j] * left_[j];
        if (!(gap_ + 0.5 * square <= most)) return INFINITE;
        double largest = 0;
        bool inside = true;
        if (!plain_samples_stay_inside(largest) && !move_outside(plain_, largest, inside)) return INFINITE;
        if (!move_outside(others_, largest, inside)) return INFINITE;
        if (!inside) continue;
        // KL(q | p) <= (q - p)^2 / (p (1 - p)), and less for small steps.
        const double share = largest < 1 ? self_concordant_factor(largest) : 1.0;
        return share * square + ERRORS * (error_ + error_of_step());
    }
    return INFINITE;
}

// Whether the divergence of one q is at most so much.
bool AdditionBounds::bounds_divergence(const Column &newcomer, double most) {
    for (const std::int64_t i : moved_) free_bend_[std::size_t(i)] = bend_[std::size_t(i)];
    moved_.clear();
    left_ = residual_;
    curvature_ = hessian_;
    gap_ = fixed_;
    dependent_ = -1;
    for (const std::size_t j : dropped_columns_)
        for (const std::int64_t i : samples_[j]) {
            if (is_dropped_[std::size_t(i)]) continue;
            is_dropped_[std::size_t(i)] = 1;
            if (!move(i, 0.0)) return false;
        }
    if (!(gap_ <= most) || !make_orthogonal(newcomer)) return false;
    for (const Entry &entry : entries_)
        if (!move(entry.sample, entry.q) || !(gap_ <= most)) return false;
    const double others = correction(most);  // before the sum: it moves further samples
    return (gap_ + others) * ROUNDING <= most;
}

bool AdditionBounds::gains_at_most(const Column &newcomer, double most) {
    if (!usable_ || !(most > 0)) return false;
    dropped_.assign(m_, 0);
    dropped_columns_.clear();
    while (true) {
        const bool shown = bounds_divergence(newcomer, most);
        for (const std::size_t j : dropped_columns_)
            for (const std::int64_t i : samples_[j]) is_dropped_[std::size_t(i)] = 0;
        if (shown || dependent_ < 0 || dropped_columns_.size() == MOST_DROPPED) return shown;
        const auto j = std::size_t(dependent_);
        if (ridge_[j] > 0) return false;
        dropped_[j] = 1;
        dropped_columns_.push_back(j);
    }
}

}  // namespace levelprox
