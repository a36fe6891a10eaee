#include "bench/repeats.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/statistics.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRounds = 1000;

struct Round {
  double ms = 0, wait_share = 0;
};

// The median of `count` runs that did not wait, of those that there were, or of all if every one did.
Round time_round(Session& session, const WaitTime& wait, int64_t count) {
  constexpr int64_t kAttempts = 3;
  std::vector<double> quiet, all;
  double waited = 0;
  while (std::ssize(quiet) < count && std::ssize(all) < kAttempts * count) {
    const WatchedRun run = time_run(session, wait);
    all.push_back(run.ms);
    if (!run.waited()) quiet.push_back(run.ms);
    waited += run.waited_ms;
  }
  if (!quiet.empty()) return {median(quiet), 0};
  return {median(all), waited / std::accumulate(all.begin(), all.end(), 0.0)};
}

constexpr std::pair<const char*, double YardstickTimes::*> kParts[] = {
    {"arithmetic_ms", &YardstickTimes::arithmetic_ms},
    {"near_ms", &YardstickTimes::near_ms},
    {"far_ms", &YardstickTimes::far_ms}};

std::vector<double> numbers(const Json& json, const char* key, const std::string& where, bool may_be_zero) {
  constexpr double kMost = 1e9;
  const auto found = json.find(key);
  if (found == json.end()) fail("{}: \"{}\" is missing", where, key);
  if (!found->is_array() || found->empty() || found->size() > kMostRounds + 1)
    fail("{}/{}: expected a list of 1 to {} numbers", where, key, kMostRounds + 1);
  std::vector<double> out;
  for (const Json& each : *found) {
    const double number = each.is_number() ? each.get<double>() : -1;
    if (!(number >= 0 && number < kMost) || (number == 0 && !may_be_zero))
      fail("{}/{}/{}: expected a number {} 0 and below 1e9, got {}", where, key, out.size(),
           may_be_zero ? "not below" : "above", each.is_primitive() ? json_text(each) : each.type_name());
    out.push_back(number);
  }
  return out;
}

}  // namespace

WatchedRun time_run(Session& session, const WaitTime& wait) {
  const double before = wait.ms().value_or(0);
  const int64_t start = now_ns();
  session.run();
  const double ms = static_cast<double>(now_ns() - start) * 1e-6;
  return {.ms = ms, .waited_ms = wait.ms().value_or(0) - before};
}

Repeat measure_repeat(Session& session) {
  constexpr double kRoundMs = 10, kLong = 50, kAllMs = 1000;
  constexpr int kWarmup = 3;
  for (int i = 0; i < kWarmup; ++i) session.run();
  const double once = std::max(time_run(session, WaitTime()).ms, 1e-3);
  const auto runs = std::max<int64_t>(static_cast<int64_t>(kRoundMs / once), once < kLong ? 3 : 1);
  const auto rounds = std::clamp<int64_t>(static_cast<int64_t>(kAllMs / (once * static_cast<double>(runs))), 5, 12);
  Yardstick yardstick(session.threads());
  Repeat out;
  out.yardstick.push_back(yardstick.measure());
  const WaitTime wait;
  for (int64_t round = 0; round < rounds; ++round) {
    const Round one = time_round(session, wait, runs);
    out.model_ms.push_back(one.ms);
    out.wait_share.push_back(one.wait_share);
    out.yardstick.push_back(yardstick.measure());
  }
  return out;
}

Json to_json(const Repeat& repeat) {
  Json out{{"model_ms", repeat.model_ms}, {"wait_share", repeat.wait_share}};
  for (const auto& [key, part] : kParts) {
    Json& series = out[key] = Json::array();
    for (const YardstickTimes& each : repeat.yardstick) series.push_back(each.*part);
  }
  return out;
}

Json to_json(std::span<const Repeat> repeats) {
  Json processes = Json::array();
  for (const Repeat& repeat : repeats) processes.push_back(to_json(repeat));
  return {{"yardstick", {{"version", kYardstickVersion}, {"code", Yardstick::code()}}},
          {"processes", std::move(processes)}};
}

Repeat repeat_from(const Json& json, const std::string& where) {
  if (!json.is_object()) fail("{}: expected the times of a repeat, got {}", where, json.type_name());
  Repeat out;
  out.model_ms = numbers(json, "model_ms", where, false);
  out.wait_share = numbers(json, "wait_share", where, true);
  if (out.wait_share.size() != out.model_ms.size())
    fail("{}/wait_share: expected {} numbers, as in model_ms, got {}", where, out.model_ms.size(),
         out.wait_share.size());
  out.yardstick.resize(out.model_ms.size() + 1);
  for (const auto& [key, part] : kParts) {
    const std::vector<double> series = numbers(json, key, where, false);
    if (series.size() != out.yardstick.size())
      fail("{}/{}: expected {} numbers, one more than in model_ms, got {}", where, key, out.yardstick.size(),
           series.size());
    for (size_t i = 0; i < series.size(); ++i) out.yardstick[i].*part = series[i];
  }
  return out;
}

}  // namespace sparkpilot
