// Sums of products of floating-point numbers without any rounding.
//
// An `ExactSum` is a list of doubles whose exact sum is the value (Shewchuk's expansion: each partial
// is too small to touch the last bit of the next), so that its sign is the sign of its last partial.
// Products are split into head and tail by Dekker's algorithm, which needs no fused multiply-add.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace levelprox {

struct HeadTail {
    double head, tail;  // head + tail is exact
};

inline HeadTail two_sum(double a, double b) {
    const double head = a + b, back = head - a;
    return {head, (a - (head - back)) + (b - back)};
}

inline HeadTail split(double a) {
    const double scaled = 134217729.0 * a;  // 2^27 + 1
    const double head = scaled - (scaled - a);
    return {head, a - head};
}

inline HeadTail two_product(double a, double b) {
    const double head = a * b;
    const HeadTail p = split(a), q = split(b);
    return {head, ((p.head * q.head - head) + p.head * q.tail + p.tail * q.head) + p.tail * q.tail};
}

// Double-double arithmetic: a head, and a tail below half a unit of its last place; relative errors of a few 2^-104.
inline HeadTail normalized(double head, double tail) {
    const double sum = head + tail;
    return {sum, tail - (sum - head)};
}

inline HeadTail plus(HeadTail a, HeadTail b) {
    const HeadTail heads = two_sum(a.head, b.head), tails = two_sum(a.tail, b.tail);
    const HeadTail first = normalized(heads.head, heads.tail + tails.head);
    return normalized(first.head, first.tail + tails.tail);
}

inline HeadTail times(HeadTail a, HeadTail b) {
    const HeadTail heads = two_product(a.head, b.head);
    return normalized(heads.head, heads.tail + (a.head * b.tail + a.tail * b.head));
}

inline HeadTail negative(HeadTail a) { return {-a.head, -a.tail}; }

inline HeadTail over(HeadTail a, HeadTail b) {
    const double first = a.head / b.head;
    const HeadTail rest = plus(a, negative(times(b, {first, 0})));
    const double second = rest.head / b.head;
    const HeadTail left = plus(rest, negative(times(b, {second, 0})));
    return plus(normalized(first, second), {left.head / b.head, 0});
}

inline HeadTail scaled(HeadTail a, int exponent) {
    return {std::ldexp(a.head, exponent), std::ldexp(a.tail, exponent)};
}

inline bool less(HeadTail a, HeadTail b) { return a.head < b.head || (a.head == b.head && a.tail < b.tail); }

// sum + term, with what the addition rounds away; after an overflow the sum is its head alone.
inline void add_to(HeadTail &sum, double term) {
    const HeadTail next = two_sum(sum.head, term);
    sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
}

// The sum of n terms as head + tail, in lanes that do not wait for one another; always the same lanes, hence bits.
inline HeadTail compensated_sum(std::int64_t n, const double *terms) {
    constexpr int LANES = 8;
    double head[LANES] = {}, tail[LANES] = {};
    std::int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) {
            const HeadTail next = two_sum(head[k], terms[i + k]);
            head[k] = next.head;
            tail[k] += next.tail;
        }
    HeadTail sum{0, 0};
    for (int k = 0; k < LANES; ++k) {
        add_to(sum, head[k]);
        if (std::isfinite(sum.head)) sum.tail += tail[k];
    }
    for (; i < n; ++i) add_to(sum, terms[i]);
    return sum;
}

class ExactSum {
public:
    void add(double term) {
        std::size_t kept = 0;
        for (double partial : partials_) {
            const HeadTail sum = two_sum(term, partial);
            if (sum.tail != 0) partials_[kept++] = sum.tail;
            term = sum.head;
        }
        partials_.resize(kept);
        if (term != 0) partials_.push_back(term);  // or a zero would hide the sign of the rest
    }
    // a b c, each product split exactly; c = 1 costs nothing.
    void add_product(double a, double b, double c = 1) {
        const HeadTail ab = two_product(a, b);
        for (double part : {ab.head, ab.tail}) {
            if (part == 0) continue;
            if (c == 1) {
                add(part);
                continue;
            }
            const HeadTail abc = two_product(part, c);
            add(abc.head);
            if (abc.tail != 0) add(abc.tail);
        }
    }
    double leading() const { return partials_.empty() ? 0.0 : partials_.back(); }

private:
    std::vector<double> partials_;
};

}  // namespace levelprox
