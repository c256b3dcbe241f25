// Ctrl-C inside a long kernel.
#pragma once
#include <chrono>

#include <nanobind/nanobind.h>

namespace levelprox {

// Call check() every few milliseconds. It looks at a clock, and at most every 50 ms asks Python
// whether a signal waits; what the signal's handler raises leaves the kernel as an exception.
// It takes the GIL for that moment itself, so the caller may hold it or not. Python runs handlers
// in the main thread only: in any other, check() never throws.
class Poll {
public:
    void check() {
        if (Clock::now() < next_) return;
        {
            nanobind::gil_scoped_acquire gil;
            if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
        }
        next_ = Clock::now() + PERIOD;
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds PERIOD{50};
    Clock::time_point next_ = Clock::now() + PERIOD;
};

}  // namespace levelprox
