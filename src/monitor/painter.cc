#include "monitor/painter.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "monitor/quantities.h"

namespace sparkpilot::monitor {
namespace {

constexpr int kLabel = 6;  // columns for the label before a bar

int bar_width(const Area& area) { return std::clamp(area.width / 4, 6, 36); }

template <typename T>
std::string show(Unit unit, const std::optional<T>& value) {
  return human(unit, value ? std::optional(static_cast<double>(*value)) : std::nullopt);
}

template <typename A, typename B>
std::optional<double> share(const std::optional<A>& part, const std::optional<B>& whole) {
  if (!part || !whole || *whole <= 0) return std::nullopt;
  return static_cast<double>(*part) / static_cast<double>(*whole);
}

template <typename T>
std::optional<double> of_hundred(const std::optional<T>& percent) {
  return share(percent, std::optional(100));
}

// "11.2 of 24.0 GiB"; the unit only once if it is the same.
std::string part_of(std::optional<int64_t> part, std::optional<int64_t> whole) {
  if (!part && !whole) return "n/a";
  const std::string used = show(Unit::bytes, part), all = show(Unit::bytes, whole);
  const size_t unit = used.find(' '), same = all.find(' ');
  const bool once = part && whole && used.substr(unit) == all.substr(same);
  return (once ? used.substr(0, unit) : used) + " of " + all;
}

Ink known(bool is, Ink ink = Ink::bright) { return is ? ink : Ink::dim; }

// If no value is known, says what is unknown.
template <typename T>
std::string show_or(const char* what, Unit unit, const std::optional<T>& value) {
  return value ? show(unit, value) : std::string(what) + " n/a";
}

Ink temperature_ink(std::optional<int> now, std::optional<int> slowdown) {
  if (!now) return Ink::dim;
  const int limit = slowdown.value_or(90);
  return *now >= limit ? Ink::hot : *now >= limit - 8 ? Ink::warn : Ink::bright;
}

Ink reason_ink(const std::string& reason) {
  const bool harmless =
      reason == "idle" || reason == "clocks set" || reason == "sync boost" || reason == "display clocks";
  return harmless ? Ink::dim : reason.substr(0, 3) == "hot" ? Ink::hot : Ink::warn;
}

}  // namespace

// Words at the right end of a line, from right to left, as many as there is room for.
class RightWords {
 public:
  RightWords(Canvas& canvas, int left, int end, int y) : canvas_(canvas), left_(left), end_(end), y_(y) {}
  void add(const std::string& text, Ink ink) {
    const int begin = end_ - static_cast<int>(text.size());
    if (text.empty() || begin < left_) return;
    canvas_.text(begin, y_, text, ink);
    end_ = begin - 2;
  }

