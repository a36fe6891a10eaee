#include "sim/results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/json.h"
#include "base/parallel.h"
#include "sim/csv.h"
#include "sim/metrics.h"

namespace sparkpilot::sim {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHeadings[] = {"scenario", "category", "variant", "seed", "passed", "diverged_s", "reason"};
constexpr size_t kFixed = std::size(kHeadings);
constexpr int64_t kLargestRun = 1 << 26;      // bytes of run.json
constexpr int64_t kLargestRows = 4000000000;  // bytes of results.csv
constexpr size_t kMostNames = 1 << 20, kLongestName = 1000;

std::string heading_line(const RunInfo& info) {
  std::string line;
  for (const char* heading : kHeadings) line += std::string(line.empty() ? "" : ",") + heading;
  for (const std::string& metric : info.metrics) line += "," + metric;
  return line + "\n";
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// The fields of run.json, each checked.
class RunFields {
 public:
  RunFields(const Json& json, const std::string& name) : json_(json), name_(name) {}

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail("{}: no \"{}\"", name_, key);
    return *found;
  }
  std::string text(const Json& value, const char* key) const {
    if (!value.is_string()) wrong(key, "a text");
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > kLongestName) wrong(key, "a shorter text");
    return text;
  }
  std::string text(const char* key) const { return text(at(key), key); }
  std::vector<std::string> texts(const char* key) const {
    const Json& list = at(key);
    if (!list.is_array() || list.size() > kMostNames) wrong(key, "a list of texts");
    std::vector<std::string> texts;
    for (const Json& value : list) texts.push_back(text(value, key));
    return texts;
  }
  int64_t whole(const char* key, int64_t least, int64_t most) const {
    const Json& value = at(key);
    const bool fits =
        value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(most) : value.is_number_integer();
    if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most) {
      wrong(key, fmt::format("a whole number of {} to {}", least, most));
    }
    return value.get<int64_t>();
  }
  double number(const Json& value, const char* key) const {
    if (!value.is_number() || !std::isfinite(value.get<double>())) wrong(key, "a number");
    return value.get<double>();
  }
  std::optional<double> number_or_none(const char* key) const {
    const Json& value = at(key);
    return value.is_null() ? std::nullopt : std::optional(number(value, key));
  }
  [[noreturn]] void wrong(const char* key, std::string_view expected) const {
    fail("{}: \"{}\": expected {}", name_, key, expected);
  }

 private:
  const Json& json_;
  const std::string& name_;
};

Json rows_json(const std::string& text, const std::string& name) {
  std::optional<Json> json;
  try {
    json = parse_bounded(text);
  } catch (const nlohmann::json::exception&) {
    fail("{}: not JSON", name);
  }
  if (!json || !json->is_object()) fail("{}: expected a JSON object of a run", name);
  return std::move(*json);
}

template <typename Whole>
Whole whole_number(const CsvReader& csv, size_t column) {
  const std::string& text = csv.fields()[column];
  Whole value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || (std::is_signed_v<Whole> && value < Whole{})) {
    csv.fail_at(column, kHeadings[column], fmt::format("expected a whole number, got \"{}\"", text.substr(0, 40)));
  }
  return value;
}

ResultRow row_of(const CsvReader& csv, const RunInfo& info) {
  const std::vector<std::string>& fields = csv.fields();
  if (fields.size() != kFixed + info.metrics.size()) {
    csv.fail_at(fields.size() - 1, "the last",
                fmt::format("{} columns, expected {}", fields.size(), kFixed + info.metrics.size()));
  }
  ResultRow row;
  row.scenario = fields[0];
  row.category = fields[1];
  row.variant = whole_number<int64_t>(csv, 2);
  row.seed = whole_number<uint64_t>(csv, 3);
  if (fields[4] != "0" && fields[4] != "1") csv.fail_at(4, "passed", "expected 0 or 1");
  row.passed = fields[4] == "1";
  if (!fields[5].empty()) row.diverged = csv.number(5, "diverged_s");
  row.reason = fields[6];
  for (size_t i = 0; i < info.metrics.size(); ++i) {
    std::optional<double>& value = row.values.emplace_back();
    if (!fields[kFixed + i].empty()) value = csv.number(kFixed + i, info.metrics[i]);
  }
  return row;
}

