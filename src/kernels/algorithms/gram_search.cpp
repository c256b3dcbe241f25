#include "algorithms/gram_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levelprox {

namespace {

constexpr double DEPENDENT = 1e-10;  // of a diagonal of 1: the rest of a feature that is almost spanned by others
constexpr double LOWER = 1e-11;      // of the loss: less is not an improvement
constexpr double ROUNDING = 1e-13;   // of c'x of all features, the same
constexpr std::int64_t ROUNDS = 10;  // swaps for each feature, and escapes from a set: rounding may cause cycles
constexpr std::int64_t FEW = 5;      // features, of which the first one added may have too much influence
constexpr std::int64_t TOP = 16;     // features that are tried as one too many
constexpr std::int64_t HELD = 8;     // steps for which a feature is held
constexpr std::int64_t FEWEST_STEPS = 30, MOST_STEPS = 150;  // without a lower loss

}  // namespace

GramSearch::GramSearch(std::int64_t d, const double *gram, const double *pull, double square, const std::uint8_t *kept)
    : d_(d), order_(std::size_t(d) + 1), gram_(gram), pull_(pull), square_(square), kept_(kept) {
    empty_.matrix.resize(order_ * order_);
    empty_.diagonal.resize(order_);
    empty_.inside.assign(order_, 0);
    for (std::size_t i = 0; i < std::size_t(d); ++i) {
        std::copy(gram + i * d, gram + (i + 1) * d, &empty_.matrix[i * order_]);
        empty_.matrix[i * order_ + d] = empty_.matrix[d * order_ + i] = pull[i];
        empty_.diagonal[i] = gram[i * d + i];
    }
    empty_.matrix[d * order_ + d] = empty_.diagonal[d] = square;
    for (std::int64_t j = 0; j < d; ++j)
        if (kept[j]) sweep(empty_, j);
    ahead_ = empty_;
}

// By how much the loss must fall to be lower.
double GramSearch::least_gain(const Swept &at) const { return LOWER * std::max(loss(at), 0.0) + ROUNDING * square_; }

// Takes feature j in, or leaves it out.
void GramSearch::sweep(Swept &at, std::int64_t j) const {
    const bool enters = !at.inside[j];
    double *pivot_row = &at.matrix[std::size_t(j) * order_];
    const double pivot = pivot_row[j];
    if (enters && !(pivot > DEPENDENT)) return;  // depends on the others
    const double inverse = 1 / pivot;
    for (std::size_t i = 0; i < order_; ++i) {
        if (std::int64_t(i) == j) continue;
        double *row = &at.matrix[i * order_];
        const double factor = pivot_row[i] * inverse;
        for (std::size_t l = 0; l < order_; ++l) row[l] -= factor * pivot_row[l];
    }
    const double sign = enters ? inverse : -inverse;
    for (std::size_t l = 0; l < order_; ++l) pivot_row[l] *= sign;
    pivot_row[j] = -inverse;
    for (std::size_t i = 0; i < order_; ++i) at.matrix[i * order_ + j] = pivot_row[i];
    for (std::size_t i = 0; i < order_; ++i) at.diagonal[i] = at.matrix[i * order_ + i];
    at.inside[j] = enters;
    if (!kept_[j]) at.count += enters ? 1 : -1;
}

GramSearch::Swept GramSearch::over(const std::vector<std::int64_t> &features) const {
    Swept at = empty_;
    for (const std::int64_t j : features)
        if (!at.inside[j]) sweep(at, j);
    return at;
}

std::int64_t GramSearch::best_addition(const Swept &at, std::int64_t without) const {
    const double *pull = &at.matrix[std::size_t(d_) * order_];
    std::int64_t best = -1;
    double most = least_gain(at);
    for (std::int64_t j = 0; j < d_; ++j) {
        if (at.inside[j] || j == without || !(at.diagonal[j] > DEPENDENT)) continue;
        const double gain = pull[j] * pull[j] / at.diagonal[j];
        if (gain > most) {
            most = gain;
            best = j;
        }
    }
    return best;
}

double GramSearch::cost(const Swept &at, std::int64_t i) const {
    const double x = at.matrix[std::size_t(d_) * order_ + i];
    return x * x / -at.diagonal[i];
}

std::int64_t GramSearch::least_costly(const Swept &at) const {
    std::int64_t least = -1;
    for (std::int64_t i = 0; i < d_; ++i)
        if (at.inside[i] && !kept_[i] && (least < 0 || cost(at, i) < cost(at, least))) least = i;
    return least;
}