 private:
  Canvas& canvas_;
  int left_, end_, y_;
};

bool Painter::unified() const {
  return std::any_of(sample_.gpus.begin(), sample_.gpus.end(), [](const GpuSample& gpu) { return gpu.unified(); });
}

int Painter::gpu_rows() const { return unified() ? 4 : 3; }
int Painter::cpu_rows() const {
  return 2 + (sample_.cpu.clusters.size() > 1 ? static_cast<int>(std::min<size_t>(sample_.cpu.clusters.size(), 3)) : 1);
}
int Painter::memory_rows() const { return unified() ? 2 : 3; }
int Painter::io_rows(int width) const {
  const int disks = std::max(1, static_cast<int>(sample_.disks.size())),
            ports = std::max(1, static_cast<int>(sample_.ports.size()));
  return 1 + (side_by_side(width) ? std::max(disks, ports) : disks + ports);
}

void Painter::header() {
  constexpr int kTitle = 13;
  canvas_.text(1, 0, "sparkpilot", Ink::bright);
  RightWords right(canvas_, kTitle, canvas_.width() - 1, 0);
  right.add(state_.clock, Ink::dim);
  if (state_.paused) right.add("paused", Ink::warn);
  const bool sick = !sample_.gpu_problem.empty();
  const int room = canvas_.width() - kTitle - static_cast<int>(state_.clock.size()) - 11;
  canvas_.text(kTitle, 0, sick ? sample_.gpu_problem : state_.title, sick ? Ink::warn : Ink::text, room);
}

void Painter::footer() {
  static constexpr std::array<const char*, 4> kSorts = {"gpu", "cpu", "memory", "pid"};
  const int y = canvas_.height() - 1;
  int x = 1;
  const auto key = [&](const std::string& name, const std::string& what) {
    if (x + static_cast<int>(name.size() + what.size()) + 1 > canvas_.width()) return;
    x = canvas_.text(x, y, name, Ink::bright) + 1;
    x = canvas_.text(x, y, what, Ink::dim) + 3;
  };
  key("q", "quit");
  key("h", "help");
  key("s", fmt::format("sort: {}", kSorts.at(static_cast<size_t>(state_.sort))));
  key("space", state_.paused ? "go on" : "pause");
  key("+ -", fmt::format("every {:g} s", state_.interval_s));
}

void Painter::help() {
  static constexpr std::array<std::pair<const char*, const char*>, 7> kKeys = {{
      {"q, Ctrl-C", "quit"},
      {"h, ?", "this list; Esc closes it"},
      {"s", "sort by the next column"},
      {"g c m p", "by GPU memory, CPU, memory, pid"},
      {"space", "pause"},
      {"+ -", "more or less time between readings"},
      {"Ctrl-L", "draw the screen anew"},
  }};
  const int width = std::min(52, canvas_.width()), height = static_cast<int>(kKeys.size()) + 3;
  const int x = (canvas_.width() - width) / 2, y = std::max(0, (canvas_.height() - height) / 2);
  canvas_.clear(x, y, width, height);
  canvas_.line(x, y, width);
  canvas_.line(x, y + height - 1, width);
  canvas_.text(x + 2, y, " Keys ", Ink::bright);
  for (size_t i = 0; i < kKeys.size(); ++i) {
    const int row = y + 2 + static_cast<int>(i) - 1;
    canvas_.text(x + 2, row, kKeys[i].first, Ink::bright);
    canvas_.text(x + 14, row, kKeys[i].second, Ink::text, width - 15);
  }
}

// A rule with a title in it; the caller adds the words at its right end.
RightWords Painter::rule(const Area& area, const std::string& title, const std::string& more, Ink ink) {
  canvas_.line(area.x, area.y, area.width);
  int x = canvas_.text(area.x + 1, area.y, " " + title + " ", ink, area.width - 2);
  if (!more.empty()) x = canvas_.text(x, area.y, more + " ", Ink::text, std::max(0, area.end() - x - 1));
  return {canvas_, x + 1, area.end() - 1, area.y};
}

// Label, bar and text; returns the column after the text.
int Painter::labelled_bar(const Area& area, int y, const std::string& label, std::optional<double> part, Ink ink,
                          const std::string& text, bool is_known) {
  const int bar = bar_width(area);
  canvas_.text(area.x + 1, y, label, Ink::dim, kLabel - 2);
  canvas_.bar(area.x + kLabel, y, bar, part, ink);
  return canvas_.text(area.x + kLabel + bar + 2, y, text, known(is_known), area.width - kLabel - bar - 2);
}

void Painter::gpu(const Area& area, const GpuSample& sample, int hidden) {
  if (area.height < 3) return;
  const Gpu& gpu = sample.gpu;
  RightWords title = rule(area, fmt::format("GPU {}", sample.index), sample.title(), Ink::gpu);
  if (hidden > 0) title.add(fmt::format(" and {} more ", hidden), Ink::warn);
  for (const std::string& reason : sample.throttle_reasons.value_or(std::vector<std::string>())) {
    title.add(" " + reason + " ", reason_ink(reason));
  }

  int y = area.y + 1;
  int x = labelled_bar(area, y, "use", of_hundred(gpu.gpu_percent), Ink::gpu, show(Unit::percent, gpu.gpu_percent),
                       gpu.gpu_percent.has_value());
  RightWords right(canvas_, x + 2, area.end() - 1, y);
  const std::string limit = gpu.power_w && gpu.power_limit_w ? fmt::format(" of {:.0f}", *gpu.power_limit_w) : "";
  right.add(show_or("power", Unit::watts, gpu.power_w) + limit, known(gpu.power_w.has_value()));
  right.add(show_or("temperature", Unit::celsius, gpu.temperature_c),
            temperature_ink(gpu.temperature_c, gpu.slowdown_temperature_c));
  right.add(show_or("clock", Unit::megahertz, gpu.sm_clock_mhz), known(gpu.sm_clock_mhz.has_value()));

  ++y;
  if (sample.unified()) {
    const auto pool = sample_.pool_used(), total = sample_.memory.total;
    x = labelled_bar(area, y, "pool", share(pool, total), Ink::memory, part_of(pool, total), pool.has_value());
    gpu_extras(area, x, y, sample);
    if (++y < area.bottom()) {
      labelled_bar(area, y, "held", share(gpu.process_memory, total), Ink::gpu,
                   show(Unit::bytes, gpu.process_memory) + " by GPU processes", gpu.process_memory.has_value());
    }
  } else {
    x = labelled_bar(area, y, "mem", share(gpu.memory_used, gpu.memory_total), Ink::memory,
                     part_of(gpu.memory_used, gpu.memory_total), gpu.memory_used.has_value());
    gpu_extras(area, x, y, sample);
  }
  ++y;
  canvas_.curve(area.x + 1, y, area.width - 2, area.bottom() - y, history_.gpu(sample.index), 100, Ink::gpu);
}

// The link, the fan, the video engines.
void Painter::gpu_extras(const Area& area, int x, int y, const GpuSample& sample) {
  RightWords right(canvas_, x + 2, area.end() - 1, y);
  const Gpu& gpu = sample.gpu;
  if (sample.encoder_percent.value_or(0) > 0 || sample.decoder_percent.value_or(0) > 0) {
    right.add("dec " + show(Unit::percent, sample.decoder_percent), Ink::text);
    right.add("enc " + show(Unit::percent, sample.encoder_percent), Ink::text);
  }
  if (gpu.memory_clock_mhz) right.add(fmt::format("{} MHz", *gpu.memory_clock_mhz), Ink::dim);
  if (gpu.pcie_generation && gpu.pcie_width) {
    right.add(fmt::format("PCIe {} x{}", *gpu.pcie_generation, *gpu.pcie_width), Ink::dim);
  }
  if (sample.fan_percent) right.add("fan " + show(Unit::percent, sample.fan_percent), Ink::dim);
}

// One character per processor: all of them, or those of a cluster.
void Painter::processors(int x, int end, int y, const std::vector<int>& numbers) {
  for (const Processor& processor : sample_.cpu.processors) {
    const bool wanted = numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), processor.number);
    if (wanted && x < end) canvas_.column(x++, y, of_hundred(processor.percent), Ink::cpu);
  }
}

