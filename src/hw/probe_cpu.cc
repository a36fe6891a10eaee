#include <algorithm>
#include <map>
#include <set>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

constexpr size_t kMaxExamined = 1024;  // limit on the processors whose folders are read

// Arm cores by implementer and part, as in MIDR_EL1.
struct Part {
  int implementer, part;
  const char* name;
};
constexpr Part kParts[] = {
    {0x41, 0xd03, "Cortex-A53"},    {0x41, 0xd04, "Cortex-A35"},      {0x41, 0xd05, "Cortex-A55"},
    {0x41, 0xd07, "Cortex-A57"},    {0x41, 0xd08, "Cortex-A72"},      {0x41, 0xd09, "Cortex-A73"},
    {0x41, 0xd0a, "Cortex-A75"},    {0x41, 0xd0b, "Cortex-A76"},      {0x41, 0xd0c, "Neoverse-N1"},
    {0x41, 0xd0d, "Cortex-A77"},    {0x41, 0xd40, "Neoverse-V1"},     {0x41, 0xd41, "Cortex-A78"},
    {0x41, 0xd42, "Cortex-A78AE"},  {0x41, 0xd44, "Cortex-X1"},       {0x41, 0xd46, "Cortex-A510"},
    {0x41, 0xd47, "Cortex-A710"},   {0x41, 0xd48, "Cortex-X2"},       {0x41, 0xd49, "Neoverse-N2"},
    {0x41, 0xd4d, "Cortex-A715"},   {0x41, 0xd4e, "Cortex-X3"},       {0x41, 0xd4f, "Neoverse-V2"},
    {0x41, 0xd80, "Cortex-A520"},   {0x41, 0xd81, "Cortex-A720"},     {0x41, 0xd82, "Cortex-X4"},
    {0x41, 0xd83, "Neoverse-V3AE"}, {0x41, 0xd84, "Neoverse-V3"},     {0x41, 0xd85, "Cortex-X925"},
    {0x41, 0xd87, "Cortex-A725"},   {0x41, 0xd8e, "Neoverse-N3"},     {0x4e, 0x004, "Carmel"},
    {0x51, 0x001, "Oryon"},         {0x51, 0x802, "Kryo 3xx Gold"},   {0x51, 0x803, "Kryo 3xx Silver"},
    {0x51, 0x804, "Kryo 4xx Gold"}, {0x51, 0x805, "Kryo 4xx Silver"}, {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1A"},
};

std::string part_name(int implementer, int part) {
  for (const Part& known : kParts) {
    if (known.implementer == implementer && known.part == part) return known.name;
  }
  return {};
}

// An instruction set and the flags in /proc/cpuinfo that it requires.
struct Isa {
  const char* name;
  std::vector<std::string_view> flags;
};
std::vector<Isa> isas(bool arm) {
  if (arm) {
    return {{"neon", {"asimd"}},
            {"neon_bf16", {"asimd", "bf16"}},
            {"i8mm", {"i8mm"}},
            {"sve", {"sve"}},
            {"sve2", {"sve2"}}};
  }
  return {{"avx2", {"avx2", "fma"}},
          {"avx512", {"avx512f", "avx512bw", "avx512vl", "avx512dq"}},
          {"avx512_bf16", {"avx512f", "avx512_bf16"}},
          {"avx512_vnni", {"avx512f", "avx512_vnni"}},
          {"amx_bf16", {"amx_tile", "amx_bf16"}}};
}

// The value of the first "key : value" of /proc/cpuinfo.
std::string_view field(std::string_view cpuinfo, std::string_view key) {
  while (const auto line = next_line(cpuinfo)) {
    const size_t colon = line->find(':');
    if (colon != std::string_view::npos && trim(line->substr(0, colon)) == key) return trim(line->substr(colon + 1));
  }
  return {};
}

/// proc/cpuinfo has one block per processor; on Arm each names the core's part.
struct Block {
  std::optional<int> processor, implementer, part;
};
std::vector<Block> blocks(std::string_view cpuinfo) {
  std::vector<Block> out;
  while (const auto line = next_line(cpuinfo)) {
    const size_t colon = line->find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line->substr(0, colon)), value = trim(line->substr(colon + 1));
    if (key == "processor") {
      const auto number = within(to_integer(value), 0, 4095);
      if (number && out.size() < 4096) out.push_back({number, {}, {}});
    } else if (!out.empty() && key == "CPU implementer") {
      out.back().implementer = within(to_integer(value, 16), 0, 0xff);
    } else if (!out.empty() && key == "CPU part") {
      out.back().part = within(to_integer(value, 16), 0, 0xfff);
    }
  }
  return out;
}

struct Core {
  std::string kind;  // equal for cores of one kind; Arm's names are made from it
  std::string name;
  int64_t capacity = 0;
  std::optional<int> max_mhz;
};

class Cores {
 public:
  Cores(Source& source, std::string_view cpuinfo) : source_(source), blocks_(blocks(cpuinfo)) {
    numbers_ = to_processors(read_text(source, "/sys/devices/system/cpu/online", 4096));
    if (numbers_.empty()) {
      for (const Block& block : blocks_) numbers_.push_back(*block.processor);
    }
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    for (const auto& [folder, name] : {std::pair{"cpu_core", "P-core"}, std::pair{"cpu_atom", "E-core"}}) {
      for (const int i : to_processors(read_text(source, std::string("/sys/devices/") + folder + "/cpus", 4096))) {
        intel_[i] = name;
      }
    }
  }

