#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/fit.h"

namespace sparkpilot::cli {
namespace {

bool& colours_on() {
  static bool on = false;
  return on;
}

// A line that another text has to replace.
std::atomic<bool>& progress_drawn() {
  static std::atomic<bool> drawn = false;
  return drawn;
}

int columns_of(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// "what [###...]  42 %", one column shorter than the terminal: a line that wraps cannot be redrawn. The bar is
// shortened first, then the end of the words.
std::string progress_line(const std::string& what, double done, int columns) {
  constexpr int kWidest = 30, kMin = 5, kPercent = 6;
  const int room = std::max(0, columns - 1 - kPercent);
  size_t end = what.size();
  while (end > 0 && width_of(what.substr(0, end)) > static_cast<size_t>(room)) --end;
  while (end > 0 && end < what.size() && (static_cast<unsigned char>(what[end]) & 0xc0) == 0x80) --end;
  std::string line = what.substr(0, end);
  const int bar = std::min(kWidest, room - static_cast<int>(width_of(line)) - 3);
  if (bar >= kMin) {
    const auto full = static_cast<size_t>(std::lround(done * bar));
    line += fmt::format(" [{}{}]", std::string(full, '#'), std::string(static_cast<size_t>(bar) - full, '.'));
  }
  return line + fmt::format(" {:3.0f} %", done * 100);
}

[[noreturn]] void refuse_output(int error) { fail("cannot write the output: {}", std::strerror(error)); }

std::string three_digits(double value) {
  const double size = std::abs(value);
  return size >= 99.95   ? fmt::format("{:.0f}", value)
         : size >= 9.995 ? fmt::format("{:.1f}", value)
                         : fmt::format("{:.2f}", value);
}

constexpr std::string_view kPlainAgain = "\x1b[0m", kPaints[] = {"\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[2m"};

// How many characters of the control sequence at `at` painted() writes; 0: none.
size_t paint_at(std::string_view text, size_t at) {
  if (!colours_on()) return 0;
  if (text.substr(at).starts_with(kPlainAgain)) return kPlainAgain.size();
  for (const std::string_view paint : kPaints) {
    if (text.substr(at).starts_with(paint)) return paint.size();
  }
  return 0;
}

// Names and texts of files may hold what commands a terminal: such characters are written as "\\x1b".
std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t paint = paint_at(text, i), control = text[i] == '\n' || text[i] == '\t' ? 0 : control_at(text, i);
    if (paint == 0 && control > 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + control - 1]));
      i += control;
    } else {
      out += text.substr(i, std::max<size_t>(paint, 1));
      i += std::max<size_t>(paint, 1);
    }
  }
  return out;
}

}  // namespace

void print(std::string_view text) { print_data(without_controls(text)); }

void print_data(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) refuse_output(errno);
}

void print_json(const nlohmann::ordered_json& document) { print_data(json_text(document, 2) + "\n"); }

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) refuse_output(errno);
}

void note(std::string_view text) {
  if (progress_drawn()) std::fputs("\r\x1b[K", stderr);
  const std::string line = without_controls(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void set_colours(std::string_view when) {
  const char* term = std::getenv("TERM");
  const bool able = isatty(STDOUT_FILENO) && term && std::strcmp(term, "dumb") != 0;
  colours_on() = when == "always" || (when == "auto" && able);
}

int stdout_columns() { return isatty(STDOUT_FILENO) ? columns_of(STDOUT_FILENO) : 0; }

std::string painted(std::string_view text, Paint paint) {
  if (!colours_on()) return std::string(text);
  return fmt::format("{}{}{}", kPaints[static_cast<size_t>(paint)], text, kPlainAgain);
}

Progress::Progress(bool wanted, std::string what) : shown_(wanted && isatty(STDERR_FILENO)), what_(std::move(what)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  progress_drawn() = false;
}

void Progress::at(double done) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  progress_drawn() = true;
  fmt::print(stderr, "\r\x1b[K{}",
             progress_line(without_controls(what_), std::clamp(done, 0.0, 1.0), columns_of(STDERR_FILENO)));
  std::fflush(stderr);
}

std::string fixed(double value, int decimals) {
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return text.find_first_not_of("-0.") == std::string::npos && text[0] == '-' ? text.substr(1) : text;
}

std::string human_bytes(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b < 1e3) return fmt::format("{} B", bytes);
  if (b < 999.5e3) return three_digits(b / 1e3) + " kB";
  if (b < 999.5e6) return three_digits(b / 1e6) + " MB";
  return three_digits(b / 1e9) + " GB";
}

std::string human_count(double count) {
  if (count < 1e3) return fmt::format("{:.0f}", count);
  if (count < 999.5e3) return three_digits(count / 1e3) + " k";
  if (count < 999.5e6) return three_digits(count / 1e6) + " M";
  return three_digits(count / 1e9) + " G";
}

std::string human_ms(double ms) {
  return ms < 0.1 ? fmt::format("{:.4f}", ms) : ms < 10 ? fmt::format("{:.3f}", ms) : fmt::format("{:.2f}", ms);
}

std::string human_time(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace sparkpilot::cli