void GramSearch::grow(Swept &at, std::int64_t k, std::int64_t without) const {
    while (at.count < k) {
        const std::int64_t j = best_addition(at, without);
        if (j < 0) return;
        sweep(at, j);
    }
}

void GramSearch::shrink(Swept &at, std::int64_t k) const {
    while (at.count > k) sweep(at, least_costly(at));
}

// The swap that gains more than `most`, and more than all others, of features that are free to move; -1 where there
// is none. Without i, what is left of j is G_jj - B_ji^2 / -K_ii, and so on.
std::pair<std::int64_t, std::int64_t> GramSearch::best_exchange(const Swept &at, double most,
                                                                const std::uint8_t *held) const {
    const double *pull = &at.matrix[std::size_t(d_) * order_];
    const double *diagonal = at.diagonal.data();
    std::int64_t leaves = -1, enters = -1;
    std::vector<double> gain(std::size_t(d_), 0.0);
    for (std::int64_t i = 0; i < d_; ++i) {
        if (!at.inside[i] || kept_[i] || (held != nullptr && held[i])) continue;
        const double *across = &at.matrix[std::size_t(i) * order_];
        const double inverse = 1 / diagonal[i], step = pull[i] * inverse, price = cost(at, i);
        for (std::int64_t j = 0; j < d_; ++j) {
            const double slope = pull[j] - across[j] * step, left = diagonal[j] - across[j] * across[j] * inverse;
            gain[j] = left > DEPENDENT ? slope * slope / left : 0.0;
        }
        for (std::int64_t j = 0; j < d_; ++j)
            if (gain[j] - price > most && !at.inside[j] && gain[j] > 0 && !(held != nullptr && held[j])) {
                most = gain[j] - price;
                leaves = i;
                enters = j;
            }
    }
    return {leaves, enters};
}

bool GramSearch::exchange(Swept &at, const std::uint8_t *held) const {
    const auto [leaves, enters] = best_exchange(at, least_gain(at), held);
    if (leaves < 0) return false;
    const double before = loss(at);
    sweep(at, leaves);
    sweep(at, enters);
    if (at.inside[enters] && loss(at) < before) return true;
    if (at.inside[enters]) sweep(at, enters);  // rounding
    sweep(at, leaves);
    return false;
}

// The best swap repeatedly, whether it gains or not, with swapped features fixed for some steps: for as long as that
// leads to a lower loss within some steps.
bool GramSearch::wander(Swept &at, Poll &poll) const {
    const std::int64_t k = at.count, others = d_ - k;
    const std::int64_t steps = std::min(MOST_STEPS, FEWEST_STEPS + 4 * k);
    const std::int64_t held_out = std::min(HELD, others / 3), held_in = std::min(HELD, k / 3);
    std::vector<std::int64_t> until(std::size_t(d_), 0), lowest;
    std::vector<std::uint8_t> held(std::size_t(d_), 0);
    double least = loss(at) - least_gain(at);
    Swept here = at;
    for (std::int64_t step = 1, last = 0; step - last <= steps; ++step) {
        poll.check();
        for (std::int64_t j = 0; j < d_; ++j) held[j] = until[j] > step;
        const auto [leaves, enters] = best_exchange(here, -std::numeric_limits<double>::infinity(), held.data());
        if (leaves < 0) break;
        sweep(here, leaves);
        sweep(here, enters);
        until[leaves] = step + 1 + held_out;
        until[enters] = step + 1 + held_in;
        if (here.count == k && loss(here) < least) {
            least = loss(here) - least_gain(here);
            lowest = counted(here);
            last = step;
        }
    }
    if (lowest.empty()) return false;
    here = over(lowest);
    improve(here, poll);
    if (!(loss(here) < loss(at) - least_gain(at))) return false;
    at = std::move(here);
    return true;
}

void GramSearch::improve(Swept &at, Poll &poll, const std::uint8_t *held) const {
    for (std::int64_t round = 0; round < ROUNDS * d_ && exchange(at, held); ++round) poll.check();
}

