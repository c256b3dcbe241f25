// The multinomial loss and the compiled multinomial model for Python. Arguments were checked by levelprox.losses and
// levelprox.objectives; here only what keeps reads inside arrays.
#include "algorithms/design_kernel.hpp"
#include "bindings/module.hpp"
#include "algorithms/multinomial.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Labels = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Margins = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMargins = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require_labels(const Labels &label, std::size_t n, std::int64_t classes) {
    require(label.shape(0) == n, "the labels do not fit the samples");
    for (std::size_t i = 0; i < n; ++i)
        require(label.data()[i] >= 0 && label.data()[i] < classes, "a label is not a class");
}

// Calls each(i, p, loss) for every sample, p its probabilities, with a chance for Ctrl-C now and then.
template <class Each>
void for_samples(const Margins &z, const std::int64_t *label, Each each) {
    const std::size_t n = z.shape(0), K = z.shape(1);
    std::vector<double> p(K);
    Poll poll;
    for (std::size_t i = 0; i < n; ++i) {
        std::copy(z.data() + i * K, z.data() + (i + 1) * K, p.begin());
        const double loss = softmax(std::int64_t(K), p.data(), label ? label[i] : 0);
        each(i, p.data(), loss);
        if (i % 4096 == 0) poll.check();
    }
}

double multinomial_value(Margins z, Labels label, std::optional<In> weight) {
    const std::size_t n = z.shape(0);
    require_labels(label, n, std::int64_t(z.shape(1)));
    require(!weight || weight->shape(0) == n, "the weights do not fit the samples");
    nb::gil_scoped_release release;
    HeadTail sum{0, 0};
    for_samples(z, label.data(), [&](std::size_t i, const double *, double loss) {
        const double s = weight ? weight->data()[i] : 1.0;
        if (s == 0) return;
        const HeadTail next = two_sum(sum.head, s * loss);
        sum = {next.head, std::isfinite(next.head) ? sum.tail + next.tail : 0.0};
    });
    return (sum.head + sum.tail) / sum_of(std::int64_t(n), weight ? weight->data() : nullptr);
}

void multinomial_derivative(Margins z, Labels label, std::optional<In> weight, OutMargins out) {
    const std::size_t n = z.shape(0), K = z.shape(1);
    require_labels(label, n, std::int64_t(K));
    require(!weight || weight->shape(0) == n, "the weights do not fit the samples");
    require(out.shape(0) == n && out.shape(1) == K, "out does not have the shape of z");
    nb::gil_scoped_release release;
    const double total = sum_of(std::int64_t(n), weight ? weight->data() : nullptr);
    for_samples(z, label.data(), [&](std::size_t i, double *p, double) {
        const double s = weight ? weight->data()[i] : 1.0;
        to_slopes(std::int64_t(K), p, label.data()[i]);
        for (std::size_t k = 0; k < K; ++k) out.data()[i * K + k] = s == 0 ? 0.0 : p[k] * (s / total);
    });
}

void multinomial_probabilities(Margins z, OutMargins out) {
    const std::size_t K = z.shape(1);
    require(K >= 1 && out.shape(0) == z.shape(0) && out.shape(1) == K, "out does not have the shape of z");
    nb::gil_scoped_release release;
    for_samples(z, nullptr, [&](std::size_t i, const double *p, double) { std::copy(p, p + K, out.data() + i * K); });
}

}  // namespace

void bind_multinomial(nb::module_ &m) {
    m.def("multinomial_value", &multinomial_value, "z"_a.noconvert(), "label"_a.noconvert(),
          "weight"_a.noconvert().none());
    m.def("multinomial_derivative", &multinomial_derivative, "z"_a.noconvert(), "label"_a.noconvert(),
          "weight"_a.noconvert().none(), "out"_a.noconvert());
    m.def("multinomial_probabilities", &multinomial_probabilities, "z"_a.noconvert(), "out"_a.noconvert());
    nb::class_<MultinomialModel, Objective>(m, "MultinomialModel")
        .def(
            "__init__",
            [](MultinomialModel *self, const DesignKernel &design, std::int64_t classes, Labels label,
               std::optional<In> weight, std::optional<Margins> offset) {
                const auto rows = std::size_t(design.design.rows());
                require(classes >= 1, "there is at least one class");
                require_labels(label, rows, classes);
                require(!weight || weight->shape(0) == rows, "the weights do not fit the rows of X");
                require(!offset || (offset->shape(0) == rows && std::int64_t(offset->shape(1)) == classes),
                        "the offsets do not fit the margins");
                new (self) MultinomialModel(design.design, classes, label.data(), weight ? weight->data() : nullptr,
                                            offset ? offset->data() : nullptr);
            },
            "design"_a, "classes"_a, "label"_a.noconvert(), "weight"_a.noconvert().none(),
            "offset"_a.noconvert().none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(),
            nb::keep_alive<1, 6>())
        .def(
            "value_and_gradient",
            [](const MultinomialModel &self, In x, Out gradient) {
                const auto d = std::size_t(self.dimension());
                require(x.shape(0) == d && gradient.shape(0) == d,
                        "x and the gradient must have the dimension of the model");
                Poll poll;
                nb::gil_scoped_release release;
                return self.value_and_gradient(x.data(), gradient.data(), poll);
            },
            "x"_a.noconvert(), "gradient"_a.noconvert());
}
