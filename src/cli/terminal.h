// The program's output: reports on stdout, progress and notes on stderr, colours only on terminals.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::cli {

// Prints a report's text; control characters other than painted()'s, which names in files may hold, as "\x1b". Fails
// (user) if it cannot be written.
void print(std::string_view text);
// Prints what programs read, unchanged. Fails as print() does.
void print_data(std::string_view text);
// Prints one JSON document, indented, followed by a newline. Invalid UTF-8 is replaced.
void print_json(const nlohmann::ordered_json& document);
// Ends the program's output; fails (user) if it could not be written (a full disk).
void flush_output();

// Prints a line on stderr, with control characters as print() has them.
void note(std::string_view text);

// Columns of the terminal at stdout; 0 if stdout is not a terminal.
int stdout_columns();

// Whether painted() paints: "never", "always", or "auto": if stdout is a terminal and TERM is not dumb.
void set_colours(std::string_view when);

// `text` in bold, green, red or dim.
enum class Paint { bold, good, bad, dim };
std::string painted(std::string_view text, Paint paint);

// Rows of text under headings, numbers (cells that begin with a digit) right-aligned. If the terminal is too narrow,
// names are shortened (cli/fit.h) and, if that is not enough, the last columns are printed below, with the first column
// repeated; without a terminal a table is complete.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string str(int room = stdout_columns()) const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// A progress bar on stderr, only if that is a terminal, in one line; it disappears at the end.
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

// With the given number of decimals; zero has no sign.
std::string fixed(double value, int decimals);
// "1.58 GB", "23.1 M", "0.81 ms" with three digits.
std::string human_bytes(int64_t bytes);
std::string human_count(double count);
std::string human_ms(double ms);
// "4:07", "1:15:07"; below zero as zero.
std::string human_time(double seconds);

}  // namespace sparkpilot::cli
