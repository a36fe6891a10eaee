// The machine as plain dictionaries, of which python/sparkpilot/hardware.py makes classes. Keys are the members' names.
#include <pybind11/stl.h>

#include "python/module.h"
#include "sparkpilot/machine.h"

namespace sparkpilot::python {
namespace {

template <typename T>
py::object or_none(const std::optional<T>& value) {
  return value ? py::cast(*value) : py::none();
}

py::object or_none(const std::string& text) { return text.empty() ? py::object(py::none()) : py::str(text); }

py::object version_of(const std::optional<ComputeCapability>& version) {
  return version ? py::object(py::make_tuple(version->major, version->minor)) : py::none();
}

py::dict gpu_dict(const Gpu& g) {
  using namespace py::literals;  // NOLINT(google-build-using-namespace): "name"_a
  return py::dict(
      "nvml_index"_a = or_none(g.nvml_index), "cuda_index"_a = or_none(g.cuda_index), "name"_a = or_none(g.name),
      "capability"_a = version_of(g.capability), "multiprocessors"_a = or_none(g.multiprocessors),
      "unified_memory"_a = or_none(g.unified_memory), "memory_total"_a = or_none(g.memory_total),
      "memory_used"_a = or_none(g.memory_used), "pci"_a = or_none(g.pci), "kernel_driver"_a = or_none(g.kernel_driver),
      "max_sm_clock_mhz"_a = or_none(g.max_sm_clock_mhz), "power_w"_a = or_none(g.power_w),
      "power_limit_w"_a = or_none(g.power_limit_w), "temperature_c"_a = or_none(g.temperature_c),
      "supports_fp16"_a = supports_fp16(g), "supports_bf16"_a = supports_bf16(g), "supports_fp8"_a = supports_fp8(g),
      "supports_nvfp4"_a = supports_nvfp4(g), "recommended_precision"_a = std::string(recommended_precision(&g)));
}

py::dict machine_dict() {
  using namespace py::literals;  // NOLINT(google-build-using-namespace)
  const Machine* here = nullptr;
  {
    const WithoutLock without_lock;
    here = &machine();
  }
  const Machine& m = *here;
  py::list gpus;
  for (const Gpu& gpu : m.gpus) gpus.append(gpu_dict(gpu));
  const Gpu* const best = best_gpu(m);
  return py::dict("system"_a = or_none(m.identity.system), "operating_system"_a = or_none(m.identity.operating_system),
                  "kernel"_a = or_none(m.identity.kernel), "dgx_os"_a = or_none(m.identity.dgx_os),
                  "container"_a = or_none(m.identity.container), "architecture"_a = or_none(m.cpu.architecture),
                  "cpu"_a = or_none(m.cpu.model), "processors"_a = m.cpu.logical, "cores"_a = or_none(m.cpu.cores),
                  "isa"_a = m.cpu.isa, "memory_total"_a = or_none(m.memory.total),
                  "driver"_a = or_none(m.driver.version), "cuda"_a = version_of(m.driver.cuda), "gpus"_a = gpus,
                  "best_gpu"_a = best ? py::object(py::int_(best - m.gpus.data())) : py::none(),
                  "is_dgx_spark"_a = is_dgx_spark(m), "is_nvidia_available"_a = is_nvidia_available(m),
                  "hardware_class"_a = std::string(hardware_class_name(hardware_class(m))),
                  "backend"_a = std::string(backend_name(backend(m))),
                  "recommended_precision"_a = std::string(recommended_precision(best)));
}

}  // namespace

void bind_machine(py::module_& module) { module.def("machine", &machine_dict); }

}  // namespace sparkpilot::python
