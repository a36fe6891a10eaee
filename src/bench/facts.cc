#include "bench/facts.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "base/file_hash.h"
#include "base/fnv.h"
#include "base/version.h"
#include "ops/cpu/onednn/version.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json known(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json gpu_facts(const Gpu& gpu) {
  Json capability;
  if (gpu.capability) capability = fmt::format("{}.{}", gpu.capability->major, gpu.capability->minor);
  return {{"name", known(gpu.name)}, {"capability", capability}, {"memory_bytes", known(gpu.memory_total)}};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

FileFacts file_facts(std::span<const std::filesystem::path> files) {
  FileFacts out;
  Fnv hash;
  for (const std::filesystem::path& file : files) out.bytes += add_file(hash, file);
  out.fnv1a_64 = fmt::format("{:016x}", hash.value());
  return out;
}

Json machine_facts(const Machine& machine, const CpuFeatures& features) {
  Json gpus = Json::array();
  for (const Gpu& gpu : machine.gpus) gpus.push_back(gpu_facts(gpu));
  return {{"system", known(machine.identity.system)},
          {"architecture", known(machine.cpu.architecture)},
          {"processor", known(features.model)},
          {"instruction_sets", words_of(features.isa())},
          {"logical_processors", features.logical},
          {"memory_bytes", known(machine.memory.total)},
          {"operating_system", known(machine.identity.operating_system)},
          {"kernel", known(machine.identity.kernel)},
          {"gpus", std::move(gpus)},
          {"gpu_driver", known(machine.driver.version)}};
}

Json version_facts() {
  Json program;  // this very file, to tell builds of one version apart
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!none && std::filesystem::is_regular_file(self, none)) program = file_facts(std::span(&self, 1)).fnv1a_64;
  return {{"sparkpilot", program_version()},
          {"program_fnv1a_64", program},
          {"compiler", compiler_version()},
          {"onednn", onednn_version()}};
}

Json settings_facts(const BenchOptions& options) {
  const SessionOptions& session = options.session;
  Json dims = Json::object(), shapes = Json::object();
  for (const auto& [name, size] : session.dims) dims[name] = size;
  for (const auto& [name, shape] : session.shapes) shapes[name] = shape.str();
  Json calibration;  // what fp8 rounds inputs by
  if (!session.passes.largest.empty()) {
    Fnv hash;
    for (const auto& [name, magnitude] : session.passes.largest) hash.text(fmt::format("{} {}", name, magnitude));
    calibration = fmt::format("{:016x}", hash.value());
  }
  return {{"device", session.device},
          {"passes_off", session.passes.off},
          {"outputs", session.outputs},
          {"dims", std::move(dims)},
          {"shapes", std::move(shapes)},
          {"seed", options.seed},
          {"calibration", std::move(calibration)},
          {"kernels", session.kernels},
          {"tune", tune_name(session.tune)}};
}

std::string_view tune_name(Tune tune) {
  switch (tune) {
    case Tune::off: return "off";
    case Tune::automatic: return "auto";
    case Tune::full: break;
  }
  return "full";
}

}  // namespace sparkpilot
