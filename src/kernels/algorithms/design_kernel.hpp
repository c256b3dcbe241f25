// X as the bindings hold it: a Design whose arrays stay alive, and its products.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "algorithms/design.hpp"
#include "algorithms/interrupt.hpp"
#include "algorithms/passes.hpp"

namespace levelprox {

// Its subclasses (bindings/designs.cpp) hold references to the arrays that the slices read.
class DesignKernel {
public:
    virtual ~DesignKernel() = default;
    DesignKernel(const DesignKernel &) = delete;
    DesignKernel &operator=(const DesignKernel &) = delete;

    Design design;

    // out = Xx
    void matvec(const double *x, double *out, Poll &poll) const { levelprox::matvec(design, x, out, poll); }
    // out = X'r
    void rmatvec(const double *r, double *out, Poll &poll) const { levelprox::rmatvec(design, r, out, poll); }

    // out_j = sum_i weight_i X_ij^2
    void column_squares(const double *weight, double *out, Poll &poll) const {
        design.by_rows ? add_pass(*design.slices, true, weight, out, poll)
                       : dot_pass(*design.slices, true, weight, out, poll);
    }

    // out_i = sum_j X_ij^2
    void row_squares(double *out, Poll &poll) const {
        const std::vector<double> ones(design.columns(), 1.0);
        design.by_rows ? dot_pass(*design.slices, true, ones.data(), out, poll)
                       : add_pass(*design.slices, true, ones.data(), out, poll);
    }

    Nonfinite nonfinite(Poll &poll) const {
        Nonfinite all;
        std::mutex finding;
        for_pieces(*design.slices, poll, [&](std::int64_t begin, std::int64_t end) {
            const Nonfinite found = design.slices->nonfinite(begin, end);
            if (!found.count) return;
            const std::lock_guard lock(finding);
            const bool earlier = all.count == 0 || found.slice < all.slice;
            const std::int64_t count = all.count + found.count;
            if (earlier) all = found;
            all.count = count;
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
    std::unique_ptr<Slices> slices_;
};

}  // namespace levelprox
