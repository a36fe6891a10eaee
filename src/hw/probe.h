// Examines a machine, only through a Source. Unknown and nonsensical values are empty.
#pragma once

#include "hw/source.h"
#include "sparkpilot/machine.h"

namespace sparkpilot {

// The whole machine. The source may give any bytes: nothing is thrown, and every list is bounded.
Machine probe(Source& source);

// Parts of it. Those that change while a machine runs may be read again.
Cpu probe_cpu(Source& source);
Memory probe_memory(Source& source);
std::vector<Disk> probe_disks(Source& source);
std::vector<NetworkPort> probe_network(Source& source);
// All but the signs of a Spark and the system's name, which need the rest of the machine.
Identity probe_identity(Source& source);
// Into machine.driver, machine.gpus and machine.other_gpus.
void probe_gpus(Source& source, Machine& machine);
// Only NVML's answers, for repeated readings. In NVML's order; a lost GPU has no nvml_index and no other values.
std::vector<Gpu> nvml_gpus(const GpuDriverAnswers& nvml);
// Why NVML does not answer, in a line; empty if it does or is absent.
std::string nvml_problem(const GpuDriverAnswers& nvml);

// Every sign found, of the table in docs/machine.md; needs the processor, the GPUs and the identity.
std::vector<SparkSign> spark_signs(Source& source, const Machine& machine);
// The firmware's strings if they are those of a machine with a GB10.
struct Gb10System {
  std::string name, seen;  // "Dell Pro Max with GB10", "Dell Pro Max with GB10 FCM1253"
};
std::optional<Gb10System> gb10_system(const Identity& identity);

// A PCI address as Linux writes it, "000f:01:00.0", however a library writes it; empty if it is not one.
std::string pci_address(std::string_view text);
// A GPU that is a GB10, by its name or its PCI id.
bool is_gb10(const Gpu& gpu);

}  // namespace sparkpilot
