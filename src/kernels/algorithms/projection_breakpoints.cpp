// The projection by sorting breakpoints: any u, and weights however far apart.
//
// A coordinate has two branches, x = [a - w y]_+ with a = v, w = omega (1 + u), and x = -[a - w y]_+ with a = -v,
// w = omega (1 - u); the price w may be negative, at most one branch is active at any y, and
//
//     l(y) = sum over the active branches of w (a - w y)
//
// decreases. A branch begins or ends where y = a/w, its breakpoint; between breakpoints l is linear. Three things keep
// the answer right where prices differ by many orders of magnitude, so that terms of l are far larger than tau:
//
// - All sums are in double-double arithmetic, and which branches are active follows from the order of the breakpoints,
//   not from the sign of a - w y.
// - Breakpoints closer than 2^-78 of themselves count as one, where their branches are exactly zero. Any other active
//   branch then has a term so far from zero that its rounding cannot decide whether l exceeds tau.
// - x(y) is rounded to the side that costs less, and y is raised by what rounding may have cost until the level holds
// in
//   exact arithmetic.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "algorithms/feasible.hpp"
#include "algorithms/projection.hpp"

namespace levelprox {
namespace {

constexpr double SAME_BREAKPOINT = 0x1p-78;                // relative distance
constexpr double ROUNDING = 0x1p-100;                      // of a sum, relative to its terms
constexpr double HUGE_EXTENT = 1e30, TINY_EXTENT = 1e-30;  // beyond these v is scaled: a/w stays in range
constexpr double INF = std::numeric_limits<double>::infinity();

struct Branch {
    std::int64_t coordinate;
    double a;
    HeadTail w;
    bool minus;                        // x = -[a - w y]_+
    std::int64_t first = 0, last = 0;  // the linear pieces of l on which it is active
    HeadTail breakpoint() const { return over({a, 0}, w); }
};

struct Turn {
    HeadTail y;
    std::int64_t branch;
    bool operator<(const Turn &other) const { return less(y, other.y); }
};

template <class T>
class Breakpoints {
public:
    explicit Breakpoints(const Ball<T> &ball) : ball_(ball) {
        scale();
        for (std::int64_t i = 0; i < ball.d; ++i) {
            add(i, false);
            if (!must_be_nonnegative(ball, i)) add(i, true);
        }
        sort();
    }

    Projection solve(T *x, int passes) {
        if (tau_ < 0 && !can_be_negative_) return {Projected::infeasible, 0, passes};
        if (!find_multiplier()) return {Projected::infeasible, 0, passes};
        // Raise y by what rounding may have cost, and more until the level holds.
        double shift = ROUNDING * rounding_scale() / square_;
        for (int trial = 0;; ++trial, shift *= 4) {
            if (!write(x)) return {Projected::infeasible, 0, passes};  // beyond the floating-point range
            if (is_feasible(ball_, x)) break;
            if (trial == 64 || !(square_ > 0)) return {Projected::infeasible, 0, passes};
            y_ = plus(y_, {std::max(shift, ROUNDING * y_.head), 0});
        }
        const double y = std::ldexp(y_.head, of_v_ - of_w_ - of_piece_);
        return {Projected::done, std::min(y, std::numeric_limits<double>::max()), passes};
    }

private:
    double u(std::int64_t i) const { return ball_.u ? double(ball_.u[i]) : 0.0; }
    double omega(std::int64_t i) const { return ball_.omega ? double(ball_.omega[i]) : 1.0; }

    // omega (1 +- u): the sum in brackets is exact.
    HeadTail price(std::int64_t i, bool minus) const {
        return times(two_sum(1, minus ? -u(i) : u(i)), {std::ldexp(omega(i), -of_w_), 0});
    }

    // Whether the branch is active for some y > 0: not where it begins at or below zero and has to be paid for.
    static bool can_be_active(double a, double w) { return w < 0 || (w > 0 && a > 0); }

