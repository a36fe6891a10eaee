#include "sim/tune.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "sim/cma_es.h"

namespace sparkpilot::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSearches[] = {"grid", "random", "cma-es"};
constexpr int64_t kMostTrials = 10'000'000;
constexpr size_t kMostRanges = 100;
constexpr int64_t kLargestJournal = 1 << 30;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void check(const TuneOptions& options) {
  if (options.ranges.empty() || options.ranges.size() > kMostRanges) {
    fail("a search over {} parameters, expected 1 to {}", options.ranges.size(), kMostRanges);
  }
  if (options.trials < 1 || options.trials > kMostTrials) {
    fail("{} trials, expected 1 to {}", options.trials, kMostTrials);
  }
  std::set<std::string> names;
  for (const TuneRange& range : options.ranges) {
    const bool finite = std::isfinite(range.low) && std::isfinite(range.high) && std::isfinite(range.high - range.low);
    if (!finite || !(range.low < range.high)) {
      fail("parameter {}: from {} to {}, expected a rising range", range.name, range.low, range.high);
    }
    if (range.logarithmic && !(range.low > 0)) {
      fail("parameter {}: a logarithmic range from {}, expected above 0", range.name, range.low);
    }
    if (range.logarithmic && !std::isfinite(range.high / range.low)) {
      fail("parameter {}: a logarithmic range from {} to {} is too wide", range.name, range.low, range.high);
    }
    if (!names.insert(range.name).second) fail("parameter {}: given twice", range.name);
  }
}

// What of a range is at u, 0 to 1.
double value_at(const TuneRange& range, double u) {
  const double value =
      range.logarithmic ? range.low * std::pow(range.high / range.low, u) : range.low + u * (range.high - range.low);
  return std::clamp(value, range.low, range.high);
}

// A coordinate folded back into 0 to 1 at both ends.
double folded(double u) {
  const double within = std::fmod(std::abs(u), 2.0);
  return within > 1 ? 2 - within : within;
}

// The trials of a search, one after the other: a function of the options and of the costs told.
class Proposals {
 public:
  explicit Proposals(const TuneOptions& options) : options_(options), random_(options.seed) {
    const size_t n = options.ranges.size();
    if (options.search == Search::cma_es) {
      search_ = std::make_unique<CmaEs>(CmaEs::Options{.start = std::vector<double>(n, 0.5), .seed = options.seed});
    }
    if (options.search == Search::grid) {
      while (std::pow(static_cast<double>(points_ + 1), static_cast<double>(n)) <=
             static_cast<double>(options.trials)) {
        ++points_;
      }
    }
  }

  // Empty: there are no more; CMA-ES says why.
  std::optional<std::vector<double>> next(std::string& why) {
    std::vector<double> at;
    if (options_.search == Search::grid) {
      int64_t rest = count_;
      for (size_t i = 0; i < options_.ranges.size(); ++i) {
        at.push_back(points_ == 1 ? 0.5 : static_cast<double>(rest % points_) / static_cast<double>(points_ - 1));
        rest /= points_;
      }
      if (rest > 0) return std::nullopt;
    } else if (options_.search == Search::random) {
      for (size_t i = 0; i < options_.ranges.size(); ++i) at.push_back(random_.uniform());
    } else {
      if (costs_.empty() && !search_->stop().empty()) return why = search_->stop(), std::nullopt;
      at = search_->ask()[costs_.size()];
    }
    std::vector<double> values;
    for (size_t i = 0; i < at.size(); ++i) values.push_back(value_at(options_.ranges[i], folded(at[i])));
    return values;
  }

  void tell(const std::optional<double>& cost) {
    ++count_;
    if (!search_) return;
    costs_.push_back(cost.value_or(kNone));
    if (costs_.size() < search_->ask().size()) return;
    search_->tell(costs_);
    costs_.clear();
  }

 private:
  const TuneOptions& options_;
  Random random_;
  std::unique_ptr<CmaEs> search_;
  std::vector<double> costs_;  // of this generation
  int64_t points_ = 1, count_ = 0;
};

std::string trial_line(const Trial& trial) {
  return json_text(Json{{"values", trial.values}, {"cost", trial.cost ? Json(*trial.cost) : Json()}});
}

