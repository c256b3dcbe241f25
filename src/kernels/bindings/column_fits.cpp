// Fits over a few columns for Python. Arguments were checked by levelprox.objectives; here only what keeps reads inside
// arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "algorithms/column_fits.hpp"
#include "algorithms/column_fits_swaps.hpp"
#include "algorithms/swap_gains.hpp"
#include "bindings/module.hpp"
#include "bindings/subproblem.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

using Rows = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Margins = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// End, x, psi, margins and Hessian there, a bound on what is left to gain, and what rounding may change.
using Fit = std::tuple<FitEnd, Array, double, Array, Array2, double, double>;

Columns checked(const std::vector<In> &values, const std::vector<std::optional<Rows>> &rows, std::int64_t n) {
    require(rows.size() == values.size(), "there must be rows, or none, for each column");
    Columns columns;
    for (std::size_t j = 0; j < values.size(); ++j) {
        const auto stored = std::int64_t(values[j].shape(0));
        require(rows[j] ? rows[j]->shape(0) == values[j].shape(0) : stored == n, "a column does not fit the samples");
        for (std::int64_t p = 0; rows[j] && p < stored; ++p)
            require(rows[j]->data()[p] >= 0 && rows[j]->data()[p] < n, "a column does not fit the samples");
        columns.push_back({values[j].data(), rows[j] ? rows[j]->data() : nullptr, stored});
    }
    return columns;
}

using Stored = std::tuple<std::vector<In>, std::vector<std::optional<Rows>>, std::vector<double>, std::vector<double>>;

// Columns as Python has them: values, rows, magnitudes, and ridges or none.
SwapColumns swap_columns(const Stored &stored, std::int64_t n) {
    const auto &[values, rows, magnitude, ridge] = stored;
    require(magnitude.size() == values.size(), "there must be a magnitude for each column");
    require(ridge.empty() || ridge.size() == values.size(), "there must be a ridge for each column, or none");
    return {checked(values, rows, n), magnitude, ridge};
}

// An examination with the arrays that it reads.
struct HeldExamination {
    HeldExamination(const ColumnFits &fits, Stored arrays, std::vector<double> at, const SwapSettings &settings)
        : rows(fits.rows()), stored(std::move(arrays)), inside(swap_columns(stored, rows)), x(std::move(at)),
          examination((require(x.size() == inside.columns.size(), "there must be a coefficient for each column"), fits),
                      inside, x, settings) {}
    HeldExamination(const HeldExamination &) = delete;
    HeldExamination &operator=(const HeldExamination &) = delete;

    std::int64_t rows;
    Stored stored;
    SwapColumns inside;
    std::vector<double> x;
    SwapExamination examination;
};

}  // namespace

