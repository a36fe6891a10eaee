#include <algorithm>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

constexpr size_t kMaxPorts = 64;
constexpr int64_t kFastest = 3'200'000;  // Mbit/s

NetworkPort port_of(Source& source, const std::string& name, const std::string& device) {
  const std::string folder = "/sys/class/net/" + name;
  NetworkPort port;
  port.name = name;
  port.up = read_plain(source, folder + "/operstate") == "up";
  // A port without a link answers -1, or not at all; virtual ones return nonsense.
  port.mbit_per_second = within(read_integer(source, folder + "/speed"), 1, kFastest);
  port.mtu = within(read_integer(source, folder + "/mtu"), 1, 1 << 20);
  port.driver = plain(base_name(source.link(folder + "/device/driver").value_or("")));
  port.pci = pci_address(base_name(device));
  return port;
}

// "200 Gb/sec (2X NDR)" in Mbit/s.
std::optional<int> rate(std::string_view text) {
  const auto parts = words(text, 2);
  if (parts.size() < 2 || parts[1] != "Gb/sec") return std::nullopt;
  const size_t point = std::min(parts[0].find('.'), parts[0].size());
  const auto whole = within(to_integer(parts[0].substr(0, point)), 0, kFastest / 1000);
  const auto tenths =
      point == parts[0].size() ? std::optional(0) : within(to_integer(parts[0].substr(point + 1)), 0, 9);
  if (!whole || !tenths || *whole + *tenths == 0) return std::nullopt;
  return *whole * 1000 + *tenths * 100;
}

}  // namespace

std::vector<NetworkPort> probe_network(Source& source) {
  std::vector<NetworkPort> ports;
  for (const std::string& name : source.list("/sys/class/net")) {
    const auto device = source.link("/sys/class/net/" + name + "/device");  // bridges, tunnels and the like have no
                                                                            // device
    if (device && !plain(name).empty() && ports.size() < kMaxPorts) ports.push_back(port_of(source, name, *device));
  }
  size_t examined = 0;
  for (const std::string& hca : source.list("/sys/class/infiniband")) {
    if (plain(hca).empty() || ++examined > kMaxPorts) continue;
    const std::string folder = "/sys/class/infiniband/" + hca;
    const std::string state = read_plain(source, folder + "/ports/1/state");  // "4: ACTIVE"
    const auto use = [&](NetworkPort& port) {
      port.hca = hca;
      if (!state.empty()) port.hca_active = contains(state, "ACTIVE");
      port.hca_mbit_per_second = rate(read_plain(source, folder + "/ports/1/rate"));
    };
    const std::vector<std::string> names = source.list(folder + "/device/net");
    bool used = false;
    for (NetworkPort& port : ports) {
      if (std::find(names.begin(), names.end(), port.name) == names.end()) continue;
      use(port);
      used = true;
    }
    if (used) continue;
    NetworkPort alone;  // InfiniBand without a network interface
    alone.pci = pci_address(base_name(source.link(folder + "/device").value_or("")));
    alone.driver = plain(base_name(source.link(folder + "/device/driver").value_or("")));
    use(alone);
    alone.up = alone.hca_active.value_or(false);
    ports.push_back(std::move(alone));
  }
  return ports;
}

}  // namespace sparkpilot
