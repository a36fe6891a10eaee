// Fits text to the columns of a terminal. Without a terminal nothing is cut: a program may read it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sparkpilot::cli {

// Columns that a text takes: UTF-8 continuation bytes and colour sequences take none.
size_t width_of(std::string_view text);

// The last part of a path or of a qualified name: "Conv" for "/a/b/Conv" and for "sparkpilot::Conv".
std::string_view base_name(std::string_view name);

// `text` in at most `width` columns, with "..." for what is left out. A sentence keeps its beginning, a path or a
// qualified name its last parts (".../block_1/Conv"), then the last one alone, any other name both ends
// ("driving...onnx"). Text with colours is not cut.
std::string fitted(std::string_view text, size_t width);

// `text` wrapped at blanks to fit `columns`, after `indent` columns that are already used; the lines after the first
// are indented by the same. A word that is too long is fitted. With 0 columns, or hardly any left, the text is not
// changed.
std::string wrapped(std::string_view text, size_t indent, int columns);

}  // namespace sparkpilot::cli
