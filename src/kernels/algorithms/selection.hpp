// Some rows, some columns of X, copied: dense and compressed, along the slices and across them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "algorithms/passes.hpp"
#include "algorithms/slices.hpp"

namespace levelprox {

// out, of n slices, = the slices named in `chosen`.
template <class T>
void take_slices(const DenseSlices<T> &X, const std::int64_t *chosen, std::int64_t n, T *out, Poll &poll) {
    const DenseSlices<T> view(out, n, X.length);
    for_pieces(view, poll, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end; ++s)
            std::copy_n(X.data + chosen[s] * X.length, X.length, out + s * X.length);
    });
}

// out, of slices begin..end, = their entries named in `chosen`.
template <class T>
void take_within(const DenseSlices<T> &X, const std::int64_t *chosen, std::int64_t n, std::int64_t begin, T *out,
                 std::int64_t count, Poll &poll) {
    const DenseSlices<T> view(out, count, n);
    for_pieces(view, poll, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t s = first; s < last; ++s) {
            const T *a = X.data + (begin + s) * X.length;
            T *to = out + s * n;
            for (std::int64_t k = 0; k < n; ++k) to[k] = a[chosen[k]];
        }
    });
}

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};
template <class T>
using Memory = std::unique_ptr<T[], Free>;

// `size` numbers of any value, in place of those in `memory`, as many of which as fit are kept.
template <class T>
Memory<T> resized(Memory<T> memory, std::size_t size) {
    void *moved = std::realloc(memory.get(), std::max<std::size_t>(size, 1) * sizeof(T));
    if (!moved) throw std::bad_alloc();
    memory.release();
    return Memory<T>(static_cast<T *>(moved));
}

// An array that is added to. Unlike a vector, it need not be held twice to grow.
template <class T>
class Growing {
public:
    void append(const std::vector<T> &more) {
        if (size_ + more.size() > room_)
            memory_ = resized(std::move(memory_), room_ = std::max(size_ + more.size(), room_ * 3 / 2));
        std::copy(more.begin(), more.end(), memory_.get() + size_);
        size_ += more.size();
    }
    Memory<T> release() { return resized(std::move(memory_), size_); }

private:
    Memory<T> memory_;
    std::size_t size_ = 0, room_ = 0;
};

// Arrays of a selection, in the types of what it was selected from.
template <class T, class I>
struct Selection {
    std::vector<std::int64_t> indptr;
    Memory<T> data;
    Memory<I> indices;

    // From sizes in indptr[1..], the offsets and room for all.
    void allocate() {
        for (std::size_t s = 1; s < indptr.size(); ++s) indptr[s] += indptr[s - 1];
        data = resized(Memory<T>(), indptr.back());
        indices = resized(Memory<I>(), indptr.back());
    }
    SparseSlices<T, I> view() const {
        return {data.get(), indices.get(), indptr.data(), std::int64_t(indptr.size()) - 1, 0};
    }
};

// Where an index occurs in `chosen`, which may repeat: first[j] is its first position, next[k] the one after
// position k; -1 is none. Most indices do not occur: a bit says so from a nearer cache.
template <class I>
class Positions {
public:
    Positions(std::int64_t length, const std::int64_t *chosen, std::int64_t n)
        : bits_(length / 64 + 1), first_(length), next_(n, -1) {
        if (n > std::numeric_limits<I>::max())
            throw std::invalid_argument("more positions than the type of the indices can name");
        for (std::int64_t k = n; k-- > 0;) {
            const std::int64_t j = chosen[k];
            if (has(j)) next_[k] = first_[j];
            bits_[j >> 6] |= std::uint64_t(1) << (j & 63);
            first_[j] = I(k);
        }
    }

    bool has(std::int64_t j) const { return bits_[j >> 6] >> (j & 63) & 1; }

    // Which of n indices occur: their places in hit[], and how many. No branch, as none could be predicted.
    int find(const I *indices, int n, int *hit) const {
        int hits = 0;
        for (int i = 0; i < n; ++i) {
            hit[hits] = i;
            hits += has(indices[i]);
        }
        return hits;
    }

    // f(k) for the positions of an index that occurs
    template <class F>
    void each(std::int64_t j, F f) const {
        for (I k = first_[j]; k >= 0; k = next_[k]) f(k);
    }

private:
    std::vector<std::uint64_t> bits_;
    std::vector<I> first_, next_;
};

// The entries of slices first..last that `positions` names, and how many each slice has of them.
template <class T, class I>
void find_within(const SparseSlices<T, I> &X, const Positions<I> &positions, std::int64_t first, std::int64_t last,
                 std::vector<T> &data, std::vector<I> &indices, std::int64_t *sizes) {
    constexpr std::int64_t HITS = 1024;
    int hit[HITS];
    data.clear();
    indices.clear();
    for (std::int64_t s = first; s < last; ++s) {
        const std::size_t before = indices.size();
        for (std::int64_t p = X.indptr[s], stop; p < X.indptr[s + 1]; p = stop) {
            stop = std::min(p + HITS, X.indptr[s + 1]);
            const int hits = positions.find(X.indices + p, int(stop - p), hit);
            for (int h = 0; h < hits; ++h)
                positions.each(X.indices[p + hit[h]], [&](I k) {
                    data.push_back(X.data[p + hit[h]]);
                    indices.push_back(k);
                });
        }
        sizes[s] = std::int64_t(indices.size() - before);
    }
}

