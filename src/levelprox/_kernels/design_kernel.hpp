// X as Python hands it to the kernels: a Design whose arrays stay alive, and its products.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "design.hpp"
#include "interrupt.hpp"

namespace levelprox {

// body(begin, end) for one piece of slices after the other; a pending Ctrl-C is noticed in between.
template <class Body>
void in_pieces(const Slices &slices, Poll &poll, Body body) {
    for (std::int64_t begin = 0, end; begin < slices.count; begin = end) {
        end = piece_end(slices, begin);
        body(begin, end);
        poll.check();
    }
}

// Its subclasses (bind_designs.cpp) hold references to the arrays that the slices read.
class DesignKernel {
public:
    virtual ~DesignKernel() = default;
    DesignKernel(const DesignKernel &) = delete;
    DesignKernel &operator=(const DesignKernel &) = delete;

    Design design;

    // out = Xx
    void matvec(const double *x, double *out, Poll &poll) const { product(design.by_rows, x, out, poll); }
    // out = X'r
    void rmatvec(const double *r, double *out, Poll &poll) const { product(!design.by_rows, r, out, poll); }

    // out_j = sum_i weight_i X_ij^2
    void column_squares(const double *weight, double *out, Poll &poll) const {
        const Slices &slices = *design.slices;
        if (design.by_rows) std::fill_n(out, slices.length, 0.0);
        in_pieces(slices, poll, [&](std::int64_t begin, std::int64_t end) {
            if (design.by_rows)
                slices.add_squares(begin, end, weight + begin, out);
            else
                slices.dot_squares(begin, end, weight, out + begin);
        });
    }

    // out_i = sum_j X_ij^2
    void row_squares(double *out, Poll &poll) const {
        const Slices &slices = *design.slices;
        const std::vector<double> ones(design.by_rows ? slices.length : slices.count, 1.0);
        if (!design.by_rows) std::fill_n(out, slices.length, 0.0);
        in_pieces(slices, poll, [&](std::int64_t begin, std::int64_t end) {
            if (design.by_rows)
                slices.dot_squares(begin, end, ones.data(), out + begin);
            else
                slices.add_squares(begin, end, ones.data() + begin, out);
        });
    }

    Nonfinite nonfinite(Poll &poll) const {
        Nonfinite all;
        in_pieces(*design.slices, poll, [&](std::int64_t begin, std::int64_t end) {
            const Nonfinite found = design.slices->nonfinite(begin, end);
            if (all.count == 0) all = found;
            else all.count += found.count;
        });
        return all;
    }

protected:
    DesignKernel() = default;
    void hold(std::unique_ptr<Slices> slices, bool by_rows) {
        slices_ = std::move(slices);
        design = {slices_.get(), by_rows};
    }

private:
    void product(bool dot, const double *in, double *out, Poll &poll) const {
        const Slices &slices = *design.slices;
        if (!dot) std::fill_n(out, slices.length, 0.0);
        in_pieces(slices, poll, [&](std::int64_t begin, std::int64_t end) {
            if (dot)
                slices.dot(begin, end, in, out + begin);
            else
                slices.add(begin, end, in + begin, out);
        });
    }

    std::unique_ptr<Slices> slices_;
};

}  // namespace levelprox
