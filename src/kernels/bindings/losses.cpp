// Means of a loss over the samples, and their gradients: sum_i s_i l(z_i, b_i) / sum_i s_i.
//
// Sums are compensated and run in the order of the samples, so the same data give the same bits.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "algorithms/exact.hpp"
#include "algorithms/loss.hpp"
#include "bindings/enums.hpp"
#include "bindings/module.hpp"

namespace nb = nanobind;
namespace levelprox {
namespace {

using Input = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Samples between two checks for Ctrl-C: a few hundredths of a second for the slowest loss.
constexpr std::int64_t kSlice = std::int64_t{1} << 20;
// Samples per virtual call when the losses themselves are only passed on to a sum.
constexpr std::int64_t kBlock = 1024;

// Calls body(begin, end) on successive slices of 0..n without the GIL.
template <class Body>
void in_slices(std::int64_t n, Body body) {
    for (std::int64_t begin = 0; begin < n; begin += kSlice) {
        {
            nb::gil_scoped_release release;
            body(begin, std::min(begin + kSlice, n));
        }
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
}

void add_parts(HeadTail &sum, const HeadTail &part) {
    add_to(sum, part.head);
    add_to(sum, part.tail);
}

// The weights of the samples, all 1 if there are none.
//
// A mean does not change when its weights are scaled, so they are taken times the power of two that
// brings the largest into [1, 2): exact, and weights of 1e-300 or 1e300 cost no digits.
class Weights {
public:
    Weights(std::int64_t n, const double *s) : s_(s), total_(static_cast<double>(n)) {
        if (n == 0) throw std::invalid_argument("there are no samples to average over");
        if (s == nullptr) return;
        double largest = 0.0, least = 0.0;
        HeadTail all{0, 0};
        in_slices(n, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                largest = std::max(largest, s[i]);
                least = std::min(least, s[i]);
            }
            add_parts(all, compensated_sum(end - begin, s + begin));
        });
        const double total = all.head + all.tail;  // NaN if a weight is
        if (!(least == 0.0 && total > 0.0 && std::isfinite(total)))
            throw std::invalid_argument("weights must be nonnegative and have a positive, finite sum");
        // 2^1023 is the largest power there is; it brings even the least subnormal to 2^-51.
        scale_ = std::ldexp(1.0, std::min(-std::ilogb(largest), 1023));
        total_ = total * scale_;
    }

    double total() const { return total_; }
    // s_i x, and exactly 0 where s_i = 0 even if x is infinite or NaN: such a sample does not count.
    double times(std::int64_t i, double x) const {
        if (s_ == nullptr) return x;
        return s_[i] == 0.0 ? 0.0 : s_[i] * scale_ * x;
    }

private:
    const double *s_;
    double scale_ = 1.0;
    double total_;
};

double weighted_sum(const Loss &loss, std::int64_t n, const double *z, const double *b, const Weights &weights,
                    double scale) {
    HeadTail all{0, 0};
    in_slices(n, [&](std::int64_t slice_begin, std::int64_t slice_end) {
        std::array<double, kBlock> losses;
        for (std::int64_t begin = slice_begin; begin < slice_end; begin += kBlock) {
            const std::int64_t size = std::min(kBlock, slice_end - begin);
            loss.value(size, z + begin, b + begin, losses.data());
            for (std::int64_t i = 0; i < size; ++i) {
                double &loss_i = losses[static_cast<std::size_t>(i)];
                loss_i = weights.times(begin + i, loss_i * scale);
            }
            add_parts(all, compensated_sum(size, losses.data()));
        }
    });
    return all.head + all.tail;
}

double mean(const Loss &loss, std::int64_t n, const double *z, const double *b, const double *s) {
    const Weights weights(n, s);
    const double sum = weighted_sum(loss, n, z, b, weights, 1.0);
    if (!std::isinf(sum)) return sum / weights.total();
    // The sum may overflow where the mean does not: add once more with each term divided by a power
    // of two above the total weight. Not done at once, since it would cost tiny losses their digits.
    const double scale = std::ldexp(1.0, -std::ilogb(weights.total()) - 1);
    return weighted_sum(loss, n, z, b, weights, scale) / (weights.total() * scale);
}

// derivative or curvature of the mean, entry by entry
using Pass = void (Loss::*)(std::int64_t, const double *, const double *, double *) const;

void weighted(const Loss &loss, Pass pass, std::int64_t n, const double *z, const double *b, const double *s,
              double *out) {
    const Weights weights(n, s);
    in_slices(n, [&](std::int64_t begin, std::int64_t end) {
        (loss.*pass)(end - begin, z + begin, b + begin, out + begin);
        for (std::int64_t i = begin; i < end; ++i) out[i] = weights.times(i, out[i]) / weights.total();
    });
}

template <class... Arrays>
std::int64_t common_size(const Input &z, const Arrays &...others) {
    if (((others.shape(0) != z.shape(0)) || ...)) throw std::invalid_argument("arrays differ in length");
    return static_cast<std::int64_t>(z.shape(0));
}

// The data of optional weights, checked to have n entries.
const double *data_or_null(const std::optional<Input> &weight, std::int64_t n) {
    if (!weight) return nullptr;
    if (static_cast<std::int64_t>(weight->shape(0)) != n) throw std::invalid_argument("arrays differ in length");
    return weight->data();
}

double loss_value(const std::string &name, double parameter, double width, const Input &z, const Input &b,
                  const std::optional<Input> &weight) {
    const auto n = common_size(z, b);
    return mean(*make_loss(loss_kind(name), parameter, width), n, z.data(), b.data(), data_or_null(weight, n));
}

template <Pass pass>
void loss_pass(const std::string &name, double parameter, double width, const Input &z, const Input &b,
               const std::optional<Input> &weight, const Output &out) {
    const auto n = common_size(z, b, out);
    weighted(*make_loss(loss_kind(name), parameter, width), pass, n, z.data(), b.data(), data_or_null(weight, n),
             out.data());
}

void loss_slope(const std::string &name, double parameter, double width, const Input &z, const Input &b,
                const Output &out) {
    const auto n = common_size(z, b, out);
    const auto loss = make_loss(loss_kind(name), parameter, width);
    in_slices(n, [&](std::int64_t begin, std::int64_t end) {
        loss->derivative(end - begin, z.data() + begin, b.data() + begin, out.data() + begin);
    });
}

}  // namespace
}  // namespace levelprox

void bind_losses(nb::module_ &m) {
    using namespace levelprox;
    // noconvert: a silent copy of `out` would lose the result, a copy of the data would cost memory.
    const auto array = [](const char *name) { return nb::arg(name).noconvert(); };
    const auto weight = nb::arg("weight").noconvert().none();
    m.def("loss_value", &loss_value, nb::arg("name"), nb::arg("parameter"), nb::arg("width"), array("z"), array("b"),
          weight, "Weighted mean of the losses.");
    m.def("loss_derivative", &loss_pass<&Loss::derivative>, nb::arg("name"), nb::arg("parameter"), nb::arg("width"),
          array("z"), array("b"), weight, array("out"), "Gradient of loss_value with respect to z, into out.");
    m.def("loss_curvature", &loss_pass<&Loss::curvature>, nb::arg("name"), nb::arg("parameter"), nb::arg("width"),
          array("z"), array("b"), weight, array("out"),
          "Diagonal of the Hessian of loss_value with respect to z, into out.");
    m.def("loss_slope", &loss_slope, nb::arg("name"), nb::arg("parameter"), nb::arg("width"), array("z"), array("b"),
          array("out"), "Derivative of each single loss, neither weighted nor averaged, into out.");
}
