#include "algorithms/gram_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/simd.hpp"

namespace levelprox {

namespace {

constexpr double DEPENDENT = 1e-10;      // of a diagonal of 1: the rest of a feature that is almost spanned by others
constexpr double LOWER = 1e-11;          // of the loss: less is not an improvement
constexpr double ROUNDING = 1e-13;       // of c'x of all features, the same
constexpr std::int64_t ROUNDS = 10;      // swaps for each feature, and escapes from a set: rounding may cause cycles
constexpr std::int64_t FEW = 5;          // features, of which the first one added may have too much influence
constexpr std::int64_t TOP = 16;         // features that are tried as one too many
constexpr std::int64_t HELD = 8;         // steps for which a feature is held
constexpr double WORK = 1e7, ROWS = 16;  // multiplications, and rows of G: to leave sets, where rows are computed
constexpr std::int64_t BLOCK = 64;       // features that are compared at once
constexpr std::int64_t FEWEST_STEPS = 30, MOST_STEPS = 150;  // without a lower loss

}  // namespace
GramSearch::GramSearch(std::int64_t d, GramRows rows, const double *diagonal, const double *pull, double square,
                       const std::uint8_t *kept)
    : d_(d), order_(std::size_t(d) + 1), gram_(std::move(rows)), pull_(pull), square_(square), kept_(kept) {
    used_.assign(std::size_t(d), 0);
    empty_.last.assign(pull, pull + d);
    empty_.last.push_back(square);
    empty_.diagonal.assign(diagonal, diagonal + d);
    empty_.diagonal.push_back(square);
    empty_.inside.assign(order_, 0);
    for (std::int64_t j = 0; j < d; ++j)
        if (kept[j]) add(empty_, j);
    ahead_ = empty_;
}

// By how much the loss must fall to be lower.
double GramSearch::least_gain(const Swept &at) const { return LOWER * std::max(loss(at), 0.0) + ROUNDING * square_; }

// Subtracts multiples of a row with its pivot at j from all others, so that their entries at j are gone.
void GramSearch::eliminate(Swept &at, const double *row, std::int64_t j, double pivot) {
    work_ += double(at.features.size() * order_);
    const auto add = simd().f64.dense.add;
    const double inverse = 1 / pivot;
    for (std::size_t i = 0; i < at.features.size(); ++i) {
        if (at.features[i] == j) continue;
        double *other = &at.rows[i * order_];
        const double factor = row[at.features[i]] * inverse;
        add(std::int64_t(order_), -factor, row, other);
    }
    add(std::int64_t(order_), -row[d_] * inverse, row, at.last.data());
    for (std::size_t l = 0; l < order_; ++l) at.diagonal[l] -= row[l] * row[l] * inverse;
}

// A row of G; its work counts once in a search, whether it is known from another one or not.
const double *GramSearch::gram_row(std::int64_t j) {
    if (!used_[j]) work_ += gram_.work();
    used_[j] = 1;
    return gram_.row(j);
}

// The row of j outside S: G_j. - G_jS K G_S., and B'_.j at the features of S.
void GramSearch::left_of_row(const Swept &at, std::int64_t j, double *row) {
    const double *own = gram_row(j);
    std::copy(own, own + d_, row);
    row[d_] = pull_[j];
    std::vector<double> factors(at.features.size());
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = -own[at.features[i]];
    const auto order = std::int64_t(order_);
    simd().f64.dense.adds(std::int64_t(factors.size()), order, order, factors.data(), at.rows.data(), row);
    for (std::size_t i = 0; i < at.features.size(); ++i) row[at.features[i]] = at.rows[i * order_ + j];
    work_ += double(at.features.size() * order_);
}

// Returns whether j enters: it does not where it depends on the others.
bool GramSearch::add(Swept &at, std::int64_t j) {
    if (!(at.diagonal[j] > DEPENDENT)) return false;
    const std::size_t m = at.features.size();
    at.rows.resize((m + 1) * order_);
    double *row = &at.rows[m * order_];
    left_of_row(at, j, row);
    const double pivot = row[j];
    if (!(pivot > DEPENDENT)) {
        at.rows.resize(m * order_);
        return false;
    }
    eliminate(at, row, j, pivot);
    for (std::size_t l = 0; l < order_; ++l) row[l] /= pivot;
    row[j] = -1 / pivot;
    for (std::size_t i = 0; i < m; ++i) at.rows[i * order_ + j] = row[at.features[i]];
    at.features.push_back(j);
    for (std::size_t i = 0; i <= m; ++i) at.diagonal[at.features[i]] = at.rows[i * order_ + at.features[i]];
    at.last[j] = row[d_];
    at.inside[j] = 1;
    if (!kept_[j]) ++at.count;
    return true;
}

void GramSearch::remove(Swept &at, std::int64_t j) {
    const std::size_t place = std::size_t(std::find(at.features.begin(), at.features.end(), j) - at.features.begin()),
                      end = at.features.size() - 1;
    const double *row = &at.rows[place * order_];
    const double pivot = row[j];
    eliminate(at, row, j, pivot);
    for (std::size_t i = 0; i <= end; ++i)
        if (i != place) at.rows[i * order_ + j] = -row[at.features[i]] / pivot;
    at.last[j] = -row[d_] / pivot;
    at.diagonal[j] = -1 / pivot;
    if (place != end) std::copy(&at.rows[end * order_], &at.rows[end * order_] + order_, &at.rows[place * order_]);
    at.features[place] = at.features[end];
    at.features.pop_back();
    at.rows.resize(end * order_);
    for (std::size_t i = 0; i < end; ++i) at.diagonal[at.features[i]] = at.rows[i * order_ + at.features[i]];
    at.inside[j] = 0;
    if (!kept_[j]) --at.count;
}

GramSearch::Swept GramSearch::over(const Features &features, Poll &poll) {
    Swept at = empty_;
    for (const std::int64_t j : features) {
        poll.check();
        if (!at.inside[j]) add(at, j);
    }
    return at;
}

std::int64_t GramSearch::best_addition(const Swept &at, std::int64_t without) const {
    std::int64_t best = -1;
    double most = least_gain(at);
    for (std::int64_t j = 0; j < d_; ++j) {
        if (at.inside[j] || j == without || !(at.diagonal[j] > DEPENDENT)) continue;
        const double gain = at.last[j] * at.last[j] / at.diagonal[j];
        if (gain > most) {
            most = gain;
            best = j;
        }
    }
    return best;
}

double GramSearch::cost(const Swept &at, std::int64_t i) const { return at.last[i] * at.last[i] / -at.diagonal[i]; }

std::int64_t GramSearch::least_costly(const Swept &at, std::int64_t without) const {
    std::int64_t least = -1;
    for (const std::int64_t i : counted(at))
        if (i != without && (least < 0 || cost(at, i) < cost(at, least))) least = i;
    return least;
}

void GramSearch::grow(Swept &at, std::int64_t k, std::int64_t without, Poll &poll) {
    while (at.count < k) {
        poll.check();
        const std::int64_t j = best_addition(at, without);
        if (j < 0 || !add(at, j)) return;
    }
}

void GramSearch::shrink(Swept &at, std::int64_t k, Poll &poll) {
    while (at.count > k) {
        poll.check();
        remove(at, least_costly(at));
    }
}

// The swap that gains more than `most`, and more than all others, of features that are free to move; -1 where there
// is none. Without i, the slope of j is p = c_j - B_ij x_i / -K_ii, what is left of j is q = G_jj - B_ij^2 / -K_ii, and
// the gain p^2 / q. Blocks of features in which no p^2 is above q times the best gain so far are skipped.
std::pair<std::int64_t, std::int64_t> GramSearch::best_swap(const Swept &at, double most, const std::uint8_t *held) {
    work_ += double(at.features.size() * order_);
    const double *pull = at.last.data(), *diagonal = at.diagonal.data();
    const auto block = simd().swap_block;
    std::int64_t leaves = -1, enters = -1;
    for (std::size_t place = 0; place < at.features.size(); ++place) {
        const std::int64_t i = at.features[place];
        if (kept_[i] || (held != nullptr && held[i])) continue;
        const double *across = &at.rows[place * order_];
        const double inverse = 1 / diagonal[i], step = pull[i] * inverse, price = cost(at, i);
        const auto next = [&](std::int64_t from) {
            return block(from, d_, pull, diagonal, across, step, inverse, most + price);
        };
        for (std::int64_t begin = next(0); begin < d_; begin = next(begin + BLOCK)) {
            const std::int64_t end = std::min(d_, begin + BLOCK);
            for (std::int64_t j = begin; j < end; ++j) {
                if (at.inside[j] || (held != nullptr && held[j])) continue;
                const double slope = pull[j] - across[j] * step, left = diagonal[j] - across[j] * across[j] * inverse;
                if (!(left > DEPENDENT) || !(slope * slope > 0)) continue;
                const double gain = slope * slope / left - price;
                if (gain > most || (gain == most && (i < leaves || (i == leaves && j < enters)))) {
                    most = gain;
                    leaves = i;
                    enters = j;
                }
            }
        }
    }
    return {leaves, enters};
}

bool GramSearch::swap(Swept &at, const std::uint8_t *held, const Allowed &allowed) {
    const auto [leaves, enters] = best_swap(at, least_gain(at), held);
    if (leaves < 0 || (allowed && !allowed())) return false;
    const double before = loss(at);
    remove(at, leaves);
    const bool entered = add(at, enters);
    if (entered && loss(at) < before) return true;
    if (entered) remove(at, enters);  // rounding
    add(at, leaves);
    return false;
}

// The best swap repeatedly, whether it gains or not, with swapped features fixed for some steps: for as long as that
// leads to a lower loss within some steps.
bool GramSearch::wander(Swept &at, Poll &poll) {
    const std::int64_t k = at.count, others = d_ - k;
    const std::int64_t steps = std::min(MOST_STEPS, FEWEST_STEPS + 4 * k);
    const std::int64_t held_out = std::min(HELD, others / 3), held_in = std::min(HELD, k / 3);
    std::vector<std::int64_t> until(std::size_t(d_), 0), lowest;
    std::vector<std::uint8_t> held(std::size_t(d_), 0);
    double least = loss(at) - least_gain(at);
    Swept here = at;
    for (std::int64_t step = 1, last = 0; step - last <= steps && may_continue(); ++step) {
        poll.check();
        for (std::int64_t j = 0; j < d_; ++j) held[j] = until[j] > step;
        const auto [leaves, enters] = best_swap(here, -std::numeric_limits<double>::infinity(), held.data());
        if (leaves < 0) break;
        remove(here, leaves);
        add(here, enters);
        until[leaves] = step + 1 + held_out;
        until[enters] = step + 1 + held_in;
        if (here.count == k && loss(here) < least) {
            least = loss(here) - least_gain(here);
            lowest = counted(here);
            last = step;
        }
    }
    if (lowest.empty()) return false;
    here = over(lowest, poll);
    improve(here, poll);
    if (!(loss(here) < loss(at) - least_gain(at))) return false;
    at = std::move(here);
    return true;
}

void GramSearch::improve(Swept &at, Poll &poll, const std::uint8_t *held, const Allowed &allowed) {
    for (std::int64_t round = 0; round < ROUNDS * d_ && swap(at, held, allowed); ++round) poll.check();
}

// Remove one feature, each in turn, or add one, the most useful in turn; swap features there, and return to k features.
// Then from the best set without each of its features, and with each of the most useful others.
bool GramSearch::escape(Swept &at, bool brief, Poll &poll) {
    const std::int64_t k = at.count;
    const auto lower = [&](Swept &other) {
        grow(other, k, -1, poll);
        shrink(other, k, poll);
        improve(other, poll);
        if (!(loss(other) < loss(at) - least_gain(at))) return false;
        at = over(counted(other), poll);
        return true;
    };
    std::vector<std::pair<double, std::int64_t>> inside, outside;
    for (const std::int64_t i : counted(at)) inside.emplace_back(cost(at, i), i);
    std::sort(inside.begin(), inside.end());
    for (std::int64_t j = 0; j < d_; ++j)
        if (!at.inside[j] && at.diagonal[j] > DEPENDENT)
            outside.emplace_back(-at.last[j] * at.last[j] / at.diagonal[j], j);
    const auto some = std::ptrdiff_t(std::min<std::size_t>(outside.size(), TOP));
    std::partial_sort(outside.begin(), outside.begin() + some, outside.end());
    outside.resize(std::size_t(some));
    for (const auto *features : {&inside, &outside})
        for (const auto &[size, j] : *features) {
            if (!may_continue()) return false;
            Swept other = at;
            sweep(other, j);
            improve(other, poll);
            if (lower(other)) return true;
        }
    if (brief) return false;
    std::vector<std::uint8_t> held(std::size_t(d_), 0);
    for (const auto *features : {&inside, &outside})
        for (const auto &[size, j] : *features) {
            if (!may_continue()) return false;
            Swept other = at;
            sweep(other, j);
            if (other.count > k) {
                const std::int64_t least = least_costly(other, j);
                if (least >= 0) remove(other, least);
            } else {
                grow(other, k, j, poll);
            }
            held[j] = 1;
            improve(other, poll, held.data());
            held[j] = 0;
            if (lower(other)) return true;
        }
    return false;
}

GramSearch::Features GramSearch::counted(const Swept &at) const {
    Features features;
    for (const std::int64_t j : at.features)
        if (!kept_[j]) features.push_back(j);
    std::sort(features.begin(), features.end());
    return features;
}

void GramSearch::take_forward(std::int64_t count, Poll &poll) {
    while (std::int64_t(forward_.size()) < count && !ended_) {
        poll.check();
        const std::int64_t j = best_addition(ahead_, -1);
        ended_ = j < 0 || !add(ahead_, j);
        if (!ended_) forward_.push_back(j);
    }
}

void GramSearch::take_backward(Poll &poll) {
    if (!backward_.empty()) return;
    Swept at = empty_;
    for (std::int64_t j = 0; j < d_; ++j) {
        if (!at.inside[j]) add(at, j);
        poll.check();
    }
    Features order;
    while (at.count > 0) {
        order.push_back(least_costly(at));
        remove(at, order.back());
        poll.check();
    }
    backward_ = std::move(order);  // as a whole: a search that is interrupted leaves no part of it
}

std::vector<std::int64_t> GramSearch::forward(std::int64_t count, Poll &poll) {
    take_forward(count, poll);
    return {forward_.begin(), forward_.begin() + std::min(std::int64_t(forward_.size()), count)};
}

std::int64_t GramSearch::n_rows() const { return std::count(used_.begin(), used_.end(), std::uint8_t(1)); }

std::vector<std::int64_t> GramSearch::best(std::int64_t k, const std::vector<std::int64_t> *begin, bool brief,
                                           Poll &poll, const Allowed &allowed) {
    Swept best = empty_;
    work_ = 0.0;
    std::fill(used_.begin(), used_.end(), std::uint8_t(0));
    const auto consider = [&](Swept at) {
        improve(at, poll, nullptr, allowed);
        if (loss(at) < loss(best) - least_gain(best))
            best = std::move(at);  // not by rounding: it may have more features
    };
    if (k > 0) {
        if (begin != nullptr) {
            Swept at = over(*begin, poll);
            shrink(at, k, poll);
            grow(at, k, -1, poll);
            consider(std::move(at));
        } else {
            take_forward(2 * k, poll);
            const std::size_t first = std::min(forward_.size(), std::size_t(k)),
                              all = std::min(forward_.size(), std::size_t(2 * k));
            consider(over({forward_.begin(), forward_.begin() + std::int64_t(first)}, poll));
            Swept at = over({forward_.begin(), forward_.begin() + std::int64_t(all)}, poll);
            shrink(at, k, poll);
            consider(std::move(at));
            if (!gram_.complete()) {
                for (std::size_t shape = 0; shape < paths_.size(); ++shape)
                    consider(over(by_thresholds(k, shape, poll), poll));
            } else {
                take_backward(poll);
                const std::size_t last = std::min(backward_.size(), std::size_t(k));
                consider(over({backward_.end() - std::int64_t(last), backward_.end()}, poll));
            }
            if (k <= FEW && !forward_.empty()) {
                Swept other = empty_;
                grow(other, k, forward_[0], poll);
                consider(std::move(other));
            }
        }
        most_work_ = work_ + WORK + ROWS * gram_.work();
        for (std::int64_t round = 0; round < ROUNDS * d_; ++round) {
            Swept other = best;
            if (!escape(other, brief, poll) && (brief || !wander(other, poll))) break;
            if (allowed && !allowed()) break;
            best = std::move(other);
            poll.check();
        }
    }
    Features features;
    for (std::int64_t j = 0; j < d_; ++j)
        if (best.inside[j] || kept_[j]) features.push_back(j);
    return features;
}

}  // namespace levelprox
