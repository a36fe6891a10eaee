#include "hw/machine_json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace sparkpilot {
namespace {

using nlohmann::json;

template <typename T>
json known(const std::optional<T>& value) {
  return value ? json(*value) : json();
}
json known(const std::optional<ComputeCapability>& value) {
  return value ? json(fmt::format("{}.{}", value->major, value->minor)) : json();
}
json known(const std::string& text) { return text.empty() ? json() : json(text); }

template <typename T, typename F>
json list(const std::vector<T>& items, F&& of_item) {
  json out = json::array();
  for (const T& item : items) out.push_back(of_item(item));
  return out;
}

json of(const Identity& identity) {
  return {{"system", known(identity.system)},
          {"vendor", known(identity.vendor)},
          {"product", known(identity.product)},
          {"product_version", known(identity.product_version)},
          {"family", known(identity.family)},
          {"board", known(identity.board)},
          {"firmware", known(identity.firmware)},
          {"device_tree", known(identity.device_tree)},
          {"operating_system", known(identity.operating_system)},
          {"kernel", known(identity.kernel)},
          {"dgx_os", known(identity.dgx_os)},
          {"container", known(identity.container)},
          {"wsl", known(identity.wsl)},
          {"comma_device", known(identity.comma_device)},
          {"spark_signs", list(identity.spark_signs, [](const SparkSign& sign) {
             return json{{"source", sign.source}, {"seen", sign.seen}, {"weight", sign.weight}};
           })}};
}

json of(const Cpu& cpu) {
  return {{"architecture", known(cpu.architecture)},
          {"model", known(cpu.model)},
          {"logical", cpu.logical > 0 ? json(cpu.logical) : json()},
          {"cores", known(cpu.cores)},
          {"sockets", known(cpu.sockets)},
          {"kinds", list(cpu.kinds,
                         [](const CoreKind& kind) {
                           return json{{"name", known(kind.name)},
                                       {"count", kind.count},
                                       {"processors", kind.processors},
                                       {"max_mhz", known(kind.max_mhz)}};
                         })},
          {"isa", cpu.isa}};
}

json of(const Memory& memory) {
  return {{"total_bytes", known(memory.total)},           {"free_bytes", known(memory.free)},
          {"available_bytes", known(memory.available)},   {"allocatable_bytes", known(memory.allocatable())},
          {"page_cache_bytes", known(memory.page_cache)}, {"swap_total_bytes", known(memory.swap_total)},
          {"swap_free_bytes", known(memory.swap_free)},   {"huge_page_bytes", known(memory.huge_page_size)},
          {"huge_pages", known(memory.huge_pages)},       {"huge_pages_free", known(memory.huge_pages_free)}};
}

json of(const Driver& driver) {
  return {{"version", known(driver.version)},
          {"kernel_version", known(driver.kernel_version)},
          {"cuda", known(driver.cuda)},
          {"nvml_answers", driver.nvml_answers},
          {"nvml_problem", known(driver.nvml_problem)},
          {"cuda_answers", driver.cuda_answers},
          {"cuda_problem", known(driver.cuda_problem)}};
}

json of(const Gpu& gpu, ptrdiff_t index) {
  json precisions = json::array({"fp32"});
  if (supports_fp16(gpu)) precisions.push_back("fp16");
  if (supports_bf16(gpu)) precisions.push_back("bf16");
  if (supports_fp8(gpu)) precisions.push_back("fp8");
  if (supports_nvfp4(gpu)) precisions.push_back("fp4");
  return {{"index", index},
          {"nvml_index", known(gpu.nvml_index)},
          {"cuda_index", known(gpu.cuda_index)},
          {"name", known(gpu.name)},
          {"capability", known(gpu.capability)},
          {"precisions", gpu.capability ? precisions : json()},
          {"multiprocessors", known(gpu.multiprocessors)},
          {"unified_memory", known(gpu.unified_memory)},
          {"pageable_memory_access", known(gpu.pageable_memory_access)},
          {"memory_total_bytes", known(gpu.memory_total)},
          {"memory_used_bytes", known(gpu.memory_used)},
          {"process_memory_bytes", known(gpu.process_memory)},
          {"pci", known(gpu.pci)},
          {"pci_id", known(gpu.pci_id)},
          {"kernel_driver", known(gpu.kernel_driver)},
          {"pcie_generation", known(gpu.pcie_generation)},
          {"pcie_max_generation", known(gpu.pcie_max_generation)},
          {"pcie_width", known(gpu.pcie_width)},
          {"pcie_max_width", known(gpu.pcie_max_width)},
          {"sm_clock_mhz", known(gpu.sm_clock_mhz)},
          {"max_sm_clock_mhz", known(gpu.max_sm_clock_mhz)},
          {"memory_clock_mhz", known(gpu.memory_clock_mhz)},
          {"power_w", known(gpu.power_w)},
          {"power_limit_w", known(gpu.power_limit_w)},
          {"temperature_c", known(gpu.temperature_c)},
          {"slowdown_temperature_c", known(gpu.slowdown_temperature_c)},
          {"gpu_percent", known(gpu.gpu_percent)},
          {"memory_percent", known(gpu.memory_percent)},
          {"throttle_reasons", known(gpu.throttle_reasons)},
          {"persistence", known(gpu.persistence)},
          {"ecc", known(gpu.ecc)},
          {"mig", known(gpu.mig)},
          {"display", known(gpu.display)}};
}

json of(const Disk& disk) {
  return {{"mount", disk.mount},
          {"device", known(disk.device)},
          {"filesystem", known(disk.filesystem)},
          {"total_bytes", known(disk.total)},
          {"free_bytes", known(disk.free)},
          {"rotational", known(disk.rotational)},
          {"model", known(disk.model)}};
}

json of(const NetworkPort& port) {
  return {{"name", known(port.name)},
          {"up", port.up},
          {"mbit_per_second", known(port.mbit_per_second)},
          {"mtu", known(port.mtu)},
          {"driver", known(port.driver)},
          {"pci", known(port.pci)},
          {"hca", known(port.hca)},
          {"hca_active", known(port.hca_active)},
          {"hca_mbit_per_second", known(port.hca_mbit_per_second)}};
}

}  // namespace

json machine_json(const Machine& machine) {
  const auto each = [](const auto& item) { return of(item); };
  const Gpu* const best = best_gpu(machine);
  return {{"hardware_class", hardware_class_name(hardware_class(machine))},
          {"is_dgx_spark", is_dgx_spark(machine)},
          {"is_nvidia_available", is_nvidia_available(machine)},
          {"backend", backend_name(backend(machine))},
          {"best_gpu", best ? json(best - machine.gpus.data()) : json()},
          {"recommended_precision", recommended_precision(best)},
          {"identity", of(machine.identity)},
          {"cpu", of(machine.cpu)},
          {"memory", of(machine.memory)},
          {"driver", of(machine.driver)},
          {"gpus", list(machine.gpus, [&](const Gpu& gpu) { return of(gpu, &gpu - machine.gpus.data()); })},
          {"other_gpus", machine.other_gpus},
          {"disks", list(machine.disks, each)},
          {"ports", list(machine.ports, each)}};
}

}  // namespace sparkpilot