// The slices named in `chosen`.
template <class T, class I>
Selection<T, I> select_slices(const SparseSlices<T, I> &X, const std::int64_t *chosen, std::int64_t n, Poll &poll) {
    Selection<T, I> out{std::vector<std::int64_t>(n + 1), nullptr, nullptr};
    for (std::int64_t k = 0; k < n; ++k) out.indptr[k + 1] = X.stored(chosen[k], chosen[k] + 1);
    out.allocate();
    const SparseSlices<T, I> view = out.view();
    for_pieces(view, poll, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
            const std::int64_t from = X.indptr[chosen[k]], size = view.stored(k, k + 1);
            std::copy_n(X.data + from, size, out.data.get() + out.indptr[k]);
            std::copy_n(X.indices + from, size, out.indices.get() + out.indptr[k]);
        }
    });
    return out;
}

// Of slices begin..end the entries at the indices named in `chosen`. One pass over the indices, some slices at a time:
// what a round finds is added to the result, which grows in place where the system can move pages, so that no more than
// one round is ever held twice.
template <class T, class I>
Selection<T, I> select_within(const SparseSlices<T, I> &X, const std::int64_t *chosen, std::int64_t n,
                              std::int64_t begin, std::int64_t end, Poll &poll) {
    struct Found {
        std::vector<T> data;
        std::vector<I> indices;
    };
    const Positions<I> positions(X.length, chosen, n);
    const SparseSlices<T, I> range(X.data, X.indices, X.indptr + begin, end - begin, X.length);
    const std::vector<std::int64_t> cuts = cut(range);
    const std::int64_t pieces = std::int64_t(cuts.size()) - 1, at_once = ROUND / 4 / GRAIN;
    std::vector<Found> found(std::min(pieces, at_once));
    Selection<T, I> out{std::vector<std::int64_t>(range.count + 1), nullptr, nullptr};
    Growing<T> data;
    Growing<I> indices;
    for (std::int64_t first = 0; first < pieces; first += at_once) {
        const std::int64_t count = std::min(at_once, pieces - first);
        parallel_for(count, effort_of(range, work_of(range, cuts[first], cuts[first + count])), [&](std::int64_t k) {
            find_within(range, positions, cuts[first + k], cuts[first + k + 1], found[k].data, found[k].indices,
                        out.indptr.data() + 1);
        });
        for (std::int64_t k = 0; k < count; ++k) {
            data.append(found[k].data);
            indices.append(found[k].indices);
        }
        poll.check();
    }
    for (std::size_t s = 1; s < out.indptr.size(); ++s) out.indptr[s] += out.indptr[s - 1];
    out.data = data.release();
    out.indices = indices.release();
    return out;
}

// Entries begin..end of the slices named in `chosen`, turned: slice i of the result holds entry begin + i of each of
// them, in their order. Tasks share out the entries; `sorted` says that indices ascend, so that none reads them all.
template <class T, class I>
Selection<T, I> transpose(const SparseSlices<T, I> &X, const std::int64_t *chosen, std::int64_t n, std::int64_t begin,
                          std::int64_t end, bool sorted, Poll &poll) {
    if (n > std::numeric_limits<I>::max())
        throw std::invalid_argument("more positions than the type of the indices can name");
    constexpr std::int64_t TASKS = 16;
    const std::int64_t step = sorted ? std::max<std::int64_t>((end - begin + TASKS - 1) / TASKS, 1024) : end - begin;
    Selection<T, I> out{std::vector<std::int64_t>(end - begin + 1), nullptr, nullptr};
    // f(k, p) for the stored entries p of slices first..last that lie in from..to
    const auto each = [&](std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t to, auto f) {
        for (std::int64_t k = first; k < last; ++k) {
            std::int64_t p = X.indptr[chosen[k]], stop = X.indptr[chosen[k] + 1];
            if (sorted) {
                p = std::lower_bound(X.indices + p, X.indices + stop, from) - X.indices;
                stop = std::lower_bound(X.indices + p, X.indices + stop, to) - X.indices;
            }
            for (; p < stop; ++p)
                if (sorted || (X.indices[p] >= from && X.indices[p] < to)) f(k, p);
        }
    };
    // Slices in rounds between which Ctrl-C is noticed, each round over all tasks.
    const auto in_rounds = [&](auto f) {
        for (std::int64_t first = 0, last; first < n; first = last) {
            std::int64_t work = 0;
            for (last = first; last < n && work < ROUND; ++last) work += X.stored(chosen[last], chosen[last] + 1) + 1;
            for_ranges(end - begin, std::max<std::int64_t>(step, 1), effort_of(X, work),
                       [&](std::int64_t from, std::int64_t to) { each(first, last, begin + from, begin + to, f); });
            poll.check();
        }
    };
    in_rounds([&](std::int64_t, std::int64_t p) { ++out.indptr[X.indices[p] - begin + 1]; });
    out.allocate();
    std::vector<std::int64_t> free(out.indptr.begin(), out.indptr.end() - 1);
    in_rounds([&](std::int64_t k, std::int64_t p) {
        const std::int64_t q = free[X.indices[p] - begin]++;
        out.data[q] = X.data[p];
        out.indices[q] = I(k);
    });
    return out;
}

}  // namespace levelprox
