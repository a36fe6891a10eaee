#include "monitor/metrics.h"

#include <fmt/core.h>

#include <map>
#include <utility>

#include "monitor/quantities.h"

namespace sparkpilot::monitor {
namespace {

struct BaseUnit {
  const char* suffix;
  double times, over;
};
BaseUnit base_unit(Unit unit) {
  switch (unit) {
    case Unit::percent: return {"_ratio", 1, 100};
    case Unit::megahertz: return {"_hertz", 1e6, 1};
    case Unit::watts: return {"_watts", 1, 1};
    case Unit::joules: return {"_joules_total", 1, 1};
    case Unit::celsius: return {"_celsius", 1, 1};
    case Unit::bytes: return {"_bytes", 1, 1};
    case Unit::bytes_per_second: return {"_bytes_per_second", 1, 1};
    case Unit::count: break;
  }
  return {"", 1, 1};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += "\\n";
    else if (c == '\\' || c == '"') out += {'\\', c};
    else out += c;
  }
  return out;
}

// Groups the lines of each metric, in the order in which the metrics first appeared.
class Page {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  void add(const std::string& name, std::string_view type, std::string_view help, const Labels& labels, double value) {
    const auto [found, fresh] = places_.emplace(name, families_.size());
    if (fresh) families_.push_back(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type));
    std::string text;
    for (const auto& [key, label] : labels) {
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", key, escaped(label));
    }
    families_[found->second] += fmt::format("{}{} {}\n", name, text.empty() ? "" : "{" + text + "}", value);
  }
  std::string str() const {
    std::string out;
    for (const std::string& family : families_) out += family;
    return out;
  }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::string> families_;
};

}  // namespace

std::string metrics_page(const Sample& sample) {
  Page page;
  for (const GpuSample& gpu : sample.gpus) {
    const std::string index = std::to_string(gpu.index);
    page.add("sparkpilot_gpu_info", "gauge", "Always 1; which GPU it is.",
             {{"gpu", index}, {"name", gpu.gpu.name}, {"unified_memory", gpu.unified() ? "1" : "0"}}, 1);
    for (const std::string& reason : gpu.throttle_reasons.value_or(std::vector<std::string>())) {
      page.add("sparkpilot_gpu_throttle_reason", "gauge", "Always 1; what holds the clocks where they are.",
               {{"gpu", index}, {"reason", reason}}, 1);
    }
  }
  for (const Quantity& quantity : quantities(sample)) {
    if (!quantity.value) continue;
    const BaseUnit unit = base_unit(quantity.unit);
    const std::string name = fmt::format("sparkpilot_{}_{}{}", quantity.group, quantity.name, unit.suffix);
    Page::Labels labels;
    if (!quantity.instance.empty()) labels.emplace_back(quantity.group, quantity.instance);
    page.add(name, quantity.unit == Unit::joules ? "counter" : "gauge", quantity.help, labels,
             *quantity.value * unit.times / unit.over);
  }
  return page.str();
}

}  // namespace sparkpilot::monitor