void Painter::cpu(const Area& area) {
  if (area.height < 2) return;
  const CpuSample& cpu = sample_.cpu;
  const std::string count = cpu.processors.empty() ? "" : fmt::format("{} processors", cpu.processors.size());
  RightWords title = rule(area, "CPU", count, Ink::cpu);
  if (cpu.load) title.add(fmt::format(" load {:.2f} ", *cpu.load), Ink::text);
  int y = area.y + 1;
  const int x = labelled_bar(area, y, "use", of_hundred(cpu.percent), Ink::cpu, show(Unit::percent, cpu.percent),
                             cpu.percent.has_value());
  RightWords right(canvas_, x + 2, area.end() - 1, y);
  right.add(show_or("temperature", Unit::celsius, cpu.temperature_c), known(cpu.temperature_c.has_value()));
  right.add(show_or("clock", Unit::megahertz, cpu.mhz), known(cpu.mhz.has_value()));
  if (sample_.pressure.cpu_some.value_or(0) >= 0.5) {
    right.add("waiting " + show(Unit::percent, sample_.pressure.cpu_some), Ink::dim);
  }
  ++y;
  if (cpu.clusters.size() > 1) {
    for (const Cluster& cluster : cpu.clusters) {
      if (y >= area.bottom()) return;
      const size_t dash = cluster.name.rfind('-');  // "X925" from "Cortex-X925"
      const std::string name = dash == std::string::npos ? cluster.name : cluster.name.substr(dash + 1);
      labelled_bar(area, y, name, of_hundred(cluster.percent), Ink::cpu, show(Unit::percent, cluster.percent),
                   cluster.percent.has_value());
      canvas_.text_right(area.end() - 1, y, show(Unit::megahertz, cluster.mhz), known(cluster.mhz.has_value()));
      processors(area.x + kLabel + bar_width(area) + 9, area.end() - 10, y++, cluster.processors);
    }
  } else if (y < area.bottom()) {
    processors(area.x + kLabel, area.end() - 1, y++, {});
  }
  canvas_.curve(area.x + 1, y, area.width - 2, area.bottom() - y, history_.cpu(), 100, Ink::cpu);
}

