// How the program speaks: reports on stdout, progress and notes on stderr, colours only where somebody looks.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::cli {

// A report's text, as it is. Fails (user) where it cannot be written.
void print(std::string_view text);
// One JSON document, indented, with a newline behind it. Text that is no UTF-8 is replaced.
void print_json(const nlohmann::ordered_json& document);
// Ends the program's output; fails (user) where it could not be written (a full disk).
void flush_output();

// A line on stderr.
void note(std::string_view text);

// Columns of the terminal that stdout is; 0 where it is none.
int stdout_columns();

// Whether painted() paints: "never", "always", or "auto": where stdout is a terminal and TERM is not dumb.
void set_colours(std::string_view when);

// `text` in bold, green, red or dim.
enum class Paint { bold, good, bad, dim };
std::string painted(std::string_view text, Paint paint);

// Rows of text under headings, numbers (cells that begin with a digit) to the right. On a terminal that is too narrow
// names are shortened (cli/fit.h) and, where that is not enough, the last columns stand below under the first column
// again; elsewhere a table is whole.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string str(int room = stdout_columns()) const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// A bar on stderr, only where that is a terminal, in one line of it; it disappears at the end.
class Progress {
 public:
  Progress(bool wanted, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void what(std::string text) { what_ = std::move(text); }
  // 0 to 1. Draws at most ten times a second.
  void at(double done);

 private:
  bool shown_;
  std::string what_;
  std::chrono::steady_clock::time_point last_{};
};

// With so many decimals; what is rounded to zero has no sign.
std::string fixed(double value, int decimals);
// "1.58 GB", "23.1 M", "0.81 ms" with three digits.
std::string human_bytes(int64_t bytes);
std::string human_count(double count);
std::string human_ms(double ms);

}  // namespace sparkpilot::cli
