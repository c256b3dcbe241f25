// Threads: independent chunks of work, each of which writes memory of its own.
//
// What a chunk computes never depends on which thread runs it, nor on how many there are: work is cut by
// its size alone (passes.hpp), so every number has the same bits on one core and on a hundred.
//
// The calling thread takes chunks itself until none is left, and then waits only for chunks that other threads have
// begun. A thread that is slow to wake up, or gets no processor, costs nothing (docs/adr/0014-own-thread-pool.md).
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace levelprox {

// The least work of a thread, counted in float64 numbers that are read from memory, multiplied and added, or in what
// takes as long: 4 MiB, about 0.1 ms. With less than twice this amount a loop is serial; with more, no more threads are
// woken than have this much each. Measured on two cores: for a product with 2^18, 2^19, 2^20 and 2^21 numbers two
// threads need 1.05, 0.8, 0.66 and 0.54 times as long as one, and 2.0, 1.5, 1.3 and 1.1 times the processor time.
constexpr std::int64_t THREAD_WORK = std::int64_t(1) << 19;
inline std::atomic<std::int64_t> thread_work{THREAD_WORK};  // tests set it to 1

// How many threads a loop of the calling thread may use, itself included. In this order: what threadpoolctl has set for
// this thread, OMP_NUM_THREADS, the processors that this thread may run on and the quota of the container. One in a
// process that was forked, for it is often one of several, until threadpoolctl sets another number there.
int thread_count();

// For the calling thread alone; where the number is the one that would be used anyway, any setting is forgotten.
void set_thread_count(int count);

// The number in OMP_NUM_THREADS (0: none), and the processors that the container's quota allows (0: no quota). Once,
// when the module is loaded (levelprox/_runtime/threads.py reads them).
void set_thread_defaults(int environment, int quota);

// chunk(body, k) for 0 <= k < count by at most that many threads.
void run_chunks(std::int64_t count, std::int64_t threads, void (*chunk)(const void *, std::int64_t), const void *body);

// body(k) for 0 <= k < count, in any order and at the same time, where all of them together have that much work. What
// one of them throws is thrown here, after all that were begun have ended; of several exceptions that of the smallest
// k. Chunks must not touch Python: check for Ctrl-C before and after. A loop within a chunk is serial.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t work, const Body &body) {
    if (const std::int64_t threads = std::min(count, work / thread_work.load(std::memory_order_relaxed)); threads > 1)
        return run_chunks(
            count, threads, [](const void *f, std::int64_t k) { (*static_cast<const Body *>(f))(k); }, &body);
    for (std::int64_t k = 0; k < count; ++k) body(k);
}

}  // namespace levelprox