void Painter::memory(const Area& area) {
  if (area.height < 2) return;
  const Memory& memory = sample_.memory;
  RightWords title = rule(area, "Memory", "", Ink::memory);
  if (sample_.pressure.memory_some.value_or(0) >= 0.5) {
    title.add(" waiting " + show(Unit::percent, sample_.pressure.memory_some) + " ", Ink::warn);
  }
  int y = area.y + 1;
  const bool pooled = unified();  // with unified memory, the pool is shown with the GPU
  if (!pooled) {
    const auto used = sample_.pool_used();
    const int x = labelled_bar(area, y, "used", share(used, memory.total), Ink::memory, part_of(used, memory.total),
                               used.has_value());
    RightWords right(canvas_, x + 2, area.end() - 1, y);
    right.add("cache " + show(Unit::bytes, memory.page_cache), Ink::dim);
    ++y;
  }
  if (y >= area.bottom()) return;
  const bool sane = memory.swap_total && memory.swap_free && *memory.swap_free <= *memory.swap_total;
  const auto swap = sane ? std::optional(*memory.swap_total - *memory.swap_free) : std::nullopt;
  const int x = labelled_bar(area, y, "swap", share(swap, memory.swap_total), Ink::memory,
                             memory.swap_total == 0 ? "none" : part_of(swap, memory.swap_total), swap.value_or(0) > 0);
  RightWords right(canvas_, x + 2, area.end() - 1, y);
  right.add("available " + show(Unit::bytes, memory.available), Ink::dim);
  if (pooled) right.add("cache " + show(Unit::bytes, memory.page_cache), Ink::dim);
}

struct Painter::Flow {
  std::string_view label;
  std::optional<double> bytes_per_s;
};

// "nvme0n1     r 1.31 MB/s  w 0 B/s"
void Painter::flow(const Area& area, const std::string& name, const Flow& first, const Flow& second, int label_width) {
  int end = area.end() - 1;
  for (const Flow* part : {&second, &first}) {
    constexpr int kNumber = 10;  // "1.31 MB/s" and a space
    canvas_.text_right(end, area.y, show(Unit::bytes_per_second, part->bytes_per_s),
                       known(part->bytes_per_s.value_or(0) > 0));
    canvas_.text_right(end - kNumber, area.y, part->label, Ink::dim);
    end -= kNumber + std::max(label_width, static_cast<int>(part->label.size())) + 2;
  }
  canvas_.text(area.x + 1, area.y, name, Ink::text, end - area.x - 1);
}

