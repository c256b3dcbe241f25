// Python as the program that runs the kernels: signals, and the deadline of a thread's kernels.
#include <cmath>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "algorithms/interrupt.hpp"
#include "bindings/module.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace levelprox;

namespace {

// The exception of a deadline that has passed, a subclass of TimeoutError; set when the module is loaded.
PyObject *out_of_time = nullptr;

// Takes the GIL for the moment itself: the caller may hold it or not. Python runs handlers of signals in the main
// thread only, so that check_signals never throws in another one.
class Python : public Host {
public:
    void check_signals() override {
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }

    [[noreturn]] void raise_time_limit() override {
        nb::gil_scoped_acquire gil;
        PyErr_SetString(out_of_time, "the time limit has passed");
        throw nb::python_error();
    }

    StopReason reason(std::exception_ptr exception) override {
        try {
            std::rethrow_exception(exception);
        } catch (nb::python_error &error) {
            nb::gil_scoped_acquire gil;
            if (error.matches(PyExc_KeyboardInterrupt)) return StopReason::interrupted;
            if (error.matches(out_of_time)) return StopReason::seconds;
            throw;
        }
    }
};

Python python;

constexpr double FOREVER = 1e9;  // seconds: beyond this, none

using Seconds = std::chrono::duration<double>;

double clock_now() { return Seconds(SteadyClock::now().time_since_epoch()).count(); }

SteadyClock::duration ticks(double seconds) {
    return std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
}

std::pair<double, double> set_deadline(double at, double grace) {
    const bool none = deadline.at == SteadyClock::time_point::max();
    const std::pair before(none ? HUGE_VAL : Seconds(deadline.at.time_since_epoch()).count(),
                           Seconds(deadline.grace).count());
    const double left = at - clock_now();
    deadline.at = left < FOREVER ? SteadyClock::now() + ticks(std::max(left, 0.0)) : SteadyClock::time_point::max();
    deadline.grace = ticks(std::min(std::max(grace, 0.0), FOREVER));
    return before;
}

}  // namespace

void bind_deadline(nb::module_ &m) {
    host = &python;
    const std::string name = nb::cast<std::string>(m.attr("__name__")) + ".TimeLimitError";
    out_of_time = PyErr_NewExceptionWithDoc(name.c_str(), "The time limit has passed.", PyExc_TimeoutError, nullptr);
    m.attr("TimeLimitError") = nb::borrow(out_of_time);
    m.def("clock", &clock_now, "Seconds on the clock of deadlines.");
    m.def("set_deadline", &set_deadline, "at"_a, "grace"_a,
          "Set when the kernels of this thread raise TimeLimitError, and after how many further seconds they raise it "
          "again. Return the values that were set before.");
}