std::optional<Trial> parse_trial(const std::string& line, size_t values) {
  try {
    const std::optional<Json> json = parse_bounded(line);
    if (!json || !json->is_object() || !json->contains("values") || !json->contains("cost")) return {};
    Trial trial{.values = (*json)["values"].get<std::vector<double>>(), .cost = {}};
    if (trial.values.size() != values) return {};
    if (!(*json)["cost"].is_null()) trial.cost = (*json)["cost"].get<double>();
    if (trial.cost && !std::isfinite(*trial.cost)) return {};
    return trial;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

// Some 120 characters of a text around the place where it begins to differ from another.
std::string around(const std::string& text, std::ptrdiff_t differs) {
  constexpr size_t kShown = 120;
  const auto from = static_cast<size_t>(std::max<std::ptrdiff_t>(differs - 40, 0));
  return (from > 0 ? "..." : "") + text.substr(from, kShown) + (text.size() > from + kShown ? "..." : "");
}

// In what the first line of a journal is of another search than that of `head`.
std::string difference(const std::string& line, const std::string& head) {
  const Json theirs = parse_json_or_discard(line), ours = parse_json(head);
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : json_text(value); };
  std::string key = "first line", their = line, our = head;
  for (const auto& [name, value] : ours.items()) {
    if (!theirs.is_object() || !theirs.contains(name) || theirs[name] == value) continue;
    key = name, their = text(theirs[name]), our = text(value);
    break;
  }
  const auto differs = std::ranges::mismatch(their, our).in1 - their.begin();
  return fmt::format(R"(its {} is "{}", expected "{}")", key, around(their, differs), around(our, differs));
}

// Lines are in the file when add() returns.
class Journal {
 public:
  Journal(std::filesystem::path path, const TuneOptions& options, bool resume) : path_(std::move(path)) {
    if (path_.empty()) return;
    std::error_code none;
    const bool there = std::filesystem::exists(path_, none);
    if (there && !resume) fail("{}: is there: continue it with --resume, or name another file", path_.string());
    int64_t kept = 0;
    if (there) {
      JournalText text = parse_journal(read_file(path_, kLargestJournal), options, path_.string());
      kept = text.bytes;
      trials_ = std::move(text.trials);
    }
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (there ? 0 : O_EXCL), 0666);
    if (fd_ < 0 || (there && ::ftruncate(fd_, kept) != 0)) broken();
    if (kept == 0) add(journal_head(options));
  }
  ~Journal() {
    if (fd_ >= 0) ::close(fd_);
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const std::vector<Trial>& trials() const { return trials_; }

  void add(const std::string& line) {
    if (fd_ < 0) return;
    const std::string text = line + "\n";
    for (std::string_view rest = text; !rest.empty();) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) broken();
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }

 private:
  [[noreturn]] void broken() const { fail("{}: cannot be written: {}", path_.string(), std::strerror(errno)); }

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<Trial> trials_;
};

double number_in(std::string_view text, std::string_view all) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    fail("{}: expected NAME=LOW:HIGH or NAME=LOW:HIGH:log, got \"{}\" for a number", all, text);
  }
  return value;
}

}  // namespace

std::string_view name(Search search) { return kSearches[static_cast<size_t>(search)]; }

Search search_named(std::string_view name) {
  const auto found = std::ranges::find(kSearches, name);
  if (found == std::end(kSearches)) fail("no search \"{}\": there are grid, random, cma-es", name);
  return static_cast<Search>(found - std::begin(kSearches));
}

TuneRange parse_range(std::string_view text) {
  TuneRange out;
  const size_t equals = text.find('='), colon = text.find(':', equals == std::string_view::npos ? 0 : equals);
  if (equals == std::string_view::npos || equals == 0 || colon == std::string_view::npos) {
    fail("{}: expected NAME=LOW:HIGH or NAME=LOW:HIGH:log", text);
  }
  out.name = text.substr(0, equals);
  std::string_view high = text.substr(colon + 1);
  if (high.ends_with(":log")) {
    out.logarithmic = true;
    high.remove_suffix(4);
  }
  out.low = number_in(text.substr(equals + 1, colon - equals - 1), text);
  out.high = number_in(high, text);
  return out;
}

std::string journal_head(const TuneOptions& options) {
  Json ranges = Json::array();
  for (const TuneRange& range : options.ranges) {
    ranges.push_back({{"name", range.name}, {"low", range.low}, {"high", range.high}, {"log", range.logarithmic}});
  }
  Json line = {{"search", name(options.search)},
               {"seed", options.seed},
               {"ranges", std::move(ranges)},
               {"objective", options.objective}};
  if (options.search == Search::grid) line["trials"] = options.trials;  // of which the grid is made
  return json_text(line);
}

JournalText parse_journal(const std::string& text, const TuneOptions& options, const std::string& name) {
  const std::string head = journal_head(options);
  JournalText out;
  size_t at = 0;
  int64_t number = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', at)) {
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (++number == 1) {
      if (line == head) continue;
      fail("{}:1: is of another search: {}", name, difference(line, head));
    }
    std::optional<Trial> trial = parse_trial(line, options.ranges.size());
    if (!trial) fail("{}:{}: expected a trial of {} values", name, number, options.ranges.size());
    out.trials.push_back(std::move(*trial));
  }
  // A first line that was cut is the only text without a whole one; a file of somebody else's stays as it is.
  if (at == 0 && !head.starts_with(text)) {
    fail("{}:1: expected the journal of a search, got {}", name, text.substr(0, 200));
  }
  out.bytes = static_cast<int64_t>(at);
  return out;
}

TuneResult tune(const TuneOptions& options, const std::function<double(const std::vector<double>&)>& cost,
                const std::filesystem::path& journal, bool resume, const std::atomic<bool>* stop,
                const std::function<void(int64_t)>& done) {
  check(options);
  Journal file(journal, options, resume);
  Proposals proposals(options);
  TuneResult out;
  out.ended = options.search == Search::grid ? "the grid is complete" : "trials";
  while (std::ssize(out.trials) < options.trials) {
    if (stop != nullptr && stop->load()) {
      out.ended = "stopped";
      break;
    }
    std::optional<std::vector<double>> values = proposals.next(out.ended);
    if (!values) break;
    Trial trial{.values = std::move(*values), .cost = {}};
    const size_t number = out.trials.size();
    if (number < file.trials().size()) {
      const Trial& before = file.trials()[number];
      if (before.values != trial.values) {
        fail("{}:{}: another trial than this program makes: begin a new journal", journal.string(), number + 2);
      }
      trial.cost = before.cost;
      ++out.resumed;
    } else {
      const double value = cost(trial.values);
      if (std::isfinite(value)) trial.cost = value;
      file.add(trial_line(trial));
    }
    proposals.tell(trial.cost);
    if (trial.cost && (!out.best || *trial.cost < *out.trials[*out.best].cost)) out.best = number;
    out.trials.push_back(std::move(trial));
    if (done) done(std::ssize(out.trials));
  }
  return out;
}

}  // namespace sparkpilot::sim
