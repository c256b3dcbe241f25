// Designs for Python: the base class DesignKernel, and Dense and Sparse, which keep their arrays alive.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "algorithms/design_kernel.hpp"
#include "algorithms/gram.hpp"
#include "bindings/module.hpp"
#include "bindings/signatures.hpp"
#include "algorithms/selection.hpp"
#include "algorithms/slices.hpp"
#include "algorithms/sparse.hpp"
#include "algorithms/threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace levelprox {
namespace {

template <class... Options>
using In = nb::ndarray<nb::ro, nb::device::cpu, Options...>;
using Vector = In<double, nb::ndim<1>, nb::c_contig>;
using Index = In<std::int64_t, nb::ndim<1>, nb::c_contig>;
using Places = nb::ndarray<std::int64_t, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
template <class... Options>
using Any = nb::ndarray<nb::device::cpu, nb::c_contig, Options...>;
template <class... Options>
using Out = nb::ndarray<double, nb::device::cpu, nb::c_contig, Options...>;

void require(const char *name, std::int64_t size, std::int64_t expected) {
    if (size != expected)
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(size) + " entries, expected " +
                                    std::to_string(expected));
}

// Calls f with a null pointer of the element type, float32 or float64.
template <class F>
void with_value_type(nb::dlpack::dtype dtype, F f) {
    if (dtype == nb::dtype<float>()) f(static_cast<const float *>(nullptr));
    else if (dtype == nb::dtype<double>()) f(static_cast<const double *>(nullptr));
    else throw nb::type_error("values must be float32 or float64");
}

template <class F>
void with_index_type(nb::dlpack::dtype dtype, F f) {
    if (dtype == nb::dtype<std::int32_t>()) f(static_cast<const std::int32_t *>(nullptr));
    else if (dtype == nb::dtype<std::int64_t>()) f(static_cast<const std::int64_t *>(nullptr));
    else throw nb::type_error("indices must be int32 or int64");
}

void require_inside(const Index &chosen, std::int64_t size) {
    for (std::size_t k = 0; k < chosen.size(); ++k)
        if (chosen.data()[k] < 0 || chosen.data()[k] >= size) throw std::invalid_argument("index out of range");
}

void require_range(std::int64_t begin, std::int64_t end, std::int64_t size) {
    if (begin < 0 || begin > end || end > size) throw std::invalid_argument("range outside the matrix");
}

void require_gram(const Design &X, const Vector &weight, std::int64_t known, const Out<nb::ndim<2>> &out) {
    require_range(0, known, X.columns());
    require("weight", weight.size(), X.rows());
    require("out", out.shape(0), X.columns());
    require("out", out.shape(1), X.columns());
}

class Dense final : public DesignKernel {
public:
    explicit Dense(In<nb::ndim<2>, nb::any_contig> array) : array_(std::move(array)) {
        const std::int64_t rows = array_.shape(0), columns = array_.shape(1);
        // A single row or column is contiguous both ways: then one long slice, not many short ones.
        const bool c_order = rows <= 1 || columns <= 1 ? rows == 1 : array_.stride(1) == 1;
        with_value_type(array_.dtype(), [&](auto *type) {
            using T = std::remove_cvref_t<decltype(*type)>;
            const T *data = static_cast<const T *>(array_.data());
            hold(std::make_unique<DenseSlices<T>>(data, c_order ? rows : columns, c_order ? columns : rows), c_order);
        });
    }

    // f(slices) with their real type
    template <class F>
    void visit(F f) const {
        with_value_type(array_.dtype(), [&](auto *type) {
            using T = std::remove_cvref_t<decltype(*type)>;
            f(static_cast<const DenseSlices<T> &>(*design.slices));
        });
    }

    // out, slice after slice, = some slices of X
    void take_slices(const Index &chosen, const Any<nb::ndim<2>> &out) const {
        require_inside(chosen, design.slices->count);
        check_out(out, std::int64_t(chosen.size()), design.slices->length);
        nb::gil_scoped_release release;
        Poll poll;
        visit([&]<class T>(const DenseSlices<T> &X) {
            levelprox::take_slices(X, chosen.data(), chosen.size(), static_cast<T *>(out.data()), poll);
        });
    }

    // out, slice after slice, = some entries of each slice from `begin` on
    void take_within(const Index &chosen, std::int64_t begin, const Any<nb::ndim<2>> &out) const {
        const std::int64_t count = out.shape(0);
        require_inside(chosen, design.slices->length);
        require_range(begin, begin + count, design.slices->count);
        check_out(out, count, std::int64_t(chosen.size()));
        nb::gil_scoped_release release;
        Poll poll;
        visit([&]<class T>(const DenseSlices<T> &X) {
            levelprox::take_within(X, chosen.data(), chosen.size(), begin, static_cast<T *>(out.data()), count, poll);
        });
    }