// Disks and ports, the busiest if not all fit: side by side, or alternating if that is too narrow.
void Painter::io(const Area& area) {
  if (area.height < 2) return;
  const bool two_columns = side_by_side(area.width);
  const int half = two_columns ? area.width * 9 / 20 : area.width;  // ports have the longer names
  RightWords title = rule({area.x, area.y, half, 1}, two_columns ? "Disks" : "Disks and network", "", Ink::io);
  if (two_columns) rule({area.x + half, area.y, area.width - half, 1}, "Network", "", Ink::io);
  if (sample_.pressure.io_some.value_or(0) >= 0.5) {
    title.add(" waiting " + show(Unit::percent, sample_.pressure.io_some) + " ", Ink::text);
  }
  const auto busiest = [](auto list, const auto& bytes) {
    std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); });
    return list;
  };
  const auto disks = busiest(sample_.disks, [](const DiskSample& disk) {
    return disk.read_bytes_per_s.value_or(0) + disk.written_bytes_per_s.value_or(0);
  });
  const auto ports = busiest(sample_.ports, [](const PortSample& port) {
    return port.received_bytes_per_s.value_or(0) + port.sent_bytes_per_s.value_or(0);
  });
  const int label_width = two_columns ? 0 : 3;  // one below the other
  int row = 1, port_row = 1;
  for (size_t i = 0; i < std::max({disks.size(), ports.size(), size_t{1}}); ++i) {
    if (row < area.height && i < disks.size()) {
      const DiskSample& disk = disks[i];
      flow({area.x, area.y + row++, half, 1}, disk.name, {"r", disk.read_bytes_per_s}, {"w", disk.written_bytes_per_s},
           label_width);
    }
    int& at = two_columns ? port_row : row;
    if (at < area.height && i < ports.size()) {
      const PortSample& port = ports[i];
      const Area line{two_columns ? area.x + half : area.x, area.y + at++, two_columns ? area.width - half : half, 1};
      flow(line, port.name, {"in", port.received_bytes_per_s}, {"out", port.sent_bytes_per_s}, label_width);
    }
  }
  if (disks.empty() && (two_columns || ports.empty())) canvas_.text(area.x + 1, area.y + 1, "n/a", Ink::dim);
  if (ports.empty() && two_columns) canvas_.text(area.x + half + 1, area.y + 1, "n/a", Ink::dim);
}

std::vector<ProcessSample> Painter::sorted() const {
  std::vector<ProcessSample> out = sample_.processes;
  const auto by = [&](const auto& key) {
    std::stable_sort(out.begin(), out.end(),
                     [&](const ProcessSample& a, const ProcessSample& b) { return key(a) > key(b); });
  };
  switch (state_.sort) {
    case Sort::gpu: break;  // in their own order
    case Sort::cpu: by([](const ProcessSample& p) { return p.cpu_percent; }); break;
    case Sort::memory: by([](const ProcessSample& p) { return p.resident_bytes; }); break;
    case Sort::pid: by([](const ProcessSample& p) { return -p.pid; }); break;
  }
  return out;
}

void Painter::processes(const Area& area) {
  if (area.height < 3) return;
  rule(area, "Processes", sample_.process_count ? std::to_string(*sample_.process_count) : "", Ink::bright);
  constexpr int kPid = 8, kGpu = 20, kCpu = 28, kMemory = 39, kName = 41;
  int y = area.y + 1;
  const auto column = [&](int end, const std::string& text, Ink ink) {
    canvas_.text_right(area.x + end, y, text, ink);
  };
  const auto heading = [&](Sort sort) { return state_.sort == sort ? Ink::bright : Ink::dim; };
  column(kPid, "pid", heading(Sort::pid));
  column(kGpu, "gpu memory", heading(Sort::gpu));
  column(kCpu, "cpu", heading(Sort::cpu));
  column(kMemory, "memory", heading(Sort::memory));
  canvas_.text(area.x + kName, y, "command", Ink::dim, area.width - kName);
  for (const ProcessSample& process : sorted()) {
    if (++y >= area.bottom()) break;
    column(kPid, std::to_string(process.pid), Ink::dim);
    if (process.on_gpu) {
      column(kGpu, show(Unit::bytes, process.gpu_bytes), known(process.gpu_bytes.has_value(), Ink::gpu));
    }
    column(kCpu, show(Unit::percent, process.cpu_percent), known(process.cpu_percent.value_or(0) > 0, Ink::text));
    column(kMemory, show(Unit::bytes, process.resident_bytes), known(process.resident_bytes.has_value(), Ink::text));
    canvas_.text(area.x + kName, y, process.name.empty() ? "n/a" : process.name,
                 known(!process.name.empty(), process.on_gpu ? Ink::bright : Ink::text), area.width - kName);
  }
}

}  // namespace sparkpilot::monitor