void bind_column_fits(nb::module_ &m) {
    nb::enum_<SwapEnd>(m, "SwapEnd")
        .value("EXAMINED", SwapEnd::examined)
        .value("LOWER", SwapEnd::lower)
        .value("FAILED", SwapEnd::failed)
        .value("REFITS", SwapEnd::refits);
    nb::class_<ColumnFits>(m, "ColumnFits")
        .def(
            "__init__",
            [](ColumnFits *self, const std::string &loss, double parameter, double width, double concordance, In target,
               std::optional<In> weight, std::optional<In> offset, bool convex, bool attained, double curvature_bound) {
                const std::size_t n = target.shape(0);
                require(!weight || weight->shape(0) == n, "the weights do not fit the samples");
                require(!offset || offset->shape(0) == n, "the offsets do not fit the samples");
                new (self) ColumnFits(std::int64_t(n), loss_kind(loss), parameter, width, concordance, curvature_bound,
                                      target.data(), weight ? weight->data() : nullptr,
                                      offset ? offset->data() : nullptr, convex, attained);
            },
            "loss"_a, "parameter"_a, "width"_a, "concordance"_a, "target"_a.noconvert(), "weight"_a.noconvert().none(),
            "offset"_a.noconvert().none(), "convex"_a = true, "attained"_a = true,
            "curvature_bound"_a = std::numeric_limits<double>::infinity(), nb::keep_alive<1, 6>(),
            nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>())
        .def_rw("largest_fall", &ColumnFits::largest_fall,
                "Times what Newton's step predicts: fits that would not be below the limit with such a fall end.")
        .def(
            "fit",
            [](const ColumnFits &self, const std::vector<In> &values, const std::vector<std::optional<Rows>> &rows,
               std::vector<double> x, double tolerance, double below, double accuracy, const std::vector<double> &noise,
               const std::vector<double> &ridge) -> Fit {
                const std::size_t count = values.size();
                require(x.size() == count, "there must be a coefficient for each column");
                require(noise.empty() || noise.size() == count, "there must be a number for each column, or none");
                require(ridge.empty() || ridge.size() == count, "there must be a ridge for each column, or none");
                const Columns columns = checked(values, rows, self.rows());
                ColumnFit found;
                {
                    Poll poll;
                    nb::gil_scoped_release release;
                    found = self.fit(columns, std::move(x), tolerance, accuracy, below, noise, ridge, poll);
                }
                return {found.end,
                        to_numpy(std::move(found.x)),
                        found.psi,
                        to_numpy(std::move(found.margins)),
                        to_numpy<Array2>(std::move(found.hessian), {count, count}),
                        found.gap,
                        found.resolution};
            },
            "values"_a, "rows"_a, "x"_a, "tolerance"_a, "below"_a, "accuracy"_a = 1e-13,
            "noise"_a = std::vector<double>(), "ridge"_a = std::vector<double>(),
            "Return the end, x, psi, margins and Hessian there, a bound on what is left to gain, and what rounding may "
            "change. Column j is values[j], or where rows[j] is given has values[j] in these rows and is 0 elsewhere.")
        .def(
            "best_addition",
            [](const ColumnFits &self, const Stored &inside, std::vector<double> x, const Stored &newcomers,
               const std::vector<double> &bounds, double gain, double psi, double resolution, double threshold,
               double tolerance, double accuracy, std::int64_t most_refits) {
                const SwapColumns fit = swap_columns(inside, self.rows()),
                                  others = swap_columns(newcomers, self.rows());
                require(x.size() == fit.columns.size(), "there must be a coefficient for each column");
                require(bounds.size() == others.columns.size(), "there must be a bound for each newcomer");
                BestAddition best;
                {
                    Poll poll;
                    nb::gil_scoped_release release;
                    best = best_addition(self, fit, x, others, bounds, gain,
                                         {psi, resolution, threshold, tolerance, accuracy, 0.0}, most_refits, poll);
                }
                return std::tuple(best.failed, best.tried, best.n_refits, best.shown, best.newcomer, best.gain);
            },
            "inside"_a, "x"_a, "newcomers"_a, "bounds"_a, "gain"_a, "psi"_a, "resolution"_a, "threshold"_a,
            "tolerance"_a, "accuracy"_a, "most_refits"_a,
            "Add newcomers one after another, in the order of bounds on what they gain. Return whether a fit failed, "
            "how many were tried before, how many of these were refitted, how many are shown not to gain more than the "
            "best, which one that is and its gain.")
        .def(
            "least_along",
            [](const ColumnFits &self, const std::vector<In> &values, const std::vector<std::optional<Rows>> &rows,
               In margins, const std::vector<double> &ridge) {
                require(std::int64_t(margins.shape(0)) == self.rows(), "the margins do not fit the samples");
                require(ridge.empty() || ridge.size() == values.size(),
                        "there must be a ridge for each column, or none");
                const Columns columns = checked(values, rows, self.rows());
                std::vector<double> found;
                {
                    Poll poll;
                    nb::gil_scoped_release release;
                    found = self.least_along(columns, margins.data(), ridge, poll);
                }
                return to_numpy(std::move(found));
            },
            "values"_a, "rows"_a, "margins"_a.noconvert(), "ridge"_a = std::vector<double>(),
            "Return the least psi along each column by itself, from given margins.");
    nb::class_<HeldExamination>(m, "SwapExamination")
        .def(
            "__init__",
            [](HeldExamination *self, const ColumnFits &fits, Stored inside, std::vector<double> x, double psi,
               double resolution, double threshold, double tolerance, double accuracy, double concordance) {
                new (self) HeldExamination(fits, std::move(inside), std::move(x),
                                           {psi, resolution, threshold, tolerance, accuracy, concordance});
            },
            "fits"_a, "inside"_a, "x"_a, "psi"_a, "resolution"_a, "threshold"_a, "tolerance"_a, "accuracy"_a,
            "concordance"_a, nb::keep_alive<1, 2>(),
            "Of the fit of some columns at x. Columns are (values, rows, magnitudes, ridges).")
        .def(
            "examine",
            [](HeldExamination &self, const Stored &newcomers, const std::vector<std::vector<std::int64_t>> &leaving,
               std::int64_t most_refits) {
                const SwapColumns others = swap_columns(newcomers, self.rows);
                require(leaving.size() == others.columns.size(), "there must be a list for each newcomer");
                for (const auto &places : leaving)
                    for (const std::int64_t i : places)
                        require(i >= 0 && i < std::int64_t(self.x.size()), "a column is out of range");
                ExaminedSwaps found;
                {
                    Poll poll;
                    nb::gil_scoped_release release;
                    found = self.examination.examine(others, leaving, most_refits, poll);
                }
                return std::tuple(found.end, found.newcomer, found.leaves, found.shown, found.n_refits);
            },
            "newcomers"_a, "leaving"_a, "most_refits"_a,
            "Examine newcomers one after another, each in place of some columns of the fit. Return how that ended, the "
            "last newcomer, the column that leaves where psi is lower, how many swaps are shown not to lower psi, and "
            "the number of refits.");
    m.def(
        "bound_gains",
        [](std::int64_t leaving, double x, In across, In inside, Margins B, In gradient, In left, In magnitude,
           In error, double concordance, double psi, double gap, Rows newcomers) {
            const std::size_t d = B.shape(0), size = B.shape(1), count = newcomers.shape(0);
            const bool fits = gradient.shape(0) == d && left.shape(0) == d && magnitude.shape(0) == d &&
                              error.shape(0) == d && across.shape(0) == size && inside.shape(0) == size;
            require(fits && leaving >= 0 && std::size_t(leaving) < size, "the parts do not fit");
            for (std::size_t k = 0; k < count; ++k)
                require(newcomers.data()[k] >= 0 && std::size_t(newcomers.data()[k]) < d, "there is no such newcomer");
            std::vector<double> bound(count);
            {
                const SwapGains swap{std::int64_t(size),
                                     leaving,
                                     x,
                                     across.data(),
                                     inside.data(),
                                     B.data(),
                                     gradient.data(),
                                     left.data(),
                                     magnitude.data(),
                                     error.data(),
                                     concordance,
                                     psi,
                                     gap};
                Poll poll;
                nb::gil_scoped_release release;
                bound_gains(swap, std::int64_t(count), newcomers.data(), bound.data(), poll);
            }
            return to_numpy(std::move(bound));
        },
        "leaving"_a, "x"_a, "across"_a.noconvert(), "inside"_a.noconvert(), "B"_a.noconvert(), "gradient"_a.noconvert(),
        "left"_a.noconvert(), "magnitude"_a.noconvert(), "error"_a.noconvert(), "concordance"_a, "psi"_a, "gap"_a,
        "newcomers"_a.noconvert(),
        "Return what swapping feature `leaving` of an exact fit for each newcomer gains at most; inf: no bound.");
    m.def(
        "least_costs",
        [](const std::vector<double> &x, Margins hessian, const std::vector<double> &magnitude, double concordance) {
            const std::size_t m = x.size();
            require(hessian.shape(0) == m && hessian.shape(1) == m && magnitude.size() == m, "the parts do not fit");
            return to_numpy(least_costs(x, {hessian.data(), hessian.data() + m * m}, magnitude, concordance));
        },
        "x"_a, "hessian"_a.noconvert(), "magnitude"_a, "concordance"_a,
        "Return what leaving out each column of an exact fit costs at least; 0 where there is no bound.");
    m.def(
        "orthonormal_basis",
        [](const std::vector<In> &values, const std::vector<std::optional<Rows>> &rows, In weight) {
            const auto n = std::int64_t(weight.shape(0));
            const Columns columns = checked(values, rows, n);
            std::vector<double> vectors, coordinates;
            std::size_t rank = 0;
            {
                Poll poll;
                nb::gil_scoped_release release;
                const OrthonormalBasis basis(n, columns, weight.data(), OrthonormalBasis::ROUNDING, poll);
                rank = basis.rank();
                for (std::size_t p = 0; p < rank; ++p)
                    vectors.insert(vectors.end(), basis.vector(p), basis.vector(p) + n);
                for (std::size_t j = 0; j < columns.size(); ++j) {
                    const std::vector<double> own = basis.of_column(j);
                    coordinates.insert(coordinates.end(), own.begin(), own.end());
                }
            }
            return std::pair(to_numpy<Array2>(std::move(vectors), {rank, std::size_t(n)}),
                             to_numpy<Array2>(std::move(coordinates), {columns.size(), rank}));
        },
        "values"_a, "rows"_a, "weight"_a.noconvert(),
        "Return vectors that are orthonormal for the weights, one per row, and the coordinates of each column in "
        "them.");
    m.def(
        "self_concordant_factor",
        [](In rho) {
            std::vector<double> factors(rho.shape(0));
            for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = self_concordant_factor(rho.data()[i]);
            return to_numpy(std::move(factors));
        },
        "rho"_a.noconvert(), "Return (rho + (1 - rho) ln(1 - rho)) / rho^2, rounded up; inf for rho > 1.");
}
