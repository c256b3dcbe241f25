// Enums passed to and from Python.
#pragma once
#include <nanobind/nanobind.h>

#include <string>

#include "algorithms/loss.hpp"
#include "algorithms/stop_reason.hpp"

namespace levelprox {

// The loss of this name, which is `Loss.name` in Python. Throws std::invalid_argument for any other name.
LossKind loss_kind(const std::string &name);

// The member of levelprox.result.StopReason for a reason; a borrowed reference that lives as long as the interpreter.
PyObject *python_stop_reason(StopReason reason);

}  // namespace levelprox

namespace nanobind::detail {

// A StopReason becomes a member of the StrEnum that the rest of the package uses. It is never passed to a kernel.
template <>
struct type_caster<levelprox::StopReason> {
    static constexpr auto Name = const_name("levelprox.result.StopReason");

    static handle from_cpp(levelprox::StopReason reason, rv_policy, cleanup_list *) {
        return handle(levelprox::python_stop_reason(reason)).inc_ref();
    }
};

}  // namespace nanobind::detail
