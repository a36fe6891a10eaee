#include "monitor/process_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "hw/parse_text.h"

namespace sparkpilot::monitor {
namespace {

constexpr double kTicksPerSecond = 100;  // USER_HZ: the same on every architecture known to us

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 64;
  std::string out(text.substr(0, kLongest));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

struct Interpreter {
  std::string_view name;
  std::string_view inline_program;  // letters of short options that are followed by a program instead of a file's name
};
const Interpreter* interpreter(std::string_view comm) {
  static constexpr Interpreter kAll[] = {{"python", "c"}, {"bash", "c"},  {"sh", "c"},  {"node", "ep"},
                                         {"java", ""},    {"perl", "eE"}, {"ruby", "e"}};
  const auto* const found = std::find_if(std::begin(kAll), std::end(kAll), [&](const Interpreter& each) {
    return comm.starts_with(each.name) &&
           comm.find_first_not_of("0123456789.", each.name.size()) == std::string_view::npos;
  });
  return found == std::end(kAll) ? nullptr : found;
}

// Such an option, alone, among others (-lc) or long.
bool gives_program(const Interpreter& of, std::string_view word) {
  if (word.starts_with("--")) return of.name == "node" && (word == "--eval" || word == "--print");
  return word.starts_with("-") && word.find_first_of(of.inline_program) != std::string_view::npos;
}

// "123 (name (of) any bytes) S 1 ...": fields are counted after the last parenthesis, the state being the third.
struct Stat {
  std::string_view comm;
  int64_t ticks = 0, start = 0, pages = 0;
};
std::optional<Stat> parse_stat(std::string_view text) {
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const auto fields = words(text.substr(close + 1), 22);
  if (fields.size() < 22) return std::nullopt;
  const auto user = to_integer(fields[11]), system = to_integer(fields[12]), start = to_integer(fields[19]),
             pages = to_integer(fields[21]);
  const auto sane = [](std::optional<int64_t> value) { return value && *value >= 0 && *value < INT64_MAX / 4; };
  if (!sane(user) || !sane(system) || !sane(start) || !sane(pages)) return std::nullopt;
  return Stat{text.substr(open + 1, close - open - 1), *user + *system, *start, *pages};
}

}  // namespace

std::string process_name(const std::string& comm, std::string_view arguments) {
  std::string name = printable(comm);
  const Interpreter* const of = interpreter(comm);
  if (!of) return name;
  bool first = true;
  while (!arguments.empty()) {
    const size_t end = std::min(arguments.find('\0'), arguments.size());
    const std::string_view word = arguments.substr(0, end);
    arguments.remove_prefix(std::min(end + 1, arguments.size()));
    if (!first && gives_program(*of, word)) break;  // its text may hold anything
    if (!first && !word.empty() && word[0] != '-') return name + " " + printable(base_name(word));
    first = false;
  }
  return name;
}

// If there are thousands of processes, listing them costs most: it is done every fourth time.
void ProcessReader::list() {
  constexpr size_t kMany = 1000;
  constexpr int kReadings = 4;
  if (pids_.size() >= kMany && ++unlisted_ < kReadings) return;
  unlisted_ = 0;
  pids_.clear();
  const std::vector<std::string> names = source_.list("/proc");
  for (const std::string& name : names) {
    const auto pid = to_integer(name);
    if (pid && *pid > 0) pids_.push_back(*pid);
  }
  count_.reset();
  if (!pids_.empty() && names.size() < Source::kListLimit) count_ = static_cast<int64_t>(pids_.size());
  std::sort(pids_.begin(), pids_.end());
}

// False if it has ended.
bool ProcessReader::look(int64_t pid, int64_t now_ns) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string text = read_text(source_, folder + "/stat", 4096);
  const auto stat = parse_stat(text);
  if (!stat) {
    known_.erase(pid);
    return false;
  }
  Process& process = known_[pid];
  const bool same = process.at_ns && process.start == stat->start;
  if (!same) process = {};
  const double seconds = static_cast<double>(now_ns - process.at_ns.value_or(now_ns)) * 1e-9;
  process.percent.reset();
  if (same && seconds > 0 && stat->ticks >= process.ticks) {
    process.percent = 100 * static_cast<double>(stat->ticks - process.ticks) / kTicksPerSecond / seconds;
  }
  if (process.comm != stat->comm) {  // a new process, or one that now runs another program
    process.comm = std::string(stat->comm);
    process.name =
        process_name(process.comm, interpreter(process.comm) != nullptr ? read_text(source_, folder + "/cmdline", 4096)
                                                                        : std::string());
  }
  process.start = stat->start;
  process.ticks = stat->ticks;
  process.pages = stat->pages;
  process.at_ns = now_ns;
  return true;
}