    void gram(const Vector &weight, std::int64_t known, const Out<nb::ndim<2>> &out) const {
        require_gram(design, weight, known, out);
        nb::gil_scoped_release release;
        Poll poll;
        visit([&](const auto &X) { dense_gram(X, design.by_rows, weight.data(), known, out.data(), poll); });
    }

private:
    void check_out(const Any<nb::ndim<2>> &out, std::int64_t count, std::int64_t length) const {
        require("out", out.shape(0), count);
        require("out", out.shape(1), length);
        if (out.dtype() != array_.dtype()) throw nb::type_error("out must have the type of X");
    }

    In<nb::ndim<2>, nb::any_contig> array_;
};

class Sparse final : public DesignKernel {
public:
    using Values = In<nb::ndim<1>, nb::c_contig>;

    Sparse(Values data, Values indices, Index indptr, std::int64_t rows, std::int64_t columns, bool by_rows)
        : data_(std::move(data)), indices_(std::move(indices)), indptr_(std::move(indptr)) {
        const std::int64_t count = by_rows ? rows : columns, length = by_rows ? columns : rows;
        if (rows < 0 || columns < 0) throw std::invalid_argument("the shape is negative");
        check_indptr(indptr_.data(), indptr_.size(), count, indices_.size(), data_.size(), by_rows);
        with_value_type(data_.dtype(), [&](auto *value) {
            with_index_type(indices_.dtype(), [&](auto *index) {
                using T = std::remove_cvref_t<decltype(*value)>;
                using I = std::remove_cvref_t<decltype(*index)>;
                hold(std::make_unique<SparseSlices<T, I>>(static_cast<const T *>(data_.data()),
                                                          static_cast<const I *>(indices_.data()), indptr_.data(),
                                                          count, length),
                     by_rows);
            });
        });
        nb::gil_scoped_release release;
        Poll poll;
        visit([&](const auto &X) { check_indices(X, by_rows, poll); });
    }

    // f(slices) with their real type
    template <class F>
    void visit(F f) const {
        with_value_type(data_.dtype(), [&](auto *value) {
            with_index_type(indices_.dtype(), [&](auto *index) {
                using T = std::remove_cvref_t<decltype(*value)>;
                using I = std::remove_cvref_t<decltype(*index)>;
                f(static_cast<const SparseSlices<T, I> &>(*design.slices));
            });
        });
    }

    bool has_duplicates() const {
        bool found = false;
        nb::gil_scoped_release release;
        Poll poll;
        visit([&](const auto &X) { found = levelprox::has_duplicates(X, poll); });
        return found;
    }

    bool is_sorted() const {
        bool sorted = false;
        nb::gil_scoped_release release;
        Poll poll;
        visit([&](const auto &X) { sorted = levelprox::is_sorted(X, poll); });
        return sorted;
    }

    void column_counts(const Out<nb::ndim<1>> &out) const {
        if (!design.by_rows) throw std::invalid_argument("of CSC, indptr has the counts of columns");
        require("out", out.size(), design.columns());
        nb::gil_scoped_release release;
        Poll poll;
        visit([&](const auto &X) { index_counts(X, out.data(), poll); });
    }

    // Fills the group of each slice, and the first slice of each group, if there are few groups; their number, or -1
    std::int64_t equal_slices(const Places &group, const Places &first) const {
        require("group", group.size(), design.slices->count);
        std::int64_t count = 0;
        nb::gil_scoped_release release;
        Poll poll;
        visit(
            [&](const auto &X) { count = levelprox::equal_slices(X, first.size(), group.data(), first.data(), poll); });
        return count;
    }

    // (data, indices, indptr) of some rows or columns, stored the same way
    nb::object select(const Index &chosen, bool rows) const {
        require_inside(chosen, rows ? design.rows() : design.columns());
        return selected([&](const auto &X, Poll &poll) {
            return rows == design.by_rows ? select_slices(X, chosen.data(), chosen.size(), poll)
                                          : select_within(X, chosen.data(), chosen.size(), 0, X.count, poll);
        });
    }

    // Some columns of rows begin..end, always as CSR
    nb::object select_piece(const Index &chosen, std::int64_t begin, std::int64_t end, bool sorted) const {
        require_inside(chosen, design.columns());
        require_range(begin, end, design.rows());
        return selected([&](const auto &X, Poll &poll) {
            return design.by_rows ? select_within(X, chosen.data(), chosen.size(), begin, end, poll)
                                  : transpose(X, chosen.data(), chosen.size(), begin, end, sorted, poll);
        });
    }

