// What kernels/algorithms/threads.cpp promises, without Python: `test_thread_pool.py` compiles and runs it. It prints
// each case that holds.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "algorithms/threads.hpp"

using levelprox::parallel_for;

#define REQUIRE(what)                                                \
    if (!(what)) {                                                   \
        std::printf("line %d: %s does not hold\n", __LINE__, #what); \
        std::fflush(stdout);                                         \
        std::_Exit(1);                                               \
    }

namespace {

const std::int64_t ENOUGH = std::int64_t(1) << 40;  // work for any number of threads

// A flag that one thread raises and another waits for; a test that would hang fails.
struct Flag {
    std::atomic<bool> up{false};
    void raise() { up = true; }
    void wait() const {
        for (int k = 0; !up; ++k) {
            REQUIRE(k < 60'000);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
};

std::int64_t total(std::int64_t count) {
    std::vector<std::int64_t> seen(count, 0);
    parallel_for(count, ENOUGH, [&](std::int64_t k) { seen[k] += k + 1; });
    std::int64_t sum = 0;
    for (const std::int64_t one : seen) sum += one;
    return sum;
}

void every_chunk_is_run_once() {
    for (int threads = 1; threads <= 5; ++threads) {
        levelprox::set_thread_count(threads);
        REQUIRE(levelprox::thread_count() == threads);
        for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000}) REQUIRE(total(count) == count * (count + 1) / 2);
    }
}

void two_chunks_run_at_the_same_time() {
    levelprox::set_thread_count(2);
    Flag begun[2];
    parallel_for(2, ENOUGH, [&](std::int64_t k) {
        begun[k].raise();
        begun[1 - k].wait();
    });
}

void little_work_stays_in_the_calling_thread() {
    levelprox::set_thread_count(4);
    const auto me = std::this_thread::get_id();
    parallel_for(100, 2 * levelprox::THREAD_WORK - 1, [&](std::int64_t) { REQUIRE(std::this_thread::get_id() == me); });
}

void the_first_exception_is_thrown() {
    levelprox::set_thread_count(4);
    for (int round = 0; round < 200; ++round) {
        std::vector<char> ran(50, 0);
        std::string thrown;
        try {
            parallel_for(50, ENOUGH, [&](std::int64_t k) {
                ran[k] = 1;
                if (k % 10 == 7) throw std::runtime_error(std::to_string(k));
            });
        } catch (const std::runtime_error &error) {
            thrown = error.what();
        }
        REQUIRE(thrown == "7");
        for (int k = 0; k <= 7; ++k) REQUIRE(ran[k]);
        REQUIRE(total(20) == 210);
    }
}

void a_loop_within_a_chunk_is_serial() {
    levelprox::set_thread_count(3);
    std::atomic<std::int64_t> sum{0};
    parallel_for(6, ENOUGH, [&](std::int64_t) {
        const auto me = std::this_thread::get_id();
        parallel_for(6, ENOUGH, [&](std::int64_t k) {
            REQUIRE(std::this_thread::get_id() == me);
            sum += k;
        });
    });
    REQUIRE(sum == 90);
}

void nobody_waits_for_workers_that_are_busy() {
    Flag begun, finish;
    std::thread first([&] {
        levelprox::set_thread_count(2);
        std::atomic<int> there{0};
        parallel_for(2, ENOUGH, [&](std::int64_t) {
            if (++there == 2) begun.raise();
            finish.wait();
        });
    });
    begun.wait();  // the only worker is busy from here on
    levelprox::set_thread_count(2);
    REQUIRE(total(1000) == 500500);
    finish.raise();
    first.join();
}

void several_callers_at_once() {
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller)
        callers.emplace_back([caller] {
            levelprox::set_thread_count(2 + caller % 3);
            for (int round = 0; round < 500; ++round)
                REQUIRE(total(1 + round % 17) == (1 + round % 17) * (2 + round % 17) / 2);
        });
    for (std::thread &caller : callers) caller.join();
}

void a_limit_holds_for_the_thread_that_sets_it() {
    levelprox::set_thread_count(7);
    int elsewhere = 0;
    std::thread([&] { elsewhere = levelprox::thread_count(); }).join();
    REQUIRE(levelprox::thread_count() == 7 && elsewhere != 7);
    levelprox::set_thread_defaults(6, 0);
    levelprox::set_thread_count(6);  // as without a limit: follows the default again
    levelprox::set_thread_defaults(5, 0);
    REQUIRE(levelprox::thread_count() == 5);
    levelprox::set_thread_defaults(0, 1);
    REQUIRE(levelprox::thread_count() == 1);
    levelprox::set_thread_defaults(0, 0);
}

// The exit status of a child that runs `body`, forked while another thread is in the middle of a loop.
template <class Body>
void forked(Body body) {
    Flag begun, finish;
    std::thread busy([&] {
        levelprox::set_thread_count(3);
        std::atomic<int> there{0};
        parallel_for(3, ENOUGH, [&](std::int64_t) {
            if (++there == 1) begun.raise();
            finish.wait();
        });
    });
    begun.wait();
    const pid_t child = fork();
    if (child == 0) {
        body();
        std::_Exit(0);
    }
    int status = -1;
    for (int k = 0; waitpid(child, &status, WNOHANG) == 0; ++k) {
        if (k == 60'000) kill(child, SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    finish.raise();
    busy.join();
    REQUIRE(total(100) == 5050);
}

void a_forked_child_has_threads_of_its_own_if_it_asks() {
    levelprox::set_thread_count(4);
    forked([] {
        REQUIRE(levelprox::thread_count() == 1);
        REQUIRE(total(100) == 5050);
        every_chunk_is_run_once();
        two_chunks_run_at_the_same_time();
    });
}

}  // namespace

int main(int argc, char **argv) {
#define CASE(name) name(), std::puts(#name), std::fflush(stdout)
    CASE(every_chunk_is_run_once);
    CASE(two_chunks_run_at_the_same_time);
    CASE(little_work_stays_in_the_calling_thread);
    CASE(the_first_exception_is_thrown);
    CASE(a_loop_within_a_chunk_is_serial);
    CASE(nobody_waits_for_workers_that_are_busy);
    CASE(several_callers_at_once);
    CASE(a_limit_holds_for_the_thread_that_sets_it);
    if (argc < 2 || std::strcmp(argv[1], "no-fork") != 0) CASE(a_forked_child_has_threads_of_its_own_if_it_asks);
}
