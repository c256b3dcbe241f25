#include "simd/simd.hpp"

#include <atomic>
#include <stdexcept>

namespace levelprox {
namespace {

const Simd *widest() {
#ifdef LEVELPROX_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return &simd_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &simd_avx2;
#endif
    return &simd_baseline;
}

std::atomic<const Simd *> &current() {
    static std::atomic<const Simd *> table = widest();
    return table;
}

}  // namespace

const Simd &simd() { return *current().load(std::memory_order_relaxed); }

void use_simd(const std::string &name) {
    const Simd *best = widest();
    if (name == "auto") {
        current() = best;
        return;
    }
    if (name == simd_baseline.name) {
        current() = &simd_baseline;
        return;
    }
#ifdef LEVELPROX_X86
    if (name == simd_avx2.name && best != &simd_baseline) {
        current() = &simd_avx2;
        return;
    }
    if (name == simd_avx512.name && best == &simd_avx512) {
        current() = &simd_avx512;
        return;
    }
#endif
    throw std::invalid_argument("no vector loops named '" + name + "' on this processor");
}

}  // namespace levelprox