    void gram(const Vector &weight, std::int64_t known, bool dense, const Out<nb::ndim<2>> &out) const {
        if (!design.by_rows) throw std::invalid_argument("the Gram matrix goes over rows");
        require_gram(design, weight, known, out);
        nb::gil_scoped_release release;
        Poll poll;
        visit([&](const auto &X) {
            if (dense) dense_gram(X, true, weight.data(), known, out.data(), poll);
            else sparse_gram(X, weight.data(), known, out.data(), poll);
        });
    }

private:
    // What `select` makes of the slices, as NumPy arrays
    template <class F>
    nb::object selected(F select) const {
        nb::object out;
        visit([&]<class T, class I>(const SparseSlices<T, I> &X) {
            Selection<T, I> selection;
            {
                nb::gil_scoped_release release;
                Poll poll;
                selection = select(X, poll);
            }
            out = hand_over(std::move(selection));
        });
        return out;
    }

    // NumPy arrays that own a selection between them
    template <class T, class I>
    static nb::object hand_over(Selection<T, I> selection) {
        auto *kept = new Selection<T, I>(std::move(selection));
        nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<Selection<T, I> *>(p); });
        const std::size_t stored = kept->indptr.back(), pointers = kept->indptr.size();
        return nb::make_tuple(
            nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data.get(), {stored}, owner),
            nb::ndarray<nb::numpy, I, nb::ndim<1>>(kept->indices.get(), {stored}, owner),
            nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(kept->indptr.data(), {pointers}, owner));
    }

    Values data_, indices_;
    Index indptr_;
};

}  // namespace
}  // namespace levelprox