  const std::vector<int>& numbers() const { return numbers_; }
  bool examinable() const { return numbers_.size() <= kMaxExamined; }

  Core core(int i) const {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(i);
    Core out;
    if (const auto intel = intel_.find(i); intel != intel_.end()) {
      out.kind = out.name = intel->second;
      out.capacity = out.name == "P-core" ? 2 : 1;
    } else if (const auto [implementer, part] = part_of(i, folder); part) {
      out.kind = std::to_string(*implementer) + "." + std::to_string(*part);
      out.name = part_name(*implementer, *part);
    }
    out.capacity =
        within(read_integer(source_, folder + "/cpu_capacity"), 1, 1024).value_or(static_cast<int>(out.capacity));
    if (const auto khz = within(read_integer(source_, folder + "/cpufreq/cpuinfo_max_freq"), 100'000, 10'000'000)) {
      out.max_mhz = *khz / 1000;
    }
    return out;
  }

 private:
  std::pair<std::optional<int>, std::optional<int>> part_of(int i, const std::string& folder) const {
    if (const auto midr = to_integer(read_plain(source_, folder + "/regs/identification/midr_el1"), 16)) {
      return {static_cast<int>(*midr >> 24 & 0xff), static_cast<int>(*midr >> 4 & 0xfff)};
    }
    for (const Block& block : blocks_) {
      if (block.processor == i && block.implementer && block.part) return {block.implementer, block.part};
    }
    return {};
  }

  Source& source_;
  std::vector<Block> blocks_;
  std::vector<int> numbers_;
  std::map<int, std::string> intel_;
};

// Fills cpu.kinds, cpu.cores and cpu.sockets.
void examine(Source& source, const Cores& cores, Cpu& cpu) {
  struct Kind {
    CoreKind kind;
    int64_t capacity = 0;
    std::set<std::string> siblings;  // one text per core
  };
  std::map<std::string, Kind> kinds;
  std::set<std::string> siblings, packages;
  bool threads_known = !cores.numbers().empty();
  for (const int i : cores.numbers()) {
    const Core core = cores.core(i);
    Kind& kind = kinds[core.kind];
    kind.kind.name = core.name;
    kind.kind.processors.push_back(i);
    kind.kind.max_mhz = std::max(kind.kind.max_mhz, core.max_mhz);
    kind.capacity = std::max(kind.capacity, core.capacity);
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/";
    const std::string threads = read_plain(source, folder + "thread_siblings_list");
    if (threads.empty()) threads_known = false;
    kind.siblings.insert(threads);
    siblings.insert(threads);
    if (const std::string package = read_plain(source, folder + "physical_package_id"); !package.empty()) {
      packages.insert(package);
    }
  }
  if (threads_known) cpu.cores = static_cast<int>(siblings.size());
  if (!packages.empty()) cpu.sockets = static_cast<int>(packages.size());
  std::vector<Kind> sorted;
  for (auto& [name, kind] : kinds) {
    kind.kind.count = static_cast<int>(threads_known ? kind.siblings.size() : kind.kind.processors.size());
    sorted.push_back(std::move(kind));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const Kind& a, const Kind& b) {
    return std::pair(a.capacity, a.kind.max_mhz) > std::pair(b.capacity, b.kind.max_mhz);
  });
  for (Kind& kind : sorted) cpu.kinds.push_back(std::move(kind.kind));
}

}  // namespace

Cpu probe_cpu(Source& source) {
  const std::string cpuinfo = read_text(source, "/proc/cpuinfo", 64 << 10);
  Cpu cpu;
  cpu.architecture = plain(source.architecture());
  const Cores cores(source, cpuinfo);
  cpu.logical = static_cast<int>(cores.numbers().size());
  if (cores.examinable()) examine(source, cores, cpu);

  cpu.model = plain(field(cpuinfo, "model name"));
  std::string names;
  for (const CoreKind& kind : cpu.kinds) {
    if (!kind.name.empty()) names += (names.empty() ? "" : " + ") + kind.name;
  }
  const bool arm =
      cpu.architecture == "aarch64" || (cpu.architecture.empty() && !field(cpuinfo, "CPU implementer").empty());
  if (cpu.model.empty() || (arm && !names.empty())) cpu.model = names;  // on Arm the name is "ARMv8 Processor rev 1"
  if (cpu.model.empty()) cpu.model = plain(field(cpuinfo, "Hardware"));

  const auto flags = words(field(cpuinfo, arm ? "Features" : "flags"), 1024);
  const auto has = [&](std::string_view flag) { return std::find(flags.begin(), flags.end(), flag) != flags.end(); };
  for (const Isa& isa : isas(arm)) {
    if (std::all_of(isa.flags.begin(), isa.flags.end(), has)) cpu.isa.emplace_back(isa.name);
  }
  return cpu;
}

}  // namespace sparkpilot
