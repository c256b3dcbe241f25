// Memory that grows in place where the system can: large blocks are moved by their page tables, not copied, and what
// has been allocated and not written to takes no memory.
#pragma once
#include <cstdlib>
#include <new>
#include <utility>

namespace levelprox {

class Block {
public:
    Block() = default;
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    ~Block() { std::free(bytes_); }

    template <class T>
    T *as() {
        return static_cast<T *>(bytes_);
    }

    void resize(std::size_t size) {
        void *moved = std::realloc(bytes_, size > 0 ? size : 1);
        if (moved == nullptr) throw std::bad_alloc();
        bytes_ = moved;
    }

    // The caller frees it.
    void *release() { return std::exchange(bytes_, nullptr); }

private:
    void *bytes_ = nullptr;
};

}  // namespace levelprox
