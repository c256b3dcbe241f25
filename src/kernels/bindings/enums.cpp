#include "bindings/enums.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include "algorithms/column_fits.hpp"
#include "algorithms/libsvm.hpp"
#include "algorithms/projection.hpp"
#include "bindings/module.hpp"

namespace nb = nanobind;
using namespace levelprox;

namespace {

constexpr std::array<std::pair<StopReason, const char *>, 7> STOP_REASONS{{
    {StopReason::steps, "STEPS"},
    {StopReason::accurate, "ACCURATE"},
    {StopReason::stationary, "STATIONARY"},
    {StopReason::no_decrease, "NO_DECREASE"},
    {StopReason::not_finite, "NOT_FINITE"},
    {StopReason::seconds, "SECONDS"},
    {StopReason::interrupted, "INTERRUPTED"},
}};

constexpr std::array<std::pair<LossKind, const char *>, 11> LOSSES{{
    {LossKind::squared, "squared"},
    {LossKind::logistic, "logistic"},
    {LossKind::huber, "huber"},
    {LossKind::cauchy, "cauchy"},
    {LossKind::sigmoid, "sigmoid"},
    {LossKind::squared_hinge, "squared_hinge"},
    {LossKind::poisson, "poisson"},
    {LossKind::gamma, "gamma"},
    {LossKind::absolute, "absolute"},
    {LossKind::quantile, "quantile"},
    {LossKind::hinge, "hinge"},
}};

}  // namespace

LossKind levelprox::loss_kind(const std::string &name) {
    for (const auto &[kind, known] : LOSSES)
        if (name == known) return kind;
    throw std::invalid_argument("unknown loss '" + name + "'");
}

// The class is looked up at the first call: levelprox.result cannot be imported while this module is.
PyObject *levelprox::python_stop_reason(StopReason reason) {
    static std::array<PyObject *, STOP_REASONS.size()> members{};
    PyObject *&member = members[std::size_t(reason)];
    if (member == nullptr) {
        const nb::object kind = nb::module_::import_("levelprox.result").attr("StopReason");
        for (const auto &[value, name] : STOP_REASONS)
            if (value == reason) member = nb::object(kind.attr(name)).release().ptr();
    }
    return member;
}

void bind_enums(nb::module_ &m) {
    nb::enum_<FitEnd>(m, "FitEnd", "How a fit over a few columns ended.")
        .value("FITTED", FitEnd::fitted, "The fit is accurate.")
        .value("NOT_BELOW", FitEnd::not_below, "The minimum is not below the given value.")
        .value("FAILED", FitEnd::failed, "The fit is not accurate.");

    nb::enum_<Projected>(m, "ProjectionStatus", "How a projection ended.")
        .value("DONE", Projected::done)
        .value("NOT_FINITE", Projected::not_finite, "The point or the weights are not finite.")
        .value("INFEASIBLE", Projected::infeasible, "The set is empty.");

    using libsvm::Fault;
    nb::enum_<Fault>(m, "LibsvmFault", "What is wrong with a line of LIBSVM text.")
        .value("LABEL", Fault::label, "The label is not a number.")
        .value("LABEL_NOT_FINITE", Fault::label_not_finite, "The label is nan, inf or too large.")
        .value("NO_LABEL", Fault::no_label, "The line begins with index:value.")
        .value("SEVERAL_LABELS", Fault::several_labels, "The label is a list, as in 1,2.")
        .value("NO_COLON", Fault::no_colon)
        .value("NO_INDEX", Fault::no_index)
        .value("INDEX", Fault::index, "The index is not a whole number.")
        .value("NEGATIVE_INDEX", Fault::negative_index)
        .value("ZERO_INDEX", Fault::zero_index, "The index is 0 in a file that counts from 1.")
        .value("INDEX_TOO_LARGE", Fault::index_too_large)
        .value("ORDER", Fault::order, "The index is below the one before it.")
        .value("REPEATED", Fault::repeated, "The index is the one before it.")
        .value("NO_VALUE", Fault::no_value)
        .value("VALUE", Fault::value, "The value is not a number.")
        .value("VALUE_NOT_FINITE", Fault::value_not_finite)
        .value("VALUE_TOO_LARGE", Fault::value_too_large)
        .value("QUERY", Fault::query, "qid: is not followed by a whole number.")
        .value("TOKEN_TOO_LONG", Fault::token_too_long);
}