void bind_designs(nb::module_ &m) {
    using namespace levelprox;

    m.def("simd_name", [] { return simd().name; }, "The vector loops in use.");
    m.def("use_simd", &use_simd, "name"_a,
          "Use the vector loops 'baseline', 'avx2', 'avx512', or 'auto', the widest there are.");

    m.def("thread_count", &thread_count, "How many threads a pass over X may use.");
    m.def(
        "set_thread_work", [](std::int64_t work) { return thread_work.exchange(std::max<std::int64_t>(work, 1)); },
        "work"_a,
        "Set the least work of a thread, in numbers read from memory, and return the value before. For tests.");
    m.def("set_thread_defaults", &set_thread_defaults, "environment"_a, "quota"_a,
          "Set the number in OMP_NUM_THREADS (0: none) and the processors that the container may use (0: all).");

    nb::class_<DesignKernel>(m, "DesignKernel", "A data matrix X, as kernels read it.")
        .def_prop_ro("shape", [](const DesignKernel &X) { return std::pair(X.design.rows(), X.design.columns()); })
        .def_prop_ro(
            "by_rows", [](const DesignKernel &X) { return X.design.by_rows; }, "Whether X is stored row after row.")
        .def(
            "matvec",
            [](const DesignKernel &X, const Vector &x, const Out<nb::ndim<1>> &out) {
                require("x", x.size(), X.design.columns());
                require("out", out.size(), X.design.rows());
                nb::gil_scoped_release release;
                Poll poll;
                X.matvec(x.data(), out.data(), poll);
            },
            "x"_a.noconvert(), "out"_a.noconvert(), "out = Xx")
        .def(
            "rmatvec",
            [](const DesignKernel &X, const Vector &r, const Out<nb::ndim<1>> &out) {
                require("r", r.size(), X.design.rows());
                require("out", out.size(), X.design.columns());
                nb::gil_scoped_release release;
                Poll poll;
                X.rmatvec(r.data(), out.data(), poll);
            },
            "r"_a.noconvert(), "out"_a.noconvert(), "out = X'r")
        .def(
            "column_squares",
            [](const DesignKernel &X, const Vector &weight, const Out<nb::ndim<1>> &out) {
                require("weight", weight.size(), X.design.rows());
                require("out", out.size(), X.design.columns());
                nb::gil_scoped_release release;
                Poll poll;
                X.column_squares(weight.data(), out.data(), poll);
            },
            "weight"_a.noconvert(), "out"_a.noconvert(), "out_j = sum_i weight_i X_ij^2")
        .def(
            "row_squares",
            [](const DesignKernel &X, const Out<nb::ndim<1>> &out) {
                require("out", out.size(), X.design.rows());
                nb::gil_scoped_release release;
                Poll poll;
                X.row_squares(out.data(), poll);
            },
            "out"_a.noconvert(), "out_i = sum_j X_ij^2")
        .def(
            "nonfinite",
            [](const DesignKernel &X) {
                Nonfinite found;
                {
                    nb::gil_scoped_release release;
                    Poll poll;
                    found = X.nonfinite(poll);
                }
                return X.design.by_rows ? std::tuple(found.count, found.slice, found.place, found.value)
                                        : std::tuple(found.count, found.place, found.slice, found.value);
            },
            "Return the number of entries that are NaN or infinite, and row, column and value of the first in "
            "storage.");

    nb::class_<Dense, DesignKernel>(m, "Dense", "A C- or Fortran-contiguous float32 or float64 array, in place.")
        .def(nb::init<In<nb::ndim<2>, nb::any_contig>>(), "array"_a.noconvert(),
             nb::sig("def __init__(self, array: " FLOAT_ARRAY ") -> None"))
        .def("take_slices", &Dense::take_slices, "chosen"_a.noconvert(), "out"_a.noconvert(),
             nb::sig("def take_slices(self, chosen: " INT64_ARRAY ", out: " FLOAT_ARRAY ") -> None"),
             "out_k = slice chosen_k: a row where X is stored by rows, else a column.")
        .def("take_within", &Dense::take_within, "chosen"_a.noconvert(), "begin"_a, "out"_a.noconvert(),
             nb::sig("def take_within(self, chosen: " INT64_ARRAY ", begin: int, out: " FLOAT_ARRAY ") -> None"),
             "out_s = the chosen entries of slice begin + s.")
        .def("gram", &Dense::gram, "weight"_a.noconvert(), "known"_a, "out"_a.noconvert(),
             "out = X' diag(weight) X; its leading block of size `known` is not changed.");

    nb::class_<Sparse, DesignKernel>(m, "Sparse", "The three arrays of a CSR (by_rows) or CSC matrix, in place.")
        .def(nb::init<Sparse::Values, Sparse::Values, Index, std::int64_t, std::int64_t, bool>(), "data"_a.noconvert(),
             "indices"_a.noconvert(), "indptr"_a.noconvert(), "rows"_a, "columns"_a, "by_rows"_a,
             nb::sig("def __init__(self, data: " FLOAT_ARRAY ", indices: " INT_ARRAY ", indptr: " INT64_ARRAY
                     ", rows: int, columns: int, by_rows: bool) -> None"))
        .def("has_duplicates", &Sparse::has_duplicates, "Whether an entry is stored in several parts.")
        .def(
            "select_rows", [](const Sparse &X, const Index &chosen) { return X.select(chosen, true); },
            "chosen"_a.noconvert(), nb::sig("def select_rows(self, chosen: " INT64_ARRAY ") -> " COMPRESSED),
            "(data, indices, indptr) of the chosen rows, stored the same way.")
        .def(
            "select_columns", [](const Sparse &X, const Index &chosen) { return X.select(chosen, false); },
            "chosen"_a.noconvert(), nb::sig("def select_columns(self, chosen: " INT64_ARRAY ") -> " COMPRESSED),
            "(data, indices, indptr) of the chosen columns, stored the same way.")
        .def("select_piece", &Sparse::select_piece, "chosen"_a.noconvert(), "begin"_a, "end"_a, "sorted"_a,
             nb::sig("def select_piece(self, chosen: " INT64_ARRAY
                     ", begin: int, end: int, sorted: bool) -> " COMPRESSED),
             "(data, indices, indptr) of the chosen columns of rows begin..end, as CSR; `sorted` is the result of "
             "is_sorted.")
        .def("is_sorted", &Sparse::is_sorted, "Whether indices ascend in every row (of CSR) or column.")
        .def(
            "equal_slices", &Sparse::equal_slices, "group"_a.noconvert(), "first"_a.noconvert(),
            nb::sig("def equal_slices(self, group: " INT64_ARRAY ", first: " INT64_ARRAY ") -> int"),
            "Number the slices that hold the same entries: the group of each slice, and the first slice of each group. "
            "Return how many groups there are; -1 where `first` has no room for them, or where there are many among "
            "the first slices.")
        .def("column_counts", &Sparse::column_counts, "out"_a.noconvert(),
             "out_j = stored entries of column j of a CSR matrix.")
        .def("gram", &Sparse::gram, "weight"_a.noconvert(), "known"_a, "dense"_a, "out"_a.noconvert(),
             "out = X' diag(weight) X for a CSR matrix without duplicates, by dense tiles or by pairs of entries; its "
             "leading block of size `known` is not changed.");
}
