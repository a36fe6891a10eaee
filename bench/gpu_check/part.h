// Parts of gpu_check: each checks or measures one thing on a GPU and says what failed and what was found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shape.h"
#include "tensor/gpu.h"

namespace sparkpilot::gpu_check {

struct Options {
  std::filesystem::path models;  // a folder with more networks; empty: none
  std::string filter;            // only ops and networks whose name contains this
  int ordinal = 0;               // of the GPU, as CUDA counts them
  bool tiny = false;             // tiny networks and little memory: minutes on an emulator
  int64_t rounds = 12;           // of runs in turns
  int64_t until = 0;             // of now_ns(): when the call ends
  double soak_minutes = 30;
  std::vector<std::string> engines;  // for `peers`
  std::string python;                // that runs their adapters; empty: found as docs/peers.md says
  // Keeps what a part has found so far, as Outcome::go_on: `if_ended` for the case that the program is ended by what
  // comes next, `if_stopped` that it is stopped by its user or because its time is over.
  std::function<void(const Json& if_ended, const Json& if_stopped)> save;
  bool takes(std::string_view name) const;  // by `filter`
  std::string device() const { return "cuda:" + std::to_string(ordinal); }
};

// The failure of a part or an item that a process did not come back from.
inline constexpr const char* kEnded = "ended the program, or took too long";

struct Outcome {
  std::vector<std::string> failures;  // a line each
  Json figures = Json::object();
  // Not empty: where another process goes on, because the GPU answers no more in this one or its time was over.
  Json go_on;
  bool out_of_time = false;
  std::string not_run;  // why there was nothing to do; nothing is kept of it
};

struct Part {
  std::string_view name, doc;
  bool by_default = true, takes_filter = false;
  Outcome (*run)(const Options& options, const Json& go_on) = nullptr;
};
std::span<const Part> parts();

Outcome check_words_part(const Options& options, const Json& go_on);
Outcome check_ops_part(const Options& options, const Json& go_on);
Outcome check_networks(const Options& options, const Json& go_on);
Outcome check_trainings(const Options& options, const Json& go_on);
Outcome check_worlds(const Options& options, const Json& go_on);
Outcome check_faults(const Options& options, const Json& go_on);
Outcome check_nccl(const Options& options, const Json& go_on);
Outcome bench_networks(const Options& options, const Json& go_on);
Outcome check_by_sanitizer(const Options& options, const Json& go_on);
Outcome measure_limits(const Options& options, const Json& go_on);
Outcome bench_beside_peers(const Options& options, const Json& go_on);
Outcome soak(const Options& options, const Json& go_on);

// The items of a part one after another: `work` adds an item's failures, which get its name in front, and returns its
// figures, which are appended to figures[`list`]. A failed item ends nothing but itself, unless the GPU answers no more
// (Outcome::go_on). What was found is saved before each item, which counts as one that ended the program until it is
// done. No item but the first is begun that would not be done by Options::until if it took as long as the longest so
// far; the next call goes on there, if the items are still the same. An item at which two calls ended has
// failed.
Outcome each_of(const Options& options, const Json& go_on, const std::string& list,
                const std::vector<std::string>& items,
                const std::function<Json(size_t item, std::vector<std::string>& failures)>& work);

// Whether the driver of this process is the emulated one.
bool is_emulated();

}  // namespace sparkpilot::gpu_check
