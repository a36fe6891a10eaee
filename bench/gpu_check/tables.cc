// A results file as Markdown.
#include "base/error.h"
#include "base/text.h"
#include "results.h"

namespace sparkpilot::gpu_check {
namespace {

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? one_line(found->get<std::string>()) : "";
}
// A member that is a list; an empty one if it is not there.
const Json& list(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}
// Of a part that is unfinished, what it has found so far.
const Json& figures_of(const Json& document, const char* part) {
  static const Json none = Json::object();
  const Json& parts = document["parts"];
  if (!parts.contains(part)) return none;
  const Json& from = parts[part].contains("go_on") ? parts[part]["go_on"] : parts[part];
  return from.contains("figures") ? from["figures"] : none;
}

std::string times_table(const Json& document) {
  const Json& networks = list(figures_of(document, "bench"), "networks");
  if (networks.empty()) return "";
  std::string out =
      "\n| network | device | precision | mean ms | p50 | p90 | p99 | min | max | computing (p50) | first | load ms | "
      "time to the CPU's |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
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
  if (!figures.contains("peak")) return "";
  std::string out = "\n| limit | measured |\n|---|---|\n";
  for (const Json& unit : list(figures["peak"], "units"))
    out += fmt::format("| {} | {:.1f} TFLOP/s |\n", text(unit, "name"), number(unit, "flops_per_second") * 1e-12);
  for (const Json& level : list(figures["peak"], "levels")) {
    out += fmt::format("| {} | {:.0f} GB/s read, {:.0f} GB/s read or copied |\n", text(level, "name"),
                       number(level, "read_bytes_per_second") * 1e-9, number(level, "bytes_per_second") * 1e-9);
  }
  for (const auto& [key, what] : {std::pair("to_gpu_bytes_per_second", "pinned memory to the GPU"),
                                  {"to_host_bytes_per_second", "GPU to pinned memory"}}) {
    if (number(figures, key) > 0) out += fmt::format("| {} | {:.1f} GB/s |\n", what, number(figures, key) * 1e-9);
  }
  return out + fmt::format("| empty kernel of a recording | {:.0f} ns |\n| run of one empty kernel | {:.1f} us |\n",
                           number(figures, "empty_kernel_ns"), number(figures, "empty_run_us"));
}

std::string trainings_table(const Json& document) {
  const Json& trainings = list(figures_of(document, "training"), "trainings");
  if (trainings.empty()) return "";
  std::string out =
      "\n| training | batch | loss differs by | update on the GPU ms | on the CPU ms | ratio "
      "|\n|---|---|---|---|---|---|\n";
  for (const Json& t : trainings) {
    const double gpu = number(t, "step_ms"), cpu = number(t, "cpu_step_ms");
    out += fmt::format("| {}, {} | {:.0f} | {:.1e} | {:.2f} | {:.1f} | {:.1f} |\n", text(t, "network"), text(t, "mode"),
                       number(t, "batch"), number(t, "loss_difference"), gpu, cpu, gpu > 0 ? cpu / gpu : 0);
  }
  return out;
}

std::string worlds_table(const Json& document) {
  const Json& kinds = list(figures_of(document, "worlds"), "kinds");
  if (kinds.empty()) return "";
  std::string out =
      "\n| simulated worlds | worlds | million steps a second, GPU | CPU | threads | ratio "
      "|\n|---|---|---|---|---|---|\n";
  const auto millions = [](double steps) { return fmt::format("{:.{}f}", steps * 1e-6, steps < 1e7 ? 3 : 0); };
  for (const Json& kind : kinds) {
    out += fmt::format("| {} | {:.0f} | {} | {} | {:.0f} | {:.1f} |\n", text(kind, "kind"), number(kind, "worlds"),
                       millions(number(kind, "gpu_steps_per_s")), millions(number(kind, "cpu_steps_per_s")),
                       number(kind, "cpu_threads"), number(kind, "cpu_time_to_gpu"));
  }
  return out;
}

std::string range(const Json& minute, const char* key) {
  const Json& of = minute[key];
  if (!of["mean"].is_number()) return "n/a";
  return fmt::format("{:.0f} ({:.0f} to {:.0f})", number(of, "mean"), number(of, "min"), number(of, "max"));
}

std::string soak_table(const Json& document) {
  const Json& minutes = list(figures_of(document, "soak"), "minutes");
  if (minutes.empty()) return "";
  std::string out =
      "\n| soak, seconds | runs | temperature C | SM clock MHz | power W | GPU % | slowed by |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Json& minute : minutes) {
    std::string slowed;
    for (const Json& reason : minute["throttle_reasons"])
      slowed += (slowed.empty() ? "" : ", ") + one_line(reason.get<std::string>());
    out += fmt::format("| {:.0f} | {:.0f} | {} | {} | {} | {} | {} |\n", number(minute, "seconds"),
                       number(minute, "runs"), range(minute, "temperature_c"), range(minute, "sm_clock_mhz"),
                       range(minute, "power_w"), range(minute, "gpu_percent"), slowed);
  }
  return out;
}

// "failed", "unfinished" and why; which networks and ops, where not all were asked for.
std::string outcome_of(const Json& part) {
  const Json& failures = part["failures"];
  const std::string first = failures.empty() ? "" : one_line(failures[0].get<std::string>());
  const Json& asked = part["asked"];
  std::string out = part["passed"] == true ? "passed"
                    : first.empty()        ? "unfinished"
                                    : fmt::format("{}{}, the first: {}", part.contains("go_on") ? "unfinished, " : "",
                                                  count_of(std::ssize(failures), "failure"), first);
  if (asked["tiny"] == true) out += "; with --tiny";
  if (!text(asked, "filter").empty()) out += fmt::format("; only names with {}", text(asked, "filter"));
  return out;
}

}  // namespace

std::string as_markdown(const std::filesystem::path& file) {
  const Json document = read_results(file);
  const Json& gpu = document["gpu"];
  std::string out =
      fmt::format("**{}** (compute capability {}, driver for CUDA {}), commit {}{}\n\n| part | outcome |\n|---|---|\n",
                  text(gpu, "name"), text(gpu, "capability"), text(gpu, "cuda_of_driver"), text(document, "commit"),
                  document.value("emulated", Json()) == true ? ". **Emulated: its times mean nothing.**" : "");
  for (const auto& [name, part] : document["parts"].items())
    out += fmt::format("| {} | {} |\n", name, outcome_of(part));
  return out + limits_table(document) + times_table(document) + trainings_table(document) + worlds_table(document) +
         peers_table(document) + soak_table(document);
}

}  // namespace sparkpilot::gpu_check