// Remove one feature, each in turn, or add one, the most useful in turn; swap features there, and return to k features.
// Then from the best set without each of its features, and with each of the most useful others.
bool GramSearch::escape(Swept &at, bool brief, Poll &poll) const {
    const std::int64_t k = at.count;
    const auto lower = [&](Swept &other) {
        grow(other, k, -1);
        shrink(other, k);
        improve(other, poll);
        if (!(loss(other) < loss(at) - least_gain(at))) return false;
        at = over(counted(other));
        return true;
    };
    std::vector<std::pair<double, std::int64_t>> inside, outside;
    for (const std::int64_t i : counted(at)) inside.emplace_back(cost(at, i), i);
    const double *pull = &at.matrix[std::size_t(d_) * order_];
    for (std::int64_t j = 0; j < d_; ++j)
        if (!at.inside[j] && at.diagonal[j] > DEPENDENT) outside.emplace_back(-pull[j] * pull[j] / at.diagonal[j], j);
    std::sort(inside.begin(), inside.end());
    std::sort(outside.begin(), outside.end());
    outside.resize(std::min<std::size_t>(outside.size(), TOP));
    for (const auto *features : {&inside, &outside})
        for (const auto &[size, j] : *features) {
            Swept other = at;
            sweep(other, j);
            improve(other, poll);
            if (lower(other)) return true;
        }
    if (brief) return false;
    std::vector<std::uint8_t> held(std::size_t(d_), 0);
    for (const auto *features : {&inside, &outside})
        for (const auto &[size, j] : *features) {
            Swept other = at;
            sweep(other, j);
            if (other.count > k) {
                std::int64_t least = -1;
                for (const std::int64_t i : counted(other))
                    if (i != j && (least < 0 || cost(other, i) < cost(other, least))) least = i;
                if (least >= 0) sweep(other, least);
            } else {
                grow(other, k, j);
            }
            held[j] = 1;
            improve(other, poll, held.data());
            held[j] = 0;
            if (lower(other)) return true;
        }
    return false;
}

std::vector<std::int64_t> GramSearch::counted(const Swept &at) const {
    std::vector<std::int64_t> features;
    for (std::int64_t j = 0; j < d_; ++j)
        if (at.inside[j] && !kept_[j]) features.push_back(j);
    return features;
}

void GramSearch::take_forward(std::int64_t count) {
    while (std::int64_t(forward_.size()) < count && !ended_) {
        const std::int64_t j = best_addition(ahead_, -1);
        ended_ = j < 0;
        if (ended_) return;
        sweep(ahead_, j);
        forward_.push_back(j);
    }
}

void GramSearch::take_backward(Poll &poll) {
    if (!backward_.empty()) return;
    Swept at = empty_;
    for (std::int64_t j = 0; j < d_; ++j) {
        if (!at.inside[j]) sweep(at, j);
        poll.check();
    }
    while (at.count > 0) {
        backward_.push_back(least_costly(at));
        sweep(at, backward_.back());
        poll.check();
    }
}

std::vector<std::int64_t> GramSearch::best(std::int64_t k, const std::vector<std::int64_t> *begin, bool brief,
                                           Poll &poll) {
    Swept best = empty_;
    const auto consider = [&](Swept at) {
        improve(at, poll);
        if (loss(at) < loss(best)) best = std::move(at);
    };
    if (k > 0) {
        if (begin != nullptr) {
            Swept at = over(*begin);
            shrink(at, k);
            grow(at, k, -1);
            consider(std::move(at));
        } else {
            take_forward(2 * k);
            const std::size_t first = std::min(forward_.size(), std::size_t(k)),
                              all = std::min(forward_.size(), std::size_t(2 * k));
            consider(over({forward_.begin(), forward_.begin() + std::int64_t(first)}));
            Swept at = over({forward_.begin(), forward_.begin() + std::int64_t(all)});
            shrink(at, k);
            consider(std::move(at));
            take_backward(poll);
            const std::size_t last = std::min(backward_.size(), std::size_t(k));
            consider(over({backward_.end() - std::int64_t(last), backward_.end()}));
            if (k <= FEW && !forward_.empty()) {
                Swept other = empty_;
                grow(other, k, forward_[0]);
                consider(std::move(other));
            }
        }
        for (std::int64_t round = 0;
             round < ROUNDS * d_ && (escape(best, brief, poll) || (!brief && wander(best, poll))); ++round)
            poll.check();
    }
    std::vector<std::int64_t> features;
    for (std::int64_t j = 0; j < d_; ++j)
        if (best.inside[j] || kept_[j]) features.push_back(j);
    return features;
}

}  // namespace levelprox
