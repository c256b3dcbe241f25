// Sums of products of floating-point numbers without any rounding.
//
// An `ExactSum` is a list of doubles whose exact sum is the value (Shewchuk's expansion: each partial
// is too small to touch the last bit of the next), so that its sign is the sign of its last partial.
// Products are split into head and tail by Dekker's algorithm, which needs no fused multiply-add.
#pragma once
#include <cmath>
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
