#include "algorithms/threads.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#if __has_include(<pthread.h>)
#include <pthread.h>
#define LEVELPROX_PTHREADS 1
#endif
#if defined(__linux__)
#include <sched.h>
#endif

#if defined(_WIN32)
#define LEVELPROX_EXPORT extern "C" __declspec(dllexport)
#else
#define LEVELPROX_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace levelprox {
namespace {

// ---- How many threads

std::atomic<int> environment{0}, quota{0};
thread_local int asked = 0;        // by threadpoolctl
thread_local bool inside = false;  // a chunk

// Processors that the calling thread may run on.
int processors() {
#if defined(__linux__)
    cpu_set_t set;  // 1024 processors; with more of them the call fails
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
#endif
    return std::max(int(std::thread::hardware_concurrency()), 1);
}

int default_count() {
    if (const int count = environment.load(std::memory_order_relaxed)) return count;
    const int paid = quota.load(std::memory_order_relaxed);
    return paid ? std::min(paid, processors()) : processors();
}

// ---- One loop

// A loop that threads share. It outlives its call while a worker uses it; `body` does not,
// and is only used by threads that have taken a chunk.
struct Job {
    Job(std::int64_t chunks, std::int64_t workers, void (*function)(const void *, std::int64_t), const void *data)
        : count(chunks), chunk(function), body(data), places(workers), failed(chunks) {}

    const std::int64_t count;
    void (*const chunk)(const void *, std::int64_t);
    const void *const body;
    std::int64_t places;  // workers that may still join; guarded by the pool's mutex

    std::atomic<std::int64_t> next{0}, done{0};
    std::atomic<std::int64_t> failed;  // the first chunk known to have thrown, or `count`; chunks after it are skipped
    std::mutex mutex;                  // guards `thrown`, writing of `failed`, and sleep
    std::condition_variable ended;
    std::exception_ptr thrown;

    bool has_chunks() const { return next.load(std::memory_order_relaxed) < count; }

    void work() {
        inside = true;
        for (std::int64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
            if (k < failed.load(std::memory_order_relaxed)) run(k);
            if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
                const std::lock_guard lock(mutex);  // or the caller may fall asleep after this
                ended.notify_one();
            }
        }
        inside = false;
    }

    // Until all chunks are done. All have been taken, so a thread is at work on each that is not. Falling asleep and
    // waking up takes as long as most chunks: first it looks for a moment.
    void wait() {
        constexpr std::chrono::microseconds MOMENT{50};
        const auto is_done = [&] { return done.load(std::memory_order_acquire) == count; };
        for (const auto until = std::chrono::steady_clock::now() + MOMENT;
             !is_done() && std::chrono::steady_clock::now() < until;) {
        }
        if (!is_done()) {
            std::unique_lock lock(mutex);
            ended.wait(lock, is_done);
        }
        if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
    }

private:
    void run(std::int64_t k) noexcept {
        try {
            chunk(body, k);
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (k < failed.load(std::memory_order_relaxed)) {
                failed.store(k, std::memory_order_relaxed);
                thrown = std::current_exception();
            }
        }
    }
};

// ---- The workers

// Signals are for the threads of Python; faults are for the thread that has them.
class SignalsBlocked {
#ifdef LEVELPROX_PTHREADS
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&all, fault);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;

private:
    sigset_t before_;
#else
public:
    SignalsBlocked() {}
#endif
};

// Workers that sleep until there is a job. One job at a time: a second caller runs its job alone.
class Pool {
public:
    // Whether workers were free to be offered the job. `withdraw` must follow.
    bool offer(const std::shared_ptr<Job> &job) {
        const std::int64_t wanted = job->places;
        std::int64_t there;
        {
            const std::lock_guard lock(mutex_);
            if (job_) return false;
            start(wanted);
            there = workers_;
            if (there == 0) return false;
            job_ = job;
        }
        if (wanted >= there) wake_.notify_all();
        else
            for (std::int64_t k = 0; k < wanted; ++k) wake_.notify_one();
        return true;
    }

    // No worker joins from now on.
    void withdraw() {
        const std::lock_guard lock(mutex_);
        job_.reset();
    }

private:
    // Makes workers up to that many, or as many as the system grants.
    void start(std::int64_t wanted) {
        if (workers_ >= wanted) return;
        const SignalsBlocked blocked;
        try {
            for (; workers_ < wanted; ++workers_) std::thread([this] { serve(); }).detach();
        } catch (const std::exception &) {  // no threads, or no memory for another one
        }
    }

    [[noreturn]] void serve() {
#if defined(__linux__)
        pthread_setname_np(pthread_self(), "levelprox");
#endif
        for (std::unique_lock lock(mutex_);; lock.lock()) {
            wake_.wait(lock, [&] { return job_ && job_->places > 0 && job_->has_chunks(); });
            --job_->places;
            std::shared_ptr<Job> job = job_;
            lock.unlock();
            job->work();
            job.reset();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::shared_ptr<Job> job_;  // the one that may be joined
    std::int64_t workers_ = 0;  // never fewer; changed under the mutex by the thread that adds a job
};

// Never destroyed: workers sleep in it until the process ends. A forked child has none of them, and the state that
// they and the other threads of its parent had; it creates a new pool when needed.
std::atomic<Pool *> pool{nullptr};

Pool &the_pool() {
    if (Pool *there = pool.load(std::memory_order_acquire)) return *there;
    auto fresh = std::make_unique<Pool>();
    Pool *there = nullptr;
    return pool.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel) ? *fresh.release() : *there;
}

#ifdef LEVELPROX_PTHREADS
[[maybe_unused]] const int watching = pthread_atfork(nullptr, nullptr, [] {
    pool.store(nullptr, std::memory_order_relaxed);
    environment.store(1, std::memory_order_relaxed);
    asked = 0;
});
#endif

}  // namespace

int thread_count() { return asked ? asked : default_count(); }

void set_thread_count(int count) { asked = count < 1 || count == default_count() ? 0 : count; }

void set_thread_defaults(int from_environment, int from_quota) {
    environment.store(from_environment, std::memory_order_relaxed);
    quota.store(from_quota, std::memory_order_relaxed);
}

void run_chunks(std::int64_t count, std::int64_t threads, void (*chunk)(const void *, std::int64_t), const void *body) {
    if (!inside && (threads = std::min<std::int64_t>(threads, thread_count())) > 1) {
        const auto job = std::make_shared<Job>(count, threads - 1, chunk, body);
        Pool &workers = the_pool();
        if (workers.offer(job)) {
            job->work();
            workers.withdraw();
            return job->wait();
        }
    }
    for (std::int64_t k = 0; k < count; ++k) chunk(body, k);
}

}  // namespace levelprox

// For threadpoolctl, which finds them in the loaded library (levelprox/_runtime.py).
LEVELPROX_EXPORT int levelprox_get_num_threads() { return levelprox::thread_count(); }
LEVELPROX_EXPORT void levelprox_set_num_threads(int count) { levelprox::set_thread_count(count); }