// The counts are in the kernel's pages: their size is determined once, from a process whose bytes are also known.
std::optional<int64_t> ProcessReader::resident(int64_t pid, const Process& process) {
  constexpr int64_t kEnough = 256;  // pages: the two counts are not read at the same moment
  if (!page_bytes_ && process.pages >= kEnough) {
    const std::string status = read_text(source_, "/proc/" + std::to_string(pid) + "/status", 8192);
    for (std::string_view left = status; const auto line = next_line(left);) {
      if (line->substr(0, 6) != "VmRSS:") continue;
      const auto fields = words(line->substr(6), 2);
      const auto kib = fields.empty() ? std::nullopt : to_integer(fields[0]);
      if (!kib || *kib <= 0 || *kib > int64_t{1} << 40) break;
      const double ratio = static_cast<double>(*kib) * 1024 / static_cast<double>(process.pages);
      page_bytes_ = int64_t{1} << std::clamp<int64_t>(std::lround(std::log2(ratio)), 12, 16);  // 4 to 64 KB
    }
  }
  constexpr int64_t kMaxPages = int64_t{1} << 40;
  if (!page_bytes_ || process.pages > kMaxPages) return std::nullopt;
  return process.pages * *page_bytes_;
}

std::vector<ProcessSample> ProcessReader::next(int64_t now_ns,
                                               const std::map<int64_t, std::optional<int64_t>>& on_gpu) {
  list();
  for (auto it = known_.begin(); it != known_.end();) {
    const bool there = std::binary_search(pids_.begin(), pids_.end(), it->first) || on_gpu.contains(it->first);
    it = there ? std::next(it) : known_.erase(it);
  }
  // Processes on a GPU first, then busy ones, then as many of the rest as the budget allows, from where the last
  // reading stopped.
  std::set<int64_t> looked;
  for (const auto& [pid, bytes] : on_gpu) {
    look(pid, now_ns);
    looked.insert(pid);
  }
  const size_t limit = looked.size() + budget_;
  for (const int64_t pid : pids_) {
    const auto known = known_.find(pid);
    if (looked.size() >= limit || known == known_.end() || !known->second.busy() || looked.contains(pid)) continue;
    look(pid, now_ns);
    looked.insert(pid);
  }
  const auto start = std::upper_bound(pids_.begin(), pids_.end(), turn_);
  for (size_t i = 0; i < pids_.size() && looked.size() < limit; ++i) {
    const auto behind = static_cast<size_t>(start - pids_.begin()) + i;
    const int64_t pid = pids_[behind % pids_.size()];
    if (!looked.insert(pid).second) continue;
    look(pid, now_ns);
    turn_ = pid;
  }

  std::vector<ProcessSample> out;
  for (const auto& [pid, bytes] : on_gpu) {
    const auto known = known_.find(pid);
    ProcessSample& sample = out.emplace_back(ProcessSample{pid, {}, {}, {}, true, bytes});
    if (known == known_.end()) continue;  // in another container, or already ended
    sample.name = known->second.name;
    sample.cpu_percent = known->second.percent;
    sample.resident_bytes = resident(pid, known->second);
  }
  for (const auto& [pid, process] : known_) {
    if (on_gpu.contains(pid)) continue;
    out.push_back({pid, process.name, process.percent, resident(pid, process), false, {}});
  }
  std::stable_sort(out.begin(), out.end(), [](const ProcessSample& a, const ProcessSample& b) {
    return std::tuple(a.on_gpu, a.gpu_bytes, a.cpu_percent, a.resident_bytes) >
           std::tuple(b.on_gpu, b.gpu_bytes, b.cpu_percent, b.resident_bytes);
  });
  return out;
}

}  // namespace sparkpilot::monitor
