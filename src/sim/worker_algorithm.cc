#include "sim/worker_algorithm.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "sim/algorithm_worker.h"

namespace sparkpilot::sim {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTimeSeconds = 10;  // the most that the answer to "time" may take
constexpr size_t kLongestText = 200;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestText &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

std::string AlgorithmWorker::time(double& p50_us, double& p99_us, const std::atomic<bool>* stop) {
  std::string answer;
  const double most = std::min(kTimeSeconds, step_timeout());
  const std::string question = fmt::format("time {}", std::min(most / 2, 1.0));
  if (std::string wrong = ask(question, most, &answer, stop); !wrong.empty()) return wrong;
  char* end = nullptr;
  p50_us = std::strtod(answer.c_str() + 3, &end);
  p99_us = std::strtod(end, nullptr);
  return std::isfinite(p50_us) && std::isfinite(p99_us) && p50_us >= 0 && p99_us >= p50_us ? "" : "gave no times";
}

WorkerAlgorithm::WorkerAlgorithm(const fs::path& file, WorkerOptions options)
    : UserAlgorithm(file), options_(std::move(options)) {
  std::string description;
  auto worker = start(description, nullptr);
  describe(description);
  give_back(std::move(worker));
}

WorkerAlgorithm::~WorkerAlgorithm() = default;

std::unique_ptr<AlgorithmWorker> WorkerAlgorithm::start(std::string& description, const std::atomic<bool>* stop) const {
  std::vector<std::string> command{"/proc/self/exe", kAlgorithmWorker, file().string()};
  if (file().extension() == ".py") command = {options_.python, "-u", "-c", kScriptRunner, file().string()};
  auto worker = std::make_unique<AlgorithmWorker>(command, options_);
  description = worker->description(file().string(), stop);
  return worker;
}

void WorkerAlgorithm::describe(const std::string& description) {
  std::optional<Json> json;
  try {
    json = parse_bounded(description);
  } catch (const nlohmann::json::exception&) {
    fail("{}: its worker answered what is no JSON", file().string());
  }
  const auto text = [&](const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().size() > 2000) {
      fail("{}: \"{}\": expected a text", file().string(), key);
    }
    return one_line(found->get<std::string>());
  };
  if (!json || !json->is_object()) fail("{}: its worker did not describe it", file().string());
  if (json->contains("error")) fail("{}: {}", file().string(), text(*json, "error"));
  torque_ = text(*json, "steering") == "torque";
  longitudinal_ = json->value("longitudinal", Json(false)) == Json(true);
  const Json& parameters = json->value("parameters", Json::array());
  if (!parameters.is_array() || parameters.size() > kMostAlgorithmParameters) {
    fail("{}: expected at most {} parameters", file().string(), kMostAlgorithmParameters);
  }
  for (const Json& each : parameters) {
    if (!each.is_object()) fail("{}: a parameter is no object", file().string());
    UserParameter p{text(each, "name"), text(each, "unit"), text(each, "meaning"), 0};
    if (!is_name(p.name)) fail("{}: a parameter \"{}\", expected letters, digits and _", file().string(), p.name);
    if (p.unit.size() > kLongestText || p.meaning.size() > kLongestText) {
      fail("{}: parameter {}: expected texts of at most {} bytes", file().string(), p.name, kLongestText);
    }
    const auto value = each.find("value");
    if (value == each.end() || !value->is_number()) fail("{}: parameter {} is no number", file().string(), p.name);
    p.value = value->get<double>();
    if (!std::isfinite(p.value)) fail("{}: parameter {} is not finite", file().string(), p.name);
    if (std::ranges::find(parameters_, p.name, &UserParameter::name) != parameters_.end()) {
      fail("{}: parameter {} twice", file().string(), p.name);
    }
    parameters_.push_back(std::move(p));
  }
}

std::unique_ptr<AlgorithmWorker> WorkerAlgorithm::take(const std::atomic<bool>* stop) const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
  }
  std::string description;
  return start(description, stop);
}

void WorkerAlgorithm::give_back(std::unique_ptr<AlgorithmWorker> worker) const {
  if (worker->hung()) hung_ = true;
  if (worker->lost()) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

}  // namespace sparkpilot::sim
