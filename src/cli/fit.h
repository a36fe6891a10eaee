// Text made to fit the columns of a terminal. Where there is none, nothing is cut: a program may read it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sparkpilot::cli {

// Columns that a text takes: UTF-8 continuation bytes and colour sequences take none.
size_t width_of(std::string_view text);

// The last part of a path or of a qualified name: "Conv" of "/a/b/Conv" and of "sparkpilot::Conv".
std::string_view base_name(std::string_view name);

// `text` in at most `width` columns, with "..." for what is left out. A sentence keeps its beginning, a path or
// a qualified name its last parts (".../block_1/Conv"), then the last one alone, any other name both ends
// ("driving...onnx"). Text with colours stays whole.
std::string fitted(std::string_view text, size_t width);

// `text` broken at blanks so that it fits `columns` behind `indent` columns that are taken; the lines after the first
// are indented as far. A word that is too long is fitted. 0 columns, or hardly any left: as it is.
std::string hung(std::string_view text, size_t indent, int columns);

}  // namespace sparkpilot::cli
