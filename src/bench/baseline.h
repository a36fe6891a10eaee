// Baselines: what `bench --json` wrote earlier, read again and held against what is measured now.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/repeats.h"
#include "sparkpilot/profile.h"

namespace sparkpilot {

// One model as it was measured, or is to be.
struct BenchSubject {
  std::string file;
  std::string fnv1a_64;  // of its bytes (bench/facts.h)
  std::string precision;
  std::optional<int> threads = {};  // empty: whatever the baseline has
  int64_t batch = 1;
  std::map<std::string, std::string> settings = {};  // settings_facts(): the values as JSON texts
};

// The members of an object as JSON texts.
std::map<std::string, std::string> texts_of(const nlohmann::ordered_json& object);

struct BaselineModel {
  BenchSubject subject;
  std::vector<KernelDecision> choices;  // node and kernel only
  int yardstick_version = 0;
  std::string yardstick_code;
  std::vector<Repeat> repeats;
};

struct Baseline {
  std::string file;
  nlohmann::ordered_json machine, versions;
  std::vector<BaselineModel> models;
};

// Fails (user) with the file and the place in it: cut short, no JSON, other JSON, another version of the format, values
// that are missing or impossible, or without repeats.
Baseline read_baseline(const std::filesystem::path& file);
// The same for a text; `name` stands for the file in messages.
Baseline parse_baseline(const std::string& text, const std::string& name);

// A line for each difference, such as `processor: expected "A", got "B"`, between the baseline's machine and this one,
// as machine_facts() describes it. Memory may differ by a twentieth. Empty: the same machine.
std::vector<std::string> machine_differences(const Baseline& baseline, const nlohmann::ordered_json& here);

// A line for each thing that may well differ, such as the version: the kernel and operating system, and versions.
std::vector<std::string> machine_notes(const Baseline& baseline, const nlohmann::ordered_json& machine,
                                       const nlohmann::ordered_json& versions);

// The baseline's model that differs least from `subject`, and a line for each difference; none: they can be compared.
struct BaselineMatch {
  const BaselineModel* model = nullptr;  // in the baseline
  std::vector<std::string> differences;
};
BaselineMatch find_model(const Baseline& baseline, const BenchSubject& subject);

// A line for each setting that is not the baseline's, and for each op and kernel how many kinds of its nodes have
// another one: this may explain a change of time.
std::vector<std::string> choice_notes(const BaselineModel& model, const BenchSubject& subject,
                                      std::span<const KernelDecision> choices);

}  // namespace sparkpilot
