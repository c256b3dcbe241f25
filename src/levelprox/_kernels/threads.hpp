// Threads: independent tasks, each of which writes memory of its own.
//
// What a task computes never depends on which thread runs it, nor on how many there are: work is cut by
// its size alone (passes.hpp), so every number has the same bits on one core and on a hundred.
#pragma once
#include <cstdint>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace levelprox {

// Whether this process was forked from one that may have had threads. libgomp would wait for ever for them.
bool is_forked();

// How many threads a pass may use: OpenMP's setting for the calling thread (OMP_NUM_THREADS, threadpoolctl).
inline int thread_count() {
#ifdef _OPENMP
    return is_forked() ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

// body(k) for 0 <= k < count, in any order and at the same time; what one of them throws is thrown here, after
// all have ended. Tasks must not touch Python: look for Ctrl-C before and after.
template <class Body>
void parallel_for(std::int64_t count, const Body &body) {
#ifdef _OPENMP
    if (count > 1 && thread_count() > 1) {
        std::exception_ptr thrown;
#pragma omp parallel for schedule(dynamic, 1)
        for (std::int64_t k = 0; k < count; ++k) {
            try {
                body(k);
            } catch (...) {
#pragma omp critical(levelprox_thrown)
                if (!thrown) thrown = std::current_exception();
            }
        }
        if (thrown) std::rethrow_exception(thrown);
        return;
    }
#endif
    for (std::int64_t k = 0; k < count; ++k) body(k);
}

}  // namespace levelprox
