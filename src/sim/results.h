// What a run of scenarios leaves and a comparison reads: a folder with
//   run.json       what was run, and how fast
//   results.csv    a row for each simulated world; results.csv.part until the run is finished
// docs/simulation.md describes both. They may have been written by others: what is read is bounded and checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {
class FolderLock;
}

namespace sparkpilot::sim {

inline constexpr int kResultsFormat = 1;
inline constexpr const char *kRunFile = "run.json", *kRowsFile = "results.csv", *kUnfinishedFile = "results.csv.part";

struct Parameter {
  std::string name;
  double value = 0;
  bool operator==(const Parameter&) const = default;
};

struct RunInfo {
  // What the rows are a function of.
  std::string program;                // version
  std::string algorithm;              // "lateral_torque"; a user's: the name of its file
  std::string algorithm_md5;          // of that file, in hexadecimal digits; else empty
  std::vector<Parameter> parameters;  // all of the algorithm's
  std::string vehicle, plant;         // "civic", "bicycle"
  std::string planner;                // "idm"; empty where the plant has none
  uint64_t seed = 0;
  std::vector<std::string> scenarios;  // in the order of the rows, each with all its variants
  int64_t variants = 0;                // of each scenario
  std::string instruction_set;
  std::vector<std::string> metrics;  // the columns of the rows, names of all_metrics()
  // How it was computed; of the last part where a run was continued.
  std::string device = "cpu";  // or "cuda:0 (NVIDIA GB10)"
  int processes = 1, threads = 1;
  int64_t steps = 0;                                   // of all worlds together
  std::optional<double> steps_per_second;              // of all worlds together
  std::optional<double> update_p50_us, update_p99_us;  // of one update of the algorithm, apart from the batch

  // Whether rows of both would be the same: compares the first part.
  bool same_run(const RunInfo& other) const;
};
// The first thing that makes them other runs: "variants 3, not 4".
std::string difference(const RunInfo& then, const RunInfo& now);

// One world. Rows of two runs belong together that have equal scenario, variant and seed.
struct ResultRow {
  std::string scenario, category;
  int64_t variant = 0;  // from 0
  uint64_t seed = 0;    // of its parameters and noise
  bool passed = false;
  std::optional<double> diverged;             // s: when the state left every bound; the figures are those before
  std::string reason;                         // why it did not pass; empty if it did
  std::vector<std::optional<double>> values;  // one for each of RunInfo::metrics; empty: not measured
  bool operator==(const ResultRow&) const = default;
  // Without any the algorithm failed.
  bool has_figures() const {
    return std::ranges::any_of(values, [](const auto& value) { return value.has_value(); });
  }
};

struct Results {
  RunInfo info;
  std::vector<ResultRow> rows;
};

// Fails (user) naming file, line and column; on a run that is not finished unless `unfinished` is allowed.
Results read_results(const std::filesystem::path& folder, bool unfinished = false);

// The two files from text; `name` is the file's in errors. Rows end with the last whole line.
RunInfo parse_run(const std::string& text, const std::string& name);
std::string text_of_run(const RunInfo& info);
std::vector<ResultRow> parse_rows(std::string_view text, const RunInfo& info, const std::string& name);

// Rows as in the file, its headings first; parse_rows() gives the same rows back.
std::string text_of_rows(std::span<const ResultRow> rows, const RunInfo& info);

// Writes a run's folder, which nobody else may write meanwhile. Rows are in the file when add() returns, so a process
// that ends in whatever way leaves a run that can be continued.
class ResultWriter {
 public:
  // Makes the folder. Fails (user) if it holds anything; with `resume`, if it holds no run or another one.
  ResultWriter(std::filesystem::path folder, const RunInfo& info, bool resume);
  ~ResultWriter();
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  int64_t rows() const { return rows_; }  // that are in the file
  bool finished() const { return fd_ < 0; }
  // Fails (user) before the file would be larger than read_results() takes.
  void add(std::span<const ResultRow> rows);
  // `info`: with what was measured.
  void finish(const RunInfo& info);

 private:
  void continue_run(const RunInfo& info);
  void append(std::string_view text);

  std::filesystem::path folder_;
  std::unique_ptr<FolderLock> lock_;
  size_t metrics_ = 0;
  int64_t rows_ = 0, bytes_ = 0;  // of the rows' file
  int fd_ = -1;
};

}  // namespace sparkpilot::sim