    // Powers of two: of the prices, so that the largest is about 1, and of v and x.
    void scale() {
        double largest_w = 0, largest_negative = 0, extent = 0;
        for (std::int64_t i = 0; i < ball_.d; ++i)
            for (const bool minus : {false, true}) {
                if (minus && must_be_nonnegative(ball_, i)) continue;
                const double a = minus ? -double(ball_.v[i]) : double(ball_.v[i]), w = price(i, minus).head;
                if (!can_be_active(a, w)) continue;
                largest_w = std::max(largest_w, std::fabs(w));
                largest_negative = std::max(largest_negative, -w);
                extent = std::max(extent, std::fabs(a));
            }
        if (largest_w > 0) of_w_ = std::ilogb(largest_w);
        can_be_negative_ = largest_negative > 0;
        int exponent = extent > 0 ? std::ilogb(extent) : std::numeric_limits<int>::min();
        if (ball_.tau < 0 && can_be_negative_)  // some coordinate becomes about as large as tau over its price
            exponent = std::max(exponent, std::ilogb(ball_.tau) - std::ilogb(largest_negative));
        const bool far = exponent > std::ilogb(HUGE_EXTENT) || exponent < std::ilogb(TINY_EXTENT);
        if (far && exponent > std::numeric_limits<int>::min()) of_v_ = exponent;
        tau_ = std::ldexp(ball_.tau, -of_v_ - of_w_);
        if (std::ldexp(tau_, of_v_ + of_w_) > ball_.tau) tau_ = std::nextafter(tau_, -INF);
    }

    void add(std::int64_t i, bool minus) {
        const HeadTail w = price(i, minus);
        const double v = minus ? -double(ball_.v[i]) : double(ball_.v[i]);
        double a = std::ldexp(v, -of_v_);
        if (!can_be_active(v, w.head)) return;
        if (std::ldexp(a, of_v_) != v)  // where scaling rounds, it rounds to the side that costs less
            a = std::nextafter(a, w.head > 0 ? -INF : INF);
        branches_.push_back({i, a, w, minus});
    }

    // Whether a/w > 0, by signs: the product of subnormal numbers may vanish.
    static bool turns_at_positive(const Branch &branch) {
        return branch.a != 0 && (branch.a > 0) == (branch.w.head > 0);
    }

    // Number the pieces of l: [0, t_0], [t_0, t_1], ..., [t_last, inf).
    void sort() {
        std::vector<Turn> turns;
        for (std::int64_t b = 0; b < std::int64_t(branches_.size()); ++b)
            if (turns_at_positive(branches_[b])) turns.push_back({branches_[b].breakpoint(), b});
        std::sort(turns.begin(), turns.end());
        for (const Turn &turn : turns) {
            if (ends_.empty() || plus(turn.y, negative(ends_.back())).head > SAME_BREAKPOINT * turn.y.head)
                ends_.push_back(turn.y);
            ends_.back() = turn.y;
            const std::int64_t before = std::int64_t(ends_.size()) - 1;  // the piece that ends there
            Branch &branch = branches_[turn.branch];
            if (branch.w.head > 0) {
                branch.last = before;
            } else {
                branch.first = before + 1;
                branch.last = std::numeric_limits<std::int64_t>::max();
            }
        }
        for (Branch &branch : branches_)
            if (branch.w.head < 0 && branch.a >= 0) branch.last = std::numeric_limits<std::int64_t>::max();
    }

    static HeadTail size_at(const Branch &branch, HeadTail w, HeadTail y) {
        return plus({branch.a, 0}, negative(times(w, y)));
    }

    // l(0), and l at the end of a piece: without the branches that begin or end there.
    HeadTail level_at_zero() const {
        HeadTail sum{0, 0};
        for (const Branch &branch : branches_)
            if (branch.a > 0) sum = plus(sum, times(branch.w, {branch.a, 0}));
        return sum;
    }
    HeadTail level_at_end(std::int64_t piece) const {
        HeadTail sum{0, 0};
        for (const Branch &branch : branches_)
            if (branch.first <= piece && branch.last > piece)
                sum = plus(sum, times(branch.w, size_at(branch, branch.w, ends_[piece])));
        return sum;
    }
    bool is_low_enough(HeadTail level) const { return !less({tau_, 0}, level); }

