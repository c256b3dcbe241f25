// Ctrl-C and time limits inside a long kernel.
#pragma once
#include <chrono>

#include <nanobind/nanobind.h>

namespace levelprox {

using SteadyClock = std::chrono::steady_clock;

// When the kernels of a thread stop, if Python has set a time (bind_deadline.cpp). `grace`: how much later the next
// kernels stop, so that whoever handles the exception can finish.
struct Deadline {
    SteadyClock::time_point at = SteadyClock::time_point::max();
    SteadyClock::duration grace{};
};

inline thread_local Deadline deadline;

// The exception of a deadline that has passed, a subclass of TimeoutError; set when the module is loaded.
inline PyObject *out_of_time = nullptr;

// Call check() every few milliseconds. It looks at a clock, and at most every 50 ms asks Python
// whether a signal waits; what the signal's handler raises leaves the kernel as an exception, and so does a
// deadline that has passed.
// It takes the GIL for that moment itself, so the caller may hold it or not. Python runs handlers
// in the main thread only: in any other, check() never throws because of a signal.
class Poll {
public:
    void check() {
        const auto now = SteadyClock::now();
        if (now >= deadline.at) {
            deadline.at = now + deadline.grace;
            nanobind::gil_scoped_acquire gil;
            PyErr_SetString(out_of_time, "the time limit has passed");
            throw nanobind::python_error();
        }
        if (now < next_) return;
        {
            nanobind::gil_scoped_acquire gil;
            if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
        }
        next_ = SteadyClock::now() + PERIOD;
    }

private:
    static constexpr std::chrono::milliseconds PERIOD{50};
    SteadyClock::time_point next_ = SteadyClock::now() + PERIOD;
};

// What ended a kernel that keeps what it has reached: Ctrl-C, or its deadline. Anything else is thrown on.
enum class Ended { interrupted, out_of_time };

inline Ended ended_by(nanobind::python_error &error) {
    nanobind::gil_scoped_acquire gil;
    if (error.matches(PyExc_KeyboardInterrupt)) return Ended::interrupted;
    if (error.matches(out_of_time)) return Ended::out_of_time;
    throw error;
}

}  // namespace levelprox
