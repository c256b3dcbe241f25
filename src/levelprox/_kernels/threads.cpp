#include "threads.hpp"

#if __has_include(<pthread.h>)
#include <pthread.h>
#endif

namespace levelprox {
namespace {

bool forked = false;

#if __has_include(<pthread.h>)
[[maybe_unused]] const int watching = pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif

}  // namespace

bool is_forked() { return forked; }

}  // namespace levelprox
