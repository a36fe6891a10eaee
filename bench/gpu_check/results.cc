#include "results.h"

#include "base/error.h"
#include "base/file.h"
#include "bench/facts.h"
#include "hw/cpu.h"
#include "hw/probe.h"

namespace sparkpilot::gpu_check {
namespace {

constexpr const char* kFormat = "sparkpilot gpu_check";
constexpr int64_t kMostBytes = 32 << 20;

Json read_results(const std::filesystem::path& file) {
  Json document = Json::parse(read_file(file, kMostBytes), nullptr, false);
  const auto is_object = [&](const char* key) { return document.contains(key) && document[key].is_object(); };
  if (!document.is_object() || document.value("format", Json()) != kFormat || !is_object("gpu") || !is_object("parts"))
    fail("{}: expected what gpu_check writes", file.string());
  return document;
}

Json gpu_facts(const GpuFacts& gpu) {
  return {{"name", gpu.name},
          {"capability", fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10)},
          {"cuda_of_driver", fmt::format("{}.{}", gpu.driver / 1000, gpu.driver % 1000 / 10)},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.total_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"unified_memory", gpu.unified}};
}

// ---------------------------------------------------------------- Markdown
double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? one_line(found->get<std::string>()) : "";
}
// A member that is a list; an empty one if it is not.
const Json& list(const Json& object, const char* key) {
  static const Json none = Json::array();
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}
const Json& figures_of(const Json& document, const char* part) {
  static const Json none = Json::object();
  const Json& parts = document["parts"];
  if (!parts.contains(part) || !parts[part].is_object() || !parts[part].contains("figures")) return none;
  return parts[part]["figures"];
}

std::string times_table(const Json& document) {
  const Json& networks = list(figures_of(document, "bench"), "networks");
  if (networks.empty()) return "";
  std::string out =
      "\n| network | device | precision | mean ms | p50 | p90 | p99 | min | max | computing (p50) | first | load ms | "
      "time "
      "to the "
      "CPU's |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Json& network : networks) {
    for (const Json& v : list(network, "variants")) {
      const std::string ratio = text(v, "device") == "GPU" && v.contains("time_to_cpu")
                                    ? fmt::format("{:.4f}", number(v["time_to_cpu"], "median"))
                                    : "";
      const std::string gpu = v.contains("gpu") && v["gpu"].contains("compute_ms")
                                  ? fmt::format("{:.3f}", number(v["gpu"]["compute_ms"], "p50"))
                                  : "";
      out += fmt::format(
          "| {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {} | {:.2f} | {:.0f} | {} |\n",
          text(network, "network"), text(v, "device"), text(v, "precision"), number(v, "mean_ms"), number(v, "p50_ms"),
          number(v, "p90_ms"), number(v, "p99_ms"), number(v, "min_ms"), number(v, "max_ms"), gpu,
          number(v, "first_ms"), number(v, "load_ms"), ratio);
    }
  }
  return out;
}

std::string peers_table(const Json& document) {
  const Json& networks = list(figures_of(document, "peers"), "networks");
  if (networks.empty()) return "";
  std::string out = "\n| network | ours p50 ms | engine | p50 ms | its time to ours |\n|---|---|---|---|---|\n";
  for (const Json& network : networks) {
    const double ours = network.contains("ours") ? number(network["ours"], "p50_ms") : 0;
    for (const Json& engine : list(network, "engines")) {
      const std::string what =
          text(engine, "engine").empty() ? text(engine, "peer") : text(engine, "engine") + ", " + text(engine, "peer");
      if (engine.contains("not_run"))
        out += fmt::format("| {} | {:.3f} | {} | not run: {} | |\n", text(network, "network"), ours, what,
                           text(engine, "not_run"));
      else
        out += fmt::format("| {} | {:.3f} | {} | {:.3f} | {:.3f} |\n", text(network, "network"), ours, what,
                           number(engine, "p50_ms"),
                           engine.contains("time_to_ours") ? number(engine["time_to_ours"], "median") : 0);
    }
  }
  return out;
}

