// Fuzzes the LIBSVM parser: texts that reach a new edge are kept and changed further.
//
//     libsvm fuzz FOLDER INPUTS SEED     from FOLDER/seeds and FOLDER/pieces; writes FOLDER/corpus
//     libsvm replay FOLDER               all of FOLDER/corpus, under every setting
//
// Each text is read three times: at once, in pieces, and in batches of rows. All must agree, and what is read must be a
// matrix. Pieces lie in memory of exactly their size, so that AddressSanitizer sees every byte too far.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "algorithms/libsvm.hpp"

namespace {

namespace fs = std::filesystem;
using namespace levelprox::libsvm;

constexpr std::size_t LONGEST = 20'000;
constexpr unsigned PATIENCE = 10;  // seconds for one text

std::array<std::uint8_t, 1 << 16> edges{};  // there before any constructor runs
std::size_t last_block = 0, edge_count = 0;

const std::vector<Settings> SETTINGS = [] {
    std::vector<Settings> all;
    for (const std::int64_t features : {std::int64_t(3), std::int64_t(20), std::int64_t(1'000'000'000), std::int64_t(1) << 40})
        for (const bool zero_based : {false, true})
            for (const bool single : {false, true}) all.push_back({features, zero_based, single});
    return all;
}();

[[noreturn]] void stop(const std::string &text, const char *why) {
    std::ofstream("fuzz-failure.svm", std::ios::binary) << text;
    std::fprintf(stderr, "%s; the text is in fuzz-failure.svm\n", why);
    std::abort();
}

template <class T> T number_at(levelprox::Block &block, std::int64_t k) { return block.as<T>()[k]; }

// Everything that was read so far, as bytes that can be compared.
struct Outcome {
    std::string entries, labels;
    Trouble trouble;

    void add(Parser &parser, const Settings &settings, const std::string &text) {
        parser.pack(parser.features());
        const auto place = [&](levelprox::Block &block, std::int64_t k) {
            return parser.wide() ? number_at<std::int64_t>(block, k) : std::int64_t(number_at<std::int32_t>(block, k));
        };
        for (std::int64_t i = 0; i < parser.rows(); ++i) {
            std::int64_t before = -1;
            for (std::int64_t k = place(parser.indptr, i); k < place(parser.indptr, i + 1); ++k) {
                const std::int64_t column = place(parser.indices, k);
                const double value = settings.single ? double(number_at<float>(parser.values, k)) : number_at<double>(parser.values, k);
                if (column <= before || column >= settings.features || !std::isfinite(value)) stop(text, "not a matrix");
                before = column;
                put(entries, column);
                put(entries, value);
            }
            put(entries, std::int64_t(-1));  // the row's end
            if (!std::isfinite(number_at<double>(parser.labels, i))) stop(text, "a label is not finite");
            put(labels, number_at<double>(parser.labels, i));
        }
        if (place(parser.indptr, parser.rows()) != parser.entries()) stop(text, "indptr does not fit the entries");
        parser.clear();
    }

    template <class T> static void put(std::string &bytes, T value) { bytes.append(reinterpret_cast<const char *>(&value), sizeof value); }

    bool operator==(const Outcome &other) const {
        const Trouble &a = trouble, &b = other.trouble;
        if (a.fault != b.fault || a.line != b.line || a.column != b.column || a.before != b.before) return false;
        return a.fault != Fault::none || (entries == other.entries && labels == other.labels);
    }
};

// Pushed in pieces of these sizes, over and over; taken every `rows` rows.
Outcome read(const std::string &text, const Settings &settings, const std::vector<std::size_t> &sizes, std::int64_t rows) {
    Outcome outcome;
    Parser parser(settings);
    std::size_t at = 0;
    for (std::size_t k = 0; at < text.size(); ++k) {
        const std::size_t size = std::min(sizes[k % sizes.size()], text.size() - at);
        const std::vector<char> piece(text.begin() + std::ptrdiff_t(at), text.begin() + std::ptrdiff_t(at + size));
        for (std::size_t used = 0; used < size;) {
            used += parser.feed(piece.data() + used, size - used, rows);
            if (parser.trouble().fault == Fault::none && parser.rows() == rows) outcome.add(parser, settings, text);
        }
        at += size;
    }
    parser.finish();
    outcome.trouble = parser.trouble();
    if (outcome.trouble.fault == Fault::none) outcome.add(parser, settings, text);
    const Fault fault = outcome.trouble.fault;
    if (fault < Fault::none || fault > Fault::token_too_long) stop(text, "a fault that is not listed");
    return outcome;
}

void check(const std::string &text, const Settings &settings, const std::vector<std::size_t> &sizes, std::int64_t rows) {
    alarm(PATIENCE);
    last_block = 0;
    const Outcome whole = read(text, settings, {text.size() + 1}, -1);
    if (!(whole == read(text, settings, sizes, -1))) stop(text, "pieces give something else");
    if (!(whole == read(text, settings, sizes, rows))) stop(text, "batches give something else");
}

std::vector<std::string> files(const fs::path &folder) {
    std::vector<fs::path> paths(fs::directory_iterator(folder), {});
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> texts;
    for (const auto &path : paths) {
        std::ifstream file(path, std::ios::binary);
        texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return texts;
}

class Fuzzer {
public:
    Fuzzer(const fs::path &folder, std::uint64_t seed) : folder_(folder), random_(seed), pieces_(files(folder / "pieces")), corpus_(files(folder / "seeds")) {}

    void run(std::int64_t inputs) {
        for (const auto &text : corpus_)
            for (const auto &settings : SETTINGS) check(text, settings, {1}, 1);
        for (std::int64_t k = 0; k < inputs; ++k) {
            const std::string text = mutated();
            const std::size_t known = edge_count;
            check(text, SETTINGS[below(SETTINGS.size())], {1 + below(3), 1 + below(50)}, 1 + std::int64_t(below(3)));
            if (edge_count > known) corpus_.push_back(text);
        }
        fs::create_directories(folder_ / "corpus");
        for (std::size_t k = 0; k < corpus_.size(); ++k) std::ofstream(folder_ / "corpus" / std::to_string(k), std::ios::binary) << corpus_[k];
        std::printf("{\"inputs\": %lld, \"edges\": %zu, \"corpus\": %zu}\n", static_cast<long long>(inputs), edge_count, corpus_.size());
    }

private:
    std::size_t below(std::size_t n) { return std::size_t(random_() % n); }
    const std::string &any(const std::vector<std::string> &texts) { return texts[below(texts.size())]; }

    std::string mutated() {
        std::string text = any(corpus_);
        for (std::size_t times = 1 + below(4); times > 0; --times) change(text);
        if (text.size() > LONGEST) text.resize(LONGEST);
        return text;
    }

    void change(std::string &text) {
        const std::size_t at = below(text.size() + 1);
        switch (below(6)) {
        case 0:
            if (at < text.size()) text[at] = char(random_());
            break;
        case 1:
            text.insert(at, 1, char(random_()));
            break;
        case 2:
            text.erase(at, 1 + below(20));
            break;
        case 3:
            text.replace(at, below(5), any(pieces_));
            break;
        case 4:
            text.insert(at, " " + any(pieces_) + " ");
            break;
        default:
            text.insert(at, any(corpus_).substr(0, below(60)));
        }
    }

    fs::path folder_;
    std::mt19937_64 random_;
    std::vector<std::string> pieces_, corpus_;
};

void replay(const fs::path &folder) {
    for (const auto &text : files(folder / "corpus"))
        for (const auto &settings : SETTINGS) check(text, settings, {1, 7}, 2);
}

}  // namespace

// Called at every basic block of the parser, where it is compiled with -fsanitize-coverage=trace-pc.
extern "C" void __sanitizer_cov_trace_pc() {
    const auto block = reinterpret_cast<std::size_t>(__builtin_return_address(0));
    const std::size_t edge = (block ^ (last_block * 0x9E3779B97F4A7C15ull >> 40)) % edges.size();
    last_block = block;
    if (edges[edge] == 0) {
        edges[edge] = 1;
        ++edge_count;
    }
}

int main(int count, char **words) {
    if (count == 5 && std::strcmp(words[1], "fuzz") == 0) {
        Fuzzer(words[2], std::strtoull(words[4], nullptr, 10)).run(std::strtoll(words[3], nullptr, 10));
        return 0;
    }
    if (count == 3 && std::strcmp(words[1], "replay") == 0) {
        replay(words[2]);
        return 0;
    }
    std::fprintf(stderr, "libsvm fuzz FOLDER INPUTS SEED | libsvm replay FOLDER\n");
    return 2;
}