void append_row(const ResultRow& row, std::string& text) {
  const auto append = [&](const std::optional<double>& value) {
    if (value) fmt::format_to(std::back_inserter(text), "{}", *value);
  };
  fmt::format_to(std::back_inserter(text), "{},{},{},{},{},", csv_field(row.scenario), csv_field(row.category),
                 row.variant, row.seed, row.passed ? 1 : 0);
  append(row.diverged);
  text += ',';
  text += csv_field(row.reason);
  for (const std::optional<double>& value : row.values) {
    text += ',';
    append(value);
  }
  text += '\n';
}

// On all threads: numbers as text take longer than some algorithms.
void append_rows(std::span<const ResultRow> rows, std::string& text) {
  constexpr size_t kOfPiece = 256;
  std::vector<std::string> pieces((rows.size() + kOfPiece - 1) / kOfPiece);
  parallel_for(std::ssize(pieces), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const auto left = rows.subspan(i * kOfPiece);
      for (const ResultRow& row : left.first(std::min(kOfPiece, left.size()))) append_row(row, pieces[i]);
    }
  });
  for (const std::string& piece : pieces) text += piece;
}

void write_run(const fs::path& folder, const RunInfo& info) {
  AtomicFile file(folder / kRunFile);
  file.write(text_of_run(info));
  file.commit();
}

std::string rows_text(const fs::path& file) {
  std::string text = read_file(file, kLargestRows);
  const size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

RunInfo read_run(const fs::path& folder) {
  const fs::path file = folder / kRunFile;
  return parse_run(read_file(file, kLargestRun), file.string());
}

// What is finished has all its worlds, unless it was cut off.
void expect_all(const RunInfo& info, int64_t rows, const fs::path& file) {
  const int64_t all = std::ssize(info.scenarios) * info.variants;
  if (rows != all) {
    fail("{}: {} of the {} worlds that {} tells of: the file was damaged after the run", file.string(), rows, all,
         kRunFile);
  }
}

}  // namespace

std::string difference(const RunInfo& then, const RunInfo& now) {
  const auto list = [](const std::vector<std::string>& names) {
    return fmt::format("{} ({})", names.size(), fmt::format("{}", fmt::join(names, ", ")).substr(0, 80));
  };
  for (const auto& [what, a, b] : std::initializer_list<std::tuple<const char*, std::string, std::string>>{
           {"program", then.program, now.program},
           {"plant", then.plant, now.plant},
           {"algorithm", then.algorithm, now.algorithm},
           {"a file of the algorithm with the MD5", then.algorithm_md5, now.algorithm_md5},
           {"vehicle", then.vehicle, now.vehicle},
           {"planner", then.planner, now.planner},
           {"seed", std::to_string(then.seed), std::to_string(now.seed)},
           {"variants", std::to_string(then.variants), std::to_string(now.variants)},
           {"scenarios", list(then.scenarios), list(now.scenarios)},
           {"instruction set", then.instruction_set, now.instruction_set},
           {"metrics", list(then.metrics), list(now.metrics)}}) {
    if (a != b) return fmt::format("{} {}, not {}", what, a.empty() ? "none" : a, b.empty() ? "none" : b);
  }
  for (size_t i = 0; i < std::min(then.parameters.size(), now.parameters.size()); ++i) {
    const Parameter &a = then.parameters[i], &b = now.parameters[i];
    if (!(a == b)) return fmt::format("{} {}, not {} {}", a.name, a.value, b.name, b.value);
  }
  return fmt::format("{} parameters, not {}", then.parameters.size(), now.parameters.size());
}

bool RunInfo::same_run(const RunInfo& o) const {
  return program == o.program && algorithm == o.algorithm && algorithm_md5 == o.algorithm_md5 &&
         parameters == o.parameters && vehicle == o.vehicle && plant == o.plant && planner == o.planner &&
         seed == o.seed && scenarios == o.scenarios && variants == o.variants && instruction_set == o.instruction_set &&
         metrics == o.metrics;
}

