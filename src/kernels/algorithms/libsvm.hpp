// LIBSVM text, pushed in pieces of any size, to the arrays of a CSR matrix and its labels.
//
//     label [qid:n] index:value index:value ...  # comment
//
// One line per sample, indices ascending. Blanks are space, tab and carriage return. Between pieces only the token that
// was cut is kept, and a token is at most TOKEN_LIMIT bytes long: lines may have any length.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "algorithms/block.hpp"

namespace levelprox::libsvm {

inline constexpr std::size_t TOKEN_LIMIT = 4096;

enum class Fault {
    none,
    label,             // not a number
    label_not_finite,  // nan, inf, or too large
    no_label,          // the line begins with index:value
    several_labels,    // 1,2
    no_colon,
    no_index,  // :value
    index,     // not a whole number
    negative_index,
    zero_index,  // in a file that counts from one
    index_too_large,
    order,     // below the index before it
    repeated,  // the index before it once more
    no_value,  // index:
    value,     // not a number
    value_not_finite,
    value_too_large,
    query,  // qid: without a whole number
    token_too_long,
};

struct Settings {
    std::int64_t features;  // indices reach so far at most
    bool zero_based;
    bool single;  // values as float32
};

// The first thing wrong with the text; lines and columns count from one, columns in bytes.
struct Trouble {
    Fault fault = Fault::none;
    std::int64_t line = 0, column = 0;
    std::int64_t before = 0;  // the index before, as the file counts
    std::string token;
};

class Parser {
public:
    explicit Parser(const Settings &settings);

    // Reads on, until the text ends, `rows` rows are there or something is wrong; how many bytes were used.
    std::size_t feed(const char *text, std::size_t size, std::int64_t rows);
    // No more text: the last line needs no newline.
    void finish();
    const Trouble &trouble() const { return trouble_; }

    // What was read since the beginning or the last clear().
    std::int64_t rows() const { return rows_; }
    std::int64_t entries() const { return entries_; }
    // One more than the largest column of all that was read.
    std::int64_t features() const { return features_; }
    // Shrinks the blocks to what is in them, as a matrix of so many columns is stored: indices and indptr are int64 if
    // `wide`, else int32. Whole lines must have been read; clear() must follow.
    void pack(std::int64_t features);
    bool wide() const { return wide_; }
    bool single() const { return settings_.single; }
    void clear();
    Block indptr, indices, values, labels;

private:
    const char *read_carried(const char *at, const char *end);
    const char *read_text(const char *at, const char *stop, const char *end, std::int64_t rows);
    const char *skip_comment(const char *at, const char *end);
    const char *token(const char *begin);
    const char *label(const char *begin);
    const char *item(const char *begin);
    const char *irregular_item(const char *begin);
    void carry(const char *at, const char *end);
    void end_line(std::int64_t next);
    Fault fault_of_label(const char *begin, const char *end) const;
    Fault fault_of_index(const char *begin, const char *colon) const;
    Fault fault_of_value(const char *begin, const char *end) const;
    const char *fail(Fault fault, const char *at, const char *end);
    bool fits(double value) const;
    void push_entry(std::int64_t column, double value);
    void make_room_for_rows();
    void make_room_for_entries();
    void resize_entries();
    void widen();
    std::int64_t place(const char *at) const { return text_place_ + (at - text_); }

    Settings settings_;
    std::int64_t rows_ = 0, row_room_ = 0;
    std::int64_t entries_ = 0, entry_room_ = 0;
    std::int64_t features_ = 0;
    bool wide_ = false;

    // Of the line that is being read.
    std::int64_t line_ = 1, line_place_ = 0;  // places are bytes from the beginning of the file
    bool has_label_ = false, has_query_ = false, in_comment_ = false;
    std::int64_t before_ = -1;  // the last column

    std::int64_t place_ = 0;       // what comes next
    const char *text_ = nullptr;   // what is being read,
    std::int64_t text_place_ = 0;  // and its place
    std::string carried_;          // the token that was cut
    std::int64_t carried_place_ = 0;
    Trouble trouble_;
};

}  // namespace levelprox::libsvm