    // The smallest y with l(y) <= tau; false when there is none.
    bool find_multiplier() {
        const bool at_zero = is_low_enough(level_at_zero());
        std::int64_t piece = 0;
        for (std::int64_t behind = at_zero ? 0 : std::int64_t(ends_.size()); piece < behind;) {
            const std::int64_t middle = piece + (behind - piece) / 2;
            if (is_low_enough(level_at_end(middle))) {
                behind = middle;
            } else {
                piece = middle + 1;
            }
        }
        for (const Branch &branch : branches_)
            if (branch.first <= piece && piece <= branch.last) active_.push_back(&branch);
        double largest = 0;
        for (const Branch *branch : active_) largest = std::max(largest, std::fabs(branch->w.head));
        of_piece_ = largest > 0 ? std::ilogb(largest) : 0;
        const HeadTail begin = piece == 0 ? HeadTail{0, 0} : scaled(ends_[piece - 1], of_piece_);
        const HeadTail end = piece == std::int64_t(ends_.size()) ? HeadTail{INF, 0} : scaled(ends_[piece], of_piece_);
        HeadTail product{0, 0}, square{0, 0};
        for (const Branch *branch : active_) {
            const HeadTail w = scaled(branch->w, -of_piece_);
            product = plus(product, times(w, {branch->a, 0}));
            square = plus(square, times(w, w));
        }
        square_ = square.head;
        y_ = begin;
        if (at_zero) return true;
        if (!(square_ > 0)) return tau_ >= 0;
        const double tau = std::ldexp(tau_, -of_piece_);
        if (std::isinf(tau)) return false;
        const HeadTail root = over(plus(product, {-tau, 0}), square);
        if (less(begin, root)) y_ = root;
        if (less(end, y_)) y_ = end;
        if (!less(y_, end)) {  // branches that end there are zero
            const auto ends_here = [&](const Branch *branch) { return branch->last == piece; };
            active_.erase(std::remove_if(active_.begin(), active_.end(), ends_here), active_.end());
        }
        return true;
    }

    // sum |w| (|a| + |w| y) over the active branches: the scale of rounding in l(y).
    double rounding_scale() const {
        double sum = std::ldexp(std::fabs(tau_), -of_piece_);
        for (const Branch *branch : active_) {
            const double w = std::fabs(std::ldexp(branch->w.head, -of_piece_));
            sum += w * (std::fabs(branch->a) + w * y_.head);
        }
        return sum;
    }

    // x(y), each coordinate rounded to the side that costs less; false where one is beyond the floating-point range.
    bool write(T *x) const {
        for (std::int64_t i = 0; i < ball_.d; ++i) {
            const bool free = price(i, ball_.v[i] < 0).head == 0;  // without a price it is not moved
            const bool held = ball_.v[i] < 0 && must_be_nonnegative(ball_, i);
            x[i] = free && !held ? ball_.v[i] : T(0);
        }
        for (const Branch *branch : active_) {
            const HeadTail size = size_at(*branch, scaled(branch->w, -of_piece_), y_);
            if (!(size.head > 0)) continue;
            const T rounded = rounded_to_cheaper(size, branch->w.head > 0);
            if (!std::isfinite(rounded)) return false;
            x[branch->coordinate] = branch->minus ? -rounded : rounded;
        }
        for (std::int64_t i = 0; i < ball_.d; ++i) x[i] += T(0);  // no negative zeros
        return true;
    }
    T rounded_to_cheaper(HeadTail size, bool down) const {
        const double value = std::ldexp(size.head, of_v_);
        if (down && value > double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
        const T rounded = T(value);
        const double excess = plus({std::ldexp(double(rounded), -of_v_), 0}, negative(size)).head;
        if (down && excess > 0) return std::nextafter(rounded, T(0));
        if (!down && excess < 0) return std::nextafter(rounded, std::numeric_limits<T>::infinity());
        return rounded;
    }

    const Ball<T> &ball_;
    int of_w_ = 0, of_v_ = 0,
        of_piece_ = 0;  // exponents: prices, coordinates and the prices of the piece are divided by these
    double tau_ = 0, square_ = 0;
    bool can_be_negative_ = false;
    std::vector<Branch> branches_;
    std::vector<HeadTail> ends_;          // of the pieces
    std::vector<const Branch *> active_;  // at y
    HeadTail y_{0, 0};
};

}  // namespace

template <class T>
Projection project_by_breakpoints(const Ball<T> &ball, T *x, int passes) {
    return Breakpoints<T>(ball).solve(x, passes);
}

template Projection project_by_breakpoints<float>(const Ball<float> &, float *, int);
template Projection project_by_breakpoints<double>(const Ball<double> &, double *, int);

}  // namespace levelprox