std::string text_of_run(const RunInfo& info) {
  Json parameters = Json::object();
  for (const Parameter& parameter : info.parameters) parameters[parameter.name] = parameter.value;
  const Json json = {{"format", kResultsFormat},
                     {"program", info.program},
                     {"algorithm", info.algorithm},
                     {"algorithm_md5", info.algorithm_md5.empty() ? Json() : Json(info.algorithm_md5)},
                     {"parameters", std::move(parameters)},
                     {"vehicle", info.vehicle},
                     {"plant", info.plant},
                     {"planner", info.planner},
                     {"seed", info.seed},
                     {"scenarios", info.scenarios},
                     {"variants", info.variants},
                     {"instruction_set", info.instruction_set},
                     {"metrics", info.metrics},
                     {"device", info.device},
                     {"processes", info.processes},
                     {"threads", info.threads},
                     {"steps", info.steps},
                     {"steps_per_second", number_or_null(info.steps_per_second)},
                     {"update_p50_us", number_or_null(info.update_p50_us)},
                     {"update_p99_us", number_or_null(info.update_p99_us)}};
  return json_text(json, 2) + "\n";
}

RunInfo parse_run(const std::string& text, const std::string& name) {
  const Json json = rows_json(text, name);
  const RunFields fields(json, name);
  if (const Json& format = fields.at("format"); format != kResultsFormat) {
    fail("{}: format {}, this program reads {}", name, json_text(format).substr(0, 40), kResultsFormat);
  }
  RunInfo info;
  info.program = fields.text("program");
  info.algorithm = fields.text("algorithm");
  if (json.contains("algorithm_md5") && !json["algorithm_md5"].is_null()) {
    info.algorithm_md5 = fields.text("algorithm_md5");
  }
  const Json& parameters = fields.at("parameters");
  if (!parameters.is_object()) fields.wrong("parameters", "an object of numbers");
  for (const auto& [key, value] : parameters.items()) {
    if (key.size() > kLongestName) fields.wrong("parameters", "shorter names");
    info.parameters.push_back({key, fields.number(value, "parameters")});
  }
  info.vehicle = fields.text("vehicle");
  info.plant = fields.text("plant");
  info.planner = fields.text("planner");
  if (!fields.at("seed").is_number_unsigned()) fields.wrong("seed", "a whole number of 0 or more");
  info.seed = fields.at("seed").get<uint64_t>();
  info.scenarios = fields.texts("scenarios");
  info.variants = fields.whole("variants", 0, int64_t{1} << 40);
  info.instruction_set = fields.text("instruction_set");
  info.metrics = fields.texts("metrics");
  if (info.metrics.size() > CsvReader::kMostColumns - kFixed) fields.wrong("metrics", "fewer names");
  for (size_t i = 0; i < info.metrics.size(); ++i) {
    const std::string& metric = info.metrics[i];
    if (find_metric(metric) == nullptr) fail("{}: \"metrics\": no metric \"{}\"", name, metric.substr(0, 100));
    if (std::find(info.metrics.begin(), info.metrics.begin() + static_cast<std::ptrdiff_t>(i), metric) !=
        info.metrics.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail("{}: \"metrics\": \"{}\" twice", name, metric);
    }
  }
  if (json.contains("device")) info.device = fields.text("device");  // runs were without it
  info.processes = static_cast<int>(fields.whole("processes", 1, 1 << 20));
  info.threads = static_cast<int>(fields.whole("threads", 1, 1 << 20));
  info.steps = fields.whole("steps", 0, int64_t{1} << 62);
  info.steps_per_second = fields.number_or_none("steps_per_second");
  info.update_p50_us = fields.number_or_none("update_p50_us");
  info.update_p99_us = fields.number_or_none("update_p99_us");
  return info;
}

std::vector<ResultRow> parse_rows(std::string_view text, const RunInfo& info, const std::string& name) {
  CsvReader csv(text, name);
  if (!csv.next()) fail("{}: no line of headings", name);
  const std::string line = heading_line(info);
  CsvReader wanted(line, name);
  wanted.next();
  if (csv.fields() != wanted.fields()) {
    fail("{}:1: expected the columns {}", name, line.substr(0, line.size() - 1));
  }
  std::vector<ResultRow> rows;
  while (csv.next()) rows.push_back(row_of(csv, info));
  return rows;
}

std::string text_of_rows(std::span<const ResultRow> rows, const RunInfo& info) {
  std::string text = heading_line(info);
  append_rows(rows, text);
  return text;
}

