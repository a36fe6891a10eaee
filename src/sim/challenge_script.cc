#include "sim/challenge_script.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace sparkpilot::sim {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

// A route's numbers in the memory, as Challenge in algorithm_runner.inc reads them.
constexpr size_t kAheadRows = 49, kNow = 5, kRowCount = kNow, kAheadAt = kNow + 1, kAction = kAheadAt + 4 * kAheadRows,
                 kRowWidth = kAction + 1;

void show(const ChallengeInput& in, double* row) {
  row[0] = in.target, row[1] = in.current, row[2] = in.roll_lataccel, row[3] = in.v_ego, row[4] = in.a_ego;
  row[kRowCount] = static_cast<double>(std::min(in.plan.lataccel.size(), kAheadRows));
  double* to = row + kAheadAt;
  for (const auto& column : {in.plan.lataccel, in.plan.roll_lataccel, in.plan.v_ego, in.plan.a_ego}) {
    std::fill(std::ranges::copy(column.first(std::min(column.size(), kAheadRows)), to).out, to + kAheadRows,
              std::numeric_limits<double>::quiet_NaN());
    to += kAheadRows;
  }
  row[kAction] = std::numeric_limits<double>::quiet_NaN();
}

std::optional<Json> parsed(const std::string& text) {
  try {
    return parse_bounded(text);
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

class ChallengeScript::Controller : public ChallengeController {
 public:
  Controller(const ChallengeScript& script, const std::atomic<bool>* stop) : script_(script), stop_(stop) {
    const std::lock_guard lock(script.mutex_);
    worker_ = std::move(script.first_);
  }

  void reset(size_t routes) override {
    if (routes > kMostScriptRoutes) {
      fail("a batch of {} routes, at most {} with a script", routes, kMostScriptRoutes);
    }
    std::string description;
    if (!worker_) worker_ = script_.start(description, stop_);
    failures_.assign(routes, {});
    check(worker_->reset(routes, stop_));
  }

  void update(std::span<const ChallengeInput> inputs, std::span<double> actions) override {
    auto* const rows = static_cast<double*>(worker_->memory());
    for (size_t k = 0; k < inputs.size(); ++k) show(inputs[k], rows + k * kRowWidth);
    std::string answer;
    check(worker_->update(stop_, &answer));
    read_failures(answer.substr(3));
    for (size_t k = 0; k < actions.size(); ++k) actions[k] = rows[k * kRowWidth + kAction];
  }

  std::string failure(size_t route) const override { return failures_[route]; }

 private:
  void check(const std::string& wrong) {
    if (wrong.empty()) return;
    if (worker_->lost()) worker_.reset();
    throw ControllerLost(fmt::format("{}: {}", script_.file_.filename().string(), wrong));
  }
  // {"3": "ValueError: ..."}
  void read_failures(const std::string& text) {
    if (text == "{}") return;
    const std::optional<Json> json = parsed(text);
    for (size_t k = 0; json && json->is_object() && k < failures_.size(); ++k) {
      const auto found = json->find(std::to_string(k));
      if (found == json->end() || !found->is_string()) continue;
      failures_[k] = fmt::format("{}: {}", script_.file_.filename().string(), one_line(found->get<std::string>()));
    }
  }

  const ChallengeScript& script_;
  const std::atomic<bool>* stop_;
  std::unique_ptr<WorkerProcess> worker_;
  std::vector<std::string> failures_;
};

ChallengeScript::ChallengeScript(fs::path file, const std::vector<std::pair<std::string, double>>& set,
                                 WorkerOptions options)
    : file_(std::move(file)), options_(std::move(options)) {
  if (!fs::is_regular_file(file_)) fail("{}: no such file", file_.string());
  Json values = Json::object();
  for (const auto& [name, value] : set) values[name] = value;
  set_ = values.dump();
  std::string description;
  first_ = start(description, nullptr);
  const std::optional<Json> json = parsed(description);
  if (!json || !json->is_object()) fail("{}: its worker did not describe it", file_.string());
  if (const auto error = json->find("error"); error != json->end() && error->is_string()) {
    fail("{}: {}", file_.string(), one_line(error->get<std::string>()));
  }
  const auto list = json->find("parameters");
  for (const Json& each : list != json->end() ? *list : Json::array()) {
    if (!each.is_object() || !each.value("name", Json()).is_string() || !each.value("value", Json()).is_number()) {
      fail("{}: its worker did not describe it", file_.string());
    }
    parameters_.emplace_back(one_line(each.at("name").get<std::string>()), each.at("value").get<double>());
  }
  for (const auto& [name, value] : set) {
    const auto found = std::ranges::find(parameters_, name, [](const auto& one) { return one.first; });
    if (found == parameters_.end()) {
      std::string names;
      for (const auto& one : parameters_) names += (names.empty() ? "" : ", ") + one.first;
      fail("{}: its class has no attribute \"{}\" that is a number; it has {}", file_.string(), name,
           names.empty() ? "none" : names);
    }
    if (!std::isfinite(value)) fail("parameter \"{}\": expected a finite number, got {}", name, value);
    found->second = value;
  }
}

ChallengeScript::~ChallengeScript() = default;

std::unique_ptr<WorkerProcess> ChallengeScript::start(std::string& description, const std::atomic<bool>* stop) const {
  const std::vector<std::string> command{options_.python, "-u", "-c", kScriptRunner, file_.string(), set_};
  auto worker = std::make_unique<WorkerProcess>(command, options_, kMostScriptRoutes * kRowWidth * sizeof(double));
  description = worker->description(file_.string(), stop);
  return worker;
}

ChallengeControllerMaker ChallengeScript::maker(const std::atomic<bool>* stop) const {
  return [this, stop] { return std::make_unique<Controller>(*this, stop); };
}

}  // namespace sparkpilot::sim
