// Ctrl-C and time limits inside a long kernel. Kernels access the program that runs them through `Host` only.
#pragma once
#include <chrono>
#include <exception>
#include <stdexcept>

#include "algorithms/stop_reason.hpp"

namespace levelprox {

using SteadyClock = std::chrono::steady_clock;

// The program that runs the kernels. The bindings implement it for Python (bindings/deadline.cpp).
class Host {
public:
    virtual ~Host() = default;

    // Throws what the handler of a waiting signal raises; returns where there is none.
    virtual void check_signals() = 0;

    // Throws the exception of a time limit that has passed.
    [[noreturn]] virtual void raise_time_limit() = 0;

    // Returns `interrupted` or `seconds` for an exception that ended a kernel; throws any other exception again.
    virtual StopReason reason(std::exception_ptr exception) = 0;
};

// A program without signals.
class NoHost : public Host {
public:
    struct TimeLimit : std::runtime_error {
        using std::runtime_error::runtime_error;
    };
    void check_signals() override {}
    [[noreturn]] void raise_time_limit() override { throw TimeLimit("the time limit has passed"); }
    StopReason reason(std::exception_ptr exception) override {
        try {
            std::rethrow_exception(exception);
        } catch (const TimeLimit &) {
            return StopReason::seconds;
        }
    }
};

inline NoHost no_host;
inline Host *host = &no_host;

// When the kernels of a thread stop. `grace`: how much later the next kernels stop, so that the caller that handles
// the exception has time to finish.
struct Deadline {
    SteadyClock::time_point at = SteadyClock::time_point::max();
    SteadyClock::duration grace{};
};

inline thread_local Deadline deadline;

// Call check() every few milliseconds. It reads a clock, and every 50 ms checks the host for signals. A signal and a
// deadline that has passed leave the kernel as an exception.
class Poll {
public:
    void check() {
        const auto now = SteadyClock::now();
        if (now >= deadline.at) {
            deadline.at = now + deadline.grace;
            host->raise_time_limit();
        }
        if (now < next_) return;
        host->check_signals();
        next_ = SteadyClock::now() + PERIOD;
    }

private:
    static constexpr std::chrono::milliseconds PERIOD{50};
    SteadyClock::time_point next_ = SteadyClock::now() + PERIOD;
};

}  // namespace levelprox
