// How to recognise a DGX Spark, or another maker's machine with the same GB10 chip: every sign and its weight.
#include <fmt/core.h>

#include <algorithm>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

// Only a GB10 gives a decisive sign. A sign that other machines give too needs further signs. No sign outweighs
// evidence of another kind of machine: release files can be copied, processors cannot.
constexpr int kDecisive = kSparkWeight, kCommon = 1, kAgainst = -4 * kSparkWeight;

// By the names in firmware, in lower case without spaces and punctuation. Acer's, HP's, Gigabyte's and MSI's strings
// are not published: their product names are used.
struct System {
  const char* vendor;  // prefix; empty: any
  const char* product;
  const char* name;
};
constexpr System kSystems[] = {
    {"nvidia", "dgxspark", "NVIDIA DGX Spark"},
    {"dell", "dellpromaxwithgb10", "Dell Pro Max with GB10"},
    {"lenovo", "thinkstationpgx", "Lenovo ThinkStation PGX"},
    {"lenovo", "30kl", "Lenovo ThinkStation PGX"},
    {"asus", "gx10", "ASUS Ascent GX10"},
    {"acer", "gn100", "Acer Veriton GN100"},
    {"hp", "zgxnano", "HP ZGX Nano G1n"},
    {"giga", "aitopatom", "Gigabyte AI TOP ATOM"},
    {"", "edgexpert", "MSI EdgeXpert"},
    {"", "dgxspark", "DGX Spark"},
};

std::string letters(std::string_view text) {
  std::string out = lower(text);
  out.erase(std::remove_if(out.begin(), out.end(),
                           [](char c) { return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')); }),
            out.end());
  return out;
}

// "GB10" as a separate word, not in GB100.
bool names_gb10(std::string_view text) {
  for (size_t at = text.find("GB10"); at != std::string_view::npos; at = text.find("GB10", at + 1)) {
    const char next = at + 4 < text.size() ? text[at + 4] : ' ';
    if (next < '0' || next > '9') return true;
  }
  return false;
}

// SMBIOS' structure of type 4: byte 0x10 is the number of the string "Processor Version"; strings follow the structure.
std::string smbios_processor(Source& source) {
  constexpr size_t kVersionAt = 0x10;
  const std::string raw = read_text(source, "/sys/firmware/dmi/entries/4-0/raw", 4096);
  if (raw.size() <= kVersionAt || raw[0] != 4) return {};
  size_t at = static_cast<unsigned char>(raw[1]);
  for (int number = static_cast<unsigned char>(raw[kVersionAt]); number > 0 && at < raw.size(); --number) {
    const size_t end = std::min(raw.find('\0', at), raw.size());
    if (number == 1) return plain(std::string_view(raw).substr(at, end - at));
    at = end + 1;
  }
  return {};
}

// Cortex-X925 and Cortex-A725 together: a GB10, or a chip of the same family.
std::string cores(const Cpu& cpu) {
  const auto has = [&](std::string_view name) {
    return std::any_of(cpu.kinds.begin(), cpu.kinds.end(), [&](const CoreKind& kind) { return kind.name == name; });
  };
  return has("Cortex-X925") && has("Cortex-A725") ? "Cortex-X925 and Cortex-A725" : std::string();
}

class Signs {
 public:
  void add(std::string source, std::string seen, int weight) {
    if (!seen.empty()) signs_.push_back({std::move(source), std::move(seen), weight});
  }
  std::vector<SparkSign> take() { return std::move(signs_); }

 private:
  std::vector<SparkSign> signs_;
};

void release_files(Source& source, Signs& signs) {
  const std::string dgx = read_text(source, "/etc/dgx-release", 64 << 10);
  for (const char* key : {"DGX_NAME", "DGX_PRETTY_NAME"}) {
    const std::string name = setting(dgx, key);
    if (!contains(letters(name), "dgxspark")) continue;
    signs.add("/etc/dgx-release", fmt::format("{}=\"{}\"", key, name), kDecisive);
    break;
  }
  const std::string fastos = setting(read_text(source, "/etc/fastos-release", 4096), "NAME");
  if (contains(letters(fastos), "dgxspark")) signs.add("/etc/fastos-release", fastos, kDecisive);
  if (contains(letters(fastos), "n1x")) signs.add("/etc/fastos-release", fastos, kAgainst);  // an RTX Spark
  signs.add("/etc/nv_tegra_release", exists(source, "/etc/nv_tegra_release") ? "a Jetson's" : "", kAgainst);
}

void gpus(const Machine& machine, Signs& signs) {
  bool gb10 = false;
  std::string other;
  for (const Gpu& gpu : machine.gpus) {
    const std::string seen = gpu.name.empty() ? gpu.pci_id.value_or("") : gpu.name;
    if (is_gb10(gpu)) {
      signs.add("GPU", seen, kDecisive);
      gb10 = true;
    } else if (other.empty()) {
      other = seen;  // also an RTX Spark's, whose capability and cores equal a GB10's
    }
    if (gpu.capability == ComputeCapability{12, 1}) signs.add("compute capability", "12.1", kCommon);
  }
  if (!gb10) signs.add("GPU", other, kAgainst);
}

}  // namespace

bool is_gb10(const Gpu& gpu) { return names_gb10(gpu.name) || gpu.pci_id == "10de:2e12"; }

std::optional<Gb10System> gb10_system(const Identity& identity) {
  const std::string vendor = letters(identity.vendor);
  for (const System& system : kSystems) {
    if (vendor.substr(0, std::string_view(system.vendor).size()) != system.vendor) continue;
    for (const std::string* text : {&identity.product, &identity.family, &identity.product_version}) {
      if (contains(letters(*text), system.product)) return Gb10System{system.name, *text};
    }
  }
  for (const std::string* text : {&identity.product, &identity.family}) {
    if (names_gb10(*text)) return Gb10System{*text, *text};
  }
  return std::nullopt;
}

std::vector<SparkSign> spark_signs(Source& source, const Machine& machine) {
  Signs signs;
  release_files(source, signs);
  const Identity& identity = machine.identity;
  if (const auto system = gb10_system(identity)) signs.add("DMI", system->seen, kDecisive);
  const std::string processor = smbios_processor(source);
  if (names_gb10(processor)) signs.add("SMBIOS processor", processor, kDecisive);
  if (contains(processor, "RTX Spark")) signs.add("SMBIOS processor", processor, kAgainst);
  if (names_gb10(identity.device_tree) || contains(letters(identity.device_tree), "dgxspark")) {
    signs.add("device tree", identity.device_tree, kDecisive);
  }
  if (contains(identity.device_tree, "Jetson")) signs.add("device tree", identity.device_tree, kAgainst);
  gpus(machine, signs);
  signs.add("processor cores", cores(machine.cpu), kCommon);
  const std::string& architecture = machine.cpu.architecture;
  if (!architecture.empty() && architecture != "aarch64") signs.add("architecture", architecture, kAgainst);
  return signs.take();
}

bool is_dgx_spark(const Machine& machine) {
  int weight = 0;
  for (const SparkSign& sign : machine.identity.spark_signs) weight += sign.weight;
  return weight >= kSparkWeight;
}

}  // namespace sparkpilot
