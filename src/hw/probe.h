// How a machine is examined: from a Source and nothing else. What it does not say, or says nonsense about, is empty.
#pragma once

#include "hw/source.h"
#include "sparkpilot/machine.h"

namespace sparkpilot {

// All of it. Any bytes may come from the source: nothing is thrown, and every list is bounded.
Machine probe(Source& source);

// The parts. Those that change while a machine runs may be asked again.
Cpu probe_cpu(Source& source);
Memory probe_memory(Source& source);
std::vector<Disk> probe_disks(Source& source);
std::vector<NetworkPort> probe_network(Source& source);
// All but the signs of a Spark and the system's name, which need the rest of the machine.
Identity probe_identity(Source& source);
// Into machine.driver, machine.gpus and machine.other_gpus.
void probe_gpus(Source& source, Machine& machine);
// What NVML alone says, for who asks it again and again. In its order; a GPU that is lost has no nvml_index and nothing
// else.
std::vector<Gpu> nvml_gpus(const DriverAnswers& nvml);
// Why it does not answer, in a line; empty where it does or is not there.
std::string nvml_problem(const DriverAnswers& nvml);

// Every sign that is there, of the table in docs/machine.md; needs the processor, the GPUs and the identity.
std::vector<SparkSign> spark_signs(Source& source, const Machine& machine);
// What the firmware's strings say where they are those of a machine with a GB10.
struct Gb10System {
  std::string name, seen;  // "Dell Pro Max with GB10", "Dell Pro Max with GB10 FCM1253"
};
std::optional<Gb10System> gb10_system(const Identity& identity);

// A PCI address as Linux writes it, "000f:01:00.0", whichever way a library does; empty where it is none.
std::string pci_address(std::string_view text);
// A GPU that is a GB10, by its name or its PCI id.
bool is_gb10(const Gpu& gpu);

}  // namespace sparkpilot