Results read_results(const fs::path& folder, bool unfinished) {
  Results results;
  results.info = read_run(folder);
  fs::path file = folder / kRowsFile;
  if (std::error_code none; !fs::exists(file, none)) {
    if (!unfinished) fail("{}: the run is not finished: continue it with --resume", folder.string());
    file = folder / kUnfinishedFile;
  }
  results.rows = parse_rows(rows_text(file), results.info, file.string());
  if (file.filename() == kRowsFile) expect_all(results.info, std::ssize(results.rows), file);
  return results;
}

ResultWriter::ResultWriter(fs::path folder, const RunInfo& info, bool resume)
    : folder_(std::move(folder)), lock_(std::make_unique<FolderLock>(folder_)), metrics_(info.metrics.size()) {
  std::error_code none;
  const bool there = fs::exists(folder_ / kRunFile, none);
  if (there && !resume) {
    fail("{}: holds a run: continue it with --resume, or name another folder", folder_.string());
  }
  if (!there && resume) fail("{}: holds no run that could be continued", folder_.string());
  if (there) {
    continue_run(info);
    return;
  }
  // One that was killed at its very beginning has left no more than a part of the headings.
  const fs::path begun = folder_ / kUnfinishedFile;
  const std::string headings = heading_line(info);
  if (fs::is_regular_file(fs::symlink_status(begun, none)) && fs::file_size(begun, none) <= headings.size() &&
      headings.starts_with(read_file(begun, std::ssize(headings)))) {
    fs::remove(begun, none);
  }
  for (const char* file : {kRowsFile, kUnfinishedFile}) {
    if (fs::exists(folder_ / file, none)) fail("{}: is there, without its {}", (folder_ / file).string(), kRunFile);
  }
  for (fs::directory_iterator at(folder_, none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename().string();
    if (name != ".sparkpilot.lock") {
      fail("{}: holds {}; name a folder that does not exist, or an empty one", folder_.string(), name);
    }
  }
  // Only with run.json does the folder hold a run.
  const fs::path rows = folder_ / kUnfinishedFile;
  fd_ = ::open(rows.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("{}: cannot be written: {}", rows.string(), std::strerror(errno));
  try {
    append(headings);
    write_run(folder_, info);
  } catch (...) {
    ::close(fd_);
    ::unlink(rows.c_str());
    throw;
  }
}

void ResultWriter::continue_run(const RunInfo& info) {
  const RunInfo begun = read_run(folder_);
  if (!begun.same_run(info)) {
    fail("{}: holds another run, whose {} says: {}", folder_.string(), kRunFile, difference(begun, info));
  }
  std::error_code none;
  const bool finished = fs::exists(folder_ / kRowsFile, none);
  const fs::path file = folder_ / (finished ? kRowsFile : kUnfinishedFile);
  const std::string text = rows_text(file);
  // A machine that went down may have left less than the line of headings.
  const bool headed = finished || !text.empty();
  if (headed) rows_ = std::ssize(parse_rows(text, begun, file.string()));
  bytes_ = std::ssize(text);
  if (finished) return expect_all(begun, rows_, file);
  fd_ = ::open(file.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(text.size())) != 0) {
    fail("{}: cannot be written: {}", file.string(), std::strerror(errno));
  }
  if (!headed) append(heading_line(begun));
}

ResultWriter::~ResultWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void ResultWriter::append(std::string_view text) {
  bytes_ += std::ssize(text);
  if (bytes_ > kLargestRows) {
    fail("{}: the rows take more than {} bytes: run fewer variants in one folder", (folder_ / kUnfinishedFile).string(),
         kLargestRows);
  }
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("{}: cannot be written: {}", (folder_ / kUnfinishedFile).string(), std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void ResultWriter::add(std::span<const ResultRow> rows) {
  std::string text;
  for (const ResultRow& row : rows) {
    if (row.values.size() != metrics_)
      fail_internal("sim: a row of {} figures, expected {}", row.values.size(), metrics_);
  }
  append_rows(rows, text);
  append(text);
  rows_ += std::ssize(rows);
}

void ResultWriter::finish(const RunInfo& info) {
  if (fd_ < 0) return;
  write_run(folder_, info);
  std::error_code error;
  fs::rename(folder_ / kUnfinishedFile, folder_ / kRowsFile, error);
  if (error) fail("{}: cannot be renamed: {}", (folder_ / kUnfinishedFile).string(), error.message());
  ::close(fd_);
  fd_ = -1;
}

}  // namespace sparkpilot::sim
