// The ports through which two Sparks, or several machines, exchange gradients: NVIDIA's ConnectX.
#include <algorithm>

#include "doctor/check.h"
#include "hw/parse_text.h"

namespace sparkpilot::doctor {
namespace {

bool is_connectx(const NetworkPort& port) { return port.driver == "mlx5_core"; }

// Finds the ports with a cable. If there are none, returns false and `says` reports it.
bool linked(const Patient& patient, Says& says, std::vector<const NetworkPort*>& ports) {
  bool any = false;
  for (const NetworkPort& port : patient.machine.ports) {
    any = any || is_connectx(port);
    if (is_connectx(port) && port.up) ports.push_back(&port);
  }
  if (ports.empty()) says.skip("{}", any ? "no cable in a ConnectX port" : "no ConnectX port");
  return !ports.empty();
}

// IP over InfiniBand: its frames are as large as the fabric's, 2,044 or 4,092 bytes, and RDMA does not use them.
bool is_infiniband(const Patient& patient, const NetworkPort& port) {
  constexpr int kInfiniband = 32;  // ARPHRD_INFINIBAND
  return port.name.empty() || read_integer(patient.source, "/sys/class/net/" + port.name + "/type") == kInfiniband;
}

void mtu(const Patient& patient, Says& says) {
  std::vector<const NetworkPort*> ports;
  if (!linked(patient, says, ports)) return;
  std::erase_if(ports, [&](const NetworkPort* port) { return is_infiniband(patient, *port); });
  if (ports.empty()) return says.skip("the ports with a cable are InfiniBand");
  for (const NetworkPort* port : ports) {
    if (port->mtu && *port->mtu < 9000) {
      says.bad("{} has an MTU of {}", port->name, *port->mtu);
      says.fix(fmt::format("on both machines: sudo ip link set {} mtu 9000", port->name));
    }
  }
  if (says.wrong().empty()) says.good("jumbo frames");
}

void speed(const Patient& patient, Says& says) {
  std::vector<const NetworkPort*> ports;
  if (!linked(patient, says, ports)) return;
  if (!is_dgx_spark(patient.machine)) return says.skip("the ports' own speed is not known");
  for (const NetworkPort* port : ports) {
    if (port->mbit_per_second && *port->mbit_per_second < 200'000)
      says.bad("{} runs at {} Gb/s of 200", port->name, *port->mbit_per_second / 1000);
  }
  if (says.wrong().empty()) says.good("200 Gb/s");
}

std::string port_label(const NetworkPort& port) { return port.name.empty() ? port.hca : port.name; }

// Each cage of a Spark is two ports and two HCAs, on two PCIe links of half the speed: the same place in two PCI
// domains, as 0000:01:00.0 (enp1s0f0np0) and 0002:01:00.0 (enP2p1s0f0np0).
void both(const Patient& patient, Says& says) {
  std::vector<const NetworkPort*> ports;
  if (!linked(patient, says, ports)) return;
  if (!is_dgx_spark(patient.machine)) return says.skip("no DGX Spark");
  const auto place = [](const NetworkPort& port) {
    return port.pci.substr(std::min(port.pci.find(':'), port.pci.size()));
  };
  for (const NetworkPort* port : ports) {
    const auto other = std::find_if(
        patient.machine.ports.begin(), patient.machine.ports.end(),
        [&](const NetworkPort& one) { return is_connectx(one) && one.pci != port->pci && place(one) == place(*port); });
    if (other == patient.machine.ports.end()) {
      says.bad("of the two ports of a cable only {} is up, the other is not there", port_label(*port));
    } else if (!other->up) {
      says.bad("of the two ports of a cable only {} is up, {} is not", port_label(*port), port_label(*other));
      says.fix(fmt::format("sudo ip link set {} up, and give it an address, too (netplan)", port_label(*other)));
    }
  }
  if (says.wrong().empty()) says.good("both ports of each cable are up");
}

void hca(const Patient& patient, Says& says) {
  std::vector<const NetworkPort*> ports;
  if (!linked(patient, says, ports)) return;
  for (const NetworkPort* port : ports) {
    if (port->hca.empty()) {
      says.bad("{} has no RDMA device", port->name);
    } else if (port->hca_active == false) {
      says.bad("the RDMA device {} of {} is not active", port->hca, port->name);
    }
  }
  if (says.wrong().empty()) says.good("RDMA devices are active");
}

constexpr Check kNetworkChecks[] = {
    {{"network.mtu", "ConnectX ports use jumbo frames", Impact::slow,
      "With frames of 1,500 bytes two machines exchange gradients at a fraction of the line's speed.",
      "sudo ip link set <port> mtu 9000, on both machines"},
     mtu},
    {{"network.speed", "The cable between Sparks is fast", Impact::slow,
      "A cable or module that is not for 200 Gb/s halves the exchange.",
      "use a QSFP56 cable from NVIDIA's list, the same port on both machines"},
     speed},
    {{"network.both_ports", "Both ports of a cable are up", Impact::slow,
      "Each of a Spark's cages appears as two ports; half of the speed is lost while one is down.",
      "sudo ip link set <port> up for both, and give both addresses (netplan)"},
     both},
    {{"network.rdma", "RDMA devices are active", Impact::slow, "NCCL falls back to sockets: 3 GB/s instead of 23.",
      "sudo apt install rdma-core && sudo modprobe mlx5_ib; ibdev2netdev shows them"},
     hca},
};

}  // namespace

std::span<const Check> network_checks() { return kNetworkChecks; }

}  // namespace sparkpilot::doctor