std::string limits_table(const Json& document) {
  const Json& figures = figures_of(document, "limits");
  std::string out;
  for (const Json& copy : list(figures, "copies"))
    out += fmt::format("| copy {} | {:.1f} GB/s |\n", text(copy, "copy"), number(copy, "gb_per_s"));
  if (figures.contains("peak")) {
    for (const Json& unit : list(figures["peak"], "units"))
      out += fmt::format("| {} | {:.1f} TFLOP/s |\n", text(unit, "name"), number(unit, "flops_per_second") * 1e-12);
    for (const Json& level : list(figures["peak"], "levels")) {
      out += fmt::format("| {} | {:.0f} GB/s read, {:.0f} GB/s read or copied |\n", text(level, "name"),
                         number(level, "read_bytes_per_second") * 1e-9, number(level, "bytes_per_second") * 1e-9);
    }
  }
  for (const Json& r : list(figures, "recordings"))
    out += fmt::format(
        "| recording of {:.0f} kernels | {:.1f} us on the GPU, {:.1f} us to launch, {:.1f} us until it is done |\n",
        number(r, "kernels"), number(r, "gpu_us"), number(r, "call_us"), number(r, "until_done_us"));
  return out.empty() ? "" : "\n| limit | measured |\n|---|---|\n" + out;
}

}  // namespace

Results::Results(const std::filesystem::path& folder, int ordinal, const std::string& commit)
    : file_(folder / "gpu_check.json") {
  // A driver that hangs must not hang this.
  const std::unique_ptr<Source> system = system_source({.driver_wait_seconds = 10});
  const Machine machine = probe(*system);
  if (!machine.driver.cuda_answers && !machine.driver.cuda_problem.empty())
    throw Error(ErrorKind::device, machine.driver.cuda_problem);
  const auto gpu = GpuDevice::open(ordinal);
  Json now{{"format", kFormat},
           {"format_version", 1},
           {"commit", commit},
           {"emulated", is_emulated()},
           {"gpu", gpu_facts(gpu->facts())},
           {"machine", machine_facts(machine, cpu_features())},
           {"versions", version_facts()},
           {"parts", Json::object()}};
  make_folders(folder);
  if (std::filesystem::exists(file_)) {
    Json before = read_results(file_);
    for (const char* key : {"gpu", "commit", "versions", "emulated"}) {
      if (before.value(key, Json()) != now[key])
        fail("{}: is of another {}; choose another --out", file_.string(),
             key == std::string_view("versions") ? "program" : key);
    }
    now["parts"] = std::move(before["parts"]);
  }
  document_ = std::move(now);
}

const Json& Results::part(std::string_view name) const {
  static const Json none;
  const Json& all = document_["parts"];
  const auto found = all.find(name);
  return found != all.end() && found->is_object() ? *found : none;
}

void Results::set(std::string_view name, Json part) {
  document_["parts"][std::string(name)] = std::move(part);
  AtomicFile out(file_);
  out.write(document_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  out.commit();
}

bool Results::all_passed() const {
  for (const auto& [name, part] : document_["parts"].items()) {
    if (!part.is_object() || part.value("passed", Json()) != true) return false;
  }
  return true;
}

std::string as_markdown(const std::filesystem::path& file) {
  const Json document = read_results(file);
  const Json& gpu = document["gpu"];
  std::string out =
      fmt::format("**{}** (compute capability {}, driver for CUDA {}), commit {}{}\n\n| part | outcome |\n|---|---|\n",
                  text(gpu, "name"), text(gpu, "capability"), text(gpu, "cuda_of_driver"), text(document, "commit"),
                  document.value("emulated", Json()) == true ? ". **Emulated: its times mean nothing.**" : "");
  for (const auto& [name, part] : document["parts"].items()) {
    const Json& failures = list(part, "failures");
    std::string outcome = "passed";
    if (!part.is_object() || part.value("passed", Json()) != true)
      outcome =
          failures.empty() || !failures[0].is_string()
              ? "failed"
              : fmt::format("{} failures, the first: {}", failures.size(), one_line(failures[0].get<std::string>()));
    out += fmt::format("| {} | {} |\n", one_line(name), outcome);
  }
  return out + limits_table(document) + times_table(document) + peers_table(document);
}

}  // namespace sparkpilot::gpu_check
