#include "sparkpilot/machine.h"

#include <algorithm>
#include <tuple>

#include "hw/control_groups.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

std::string system_name(const Machine& machine) {
  const Identity& identity = machine.identity;
  if (is_dgx_spark(machine)) {
    if (const auto known = gb10_system(identity)) return known->name;
  }
  if (identity.comma_device && !identity.device_tree.empty()) return identity.device_tree;
  if (identity.product.empty() && identity.vendor.empty()) {
    if (!identity.device_tree.empty()) return identity.device_tree;
    return is_dgx_spark(machine) ? "a machine with a GB10" : std::string();
  }
  if (identity.product.substr(0, identity.vendor.size()) == identity.vendor) return identity.product;
  return identity.product.empty() ? identity.vendor : identity.vendor + " " + identity.product;
}

bool at_least(const Gpu& gpu, ComputeCapability least) { return gpu.capability && *gpu.capability >= least; }

bool is_usable(const Gpu& gpu) { return gpu.cuda_index && gpu.capability; }

}  // namespace

Machine probe(Source& source) {
  Machine machine;
  machine.cpu = probe_cpu(source);
  machine.memory = probe_memory(source);
  machine.memory.group_left = group_memory_left([&](const std::string& path) { return source.read(path, 64 << 10); });
  probe_gpus(source, machine);
  machine.memory.unified = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                       [](const Gpu& gpu) { return gpu.unified_memory.value_or(false); });
  machine.disks = probe_disks(source);
  machine.ports = probe_network(source);
  machine.identity = probe_identity(source);
  machine.identity.spark_signs = spark_signs(source, machine);
  machine.identity.system = system_name(machine);
  return machine;
}

const Machine& machine() {
  static const Machine here = probe(*system_source());
  return here;
}

bool is_nvidia_available(const Machine& machine) { return best_gpu(machine) != nullptr; }

HardwareClass hardware_class(const Machine& machine) {
  if (is_dgx_spark(machine)) return HardwareClass::dgx_spark;
  if (machine.identity.comma_device) return HardwareClass::comma_device;
  return is_nvidia_available(machine) ? HardwareClass::nvidia_pc : HardwareClass::pc;
}

std::string_view hardware_class_name(HardwareClass hardware) {
  switch (hardware) {
    case HardwareClass::dgx_spark: return "dgx_spark";
    case HardwareClass::nvidia_pc: return "nvidia_pc";
    case HardwareClass::comma_device: return "comma_device";
    case HardwareClass::pc: break;
  }
  return "pc";
}

Backend backend(const Machine& machine) {
  if (is_nvidia_available(machine)) return Backend::cuda;
  return machine.identity.comma_device ? Backend::qcom : Backend::cpu;
}

std::string_view backend_name(Backend backend) {
  switch (backend) {
    case Backend::cuda: return "cuda";
    case Backend::qcom: return "qcom";
    case Backend::cpu: break;
  }
  return "cpu";
}

const Gpu* best_gpu(const Machine& machine) {
  const auto rank = [](const Gpu& gpu) { return std::tie(gpu.capability, gpu.multiprocessors, gpu.memory_total); };
  const Gpu* best = nullptr;
  for (const Gpu& gpu : machine.gpus) {
    if (is_usable(gpu) && (!best || rank(gpu) > rank(*best))) best = &gpu;
  }
  return best;
}

bool supports_fp16(const Gpu& gpu) { return at_least(gpu, {7, 0}); }
bool supports_bf16(const Gpu& gpu) { return at_least(gpu, {8, 0}); }
bool supports_fp8(const Gpu& gpu) { return at_least(gpu, {8, 9}); }
bool supports_nvfp4(const Gpu& gpu) { return at_least(gpu, {10, 0}); }

std::string_view recommended_precision(const Gpu* gpu) { return gpu && supports_fp16(*gpu) ? "fp16" : "fp32"; }

}  // namespace sparkpilot
