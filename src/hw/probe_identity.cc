#include <algorithm>
#include <array>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

// Firmware texts whose maker filled in nothing.
bool is_placeholder(std::string_view text) {
  const std::string value = lower(text);
  static constexpr std::array<std::string_view, 11> kNothing{"to be filled by o.e.m.",
                                                             "default string",
                                                             "not specified",
                                                             "not defined",
                                                             "invalid",
                                                             "none",
                                                             "unknown",
                                                             "system manufacturer",
                                                             "system product name",
                                                             "n/a",
                                                             "0"};
  return std::ranges::find(kNothing, value) != kNothing.end();
}

std::string dmi(Source& source, const char* name) {
  std::string value = read_plain(source, std::string("/sys/class/dmi/id/") + name);
  return is_placeholder(value) ? std::string() : value;
}

std::string device_tree_model(Source& source) {
  for (const char* path : {"/proc/device-tree/model", "/sys/firmware/devicetree/base/model"}) {
    if (std::string model = read_plain(source, path); !model.empty()) return model;
  }
  return {};
}

std::string operating_system(Source& source) {
  std::string text = read_text(source, "/etc/os-release", 64 << 10);
  if (text.empty()) text = read_text(source, "/usr/lib/os-release", 64 << 10);
  const std::string pretty = setting(text, "PRETTY_NAME");
  return pretty.empty() ? setting(text, "NAME") : pretty;
}

// Updates append to the file: the last line of a key is the current one.
std::optional<std::string> dgx_os(Source& source) {
  const std::string release = read_text(source, "/etc/dgx-release", 64 << 10);
  for (const char* key : {"DGX_OTA_VERSION", "DGX_SWBUILD_VERSION"}) {
    if (std::string version = setting(release, key); !version.empty()) return version;
  }
  return std::nullopt;
}

std::optional<std::string> container(Source& source) {
  if (source.variable("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  if (exists(source, "/run/.containerenv")) return "podman";
  if (exists(source, "/.dockerenv")) return "docker";
  if (exists(source, "/.singularity.d")) return "apptainer";
  for (const std::string& name :
       {plain(source.variable("container").value_or("")), read_plain(source, "/run/systemd/container")}) {
    if (name == "wsl") continue;  // handled separately, see wsl()
    if (!name.empty()) return name == "oci" ? "container" : name;
  }
  const std::string cgroup = read_text(source, "/proc/1/cgroup", 64 << 10);
  for (const auto& [mark, name] :
       {std::pair{"kubepods", "kubernetes"}, std::pair{"/docker", "docker"}, std::pair{"libpod", "podman"},
        std::pair{"/lxc", "lxc"}, std::pair{"containerd", "container"}}) {
    if (contains(cgroup, mark)) return name;
  }
  return std::nullopt;
}

// WSL 1 has no Linux kernel: it reports version 4.4, made by Microsoft. WSL 2's kernel may be the user's own.
std::optional<int> wsl(Source& source, const std::string& kernel) {
  const std::string name = lower(kernel);
  if (contains(name, "wsl2")) return 2;
  const bool marked =
      exists(source, "/proc/sys/fs/binfmt_misc/WSLInterop") || source.variable("WSL_DISTRO_NAME").has_value();
  if (contains(name, "microsoft")) return contains(name, "-standard") || exists(source, "/dev/dxg") ? 2 : 1;
  return marked ? std::optional(2) : std::nullopt;
}

// openpilot's own test is /TICI; the device tree names the kind: "comma tici".
std::optional<std::string> comma_device(Source& source, const std::string& model) {
  constexpr std::string_view kMaker = "comma ";
  if (source.architecture() == "x86_64") return std::nullopt;
  if (model.substr(0, kMaker.size()) == kMaker) return model.substr(kMaker.size());
  if (exists(source, "/TICI") || exists(source, "/AGNOS")) return "unknown";
  return std::nullopt;
}

}  // namespace

Identity probe_identity(Source& source) {
  Identity out;
  out.vendor = dmi(source, "sys_vendor");
  out.product = dmi(source, "product_name");
  out.product_version = dmi(source, "product_version");
  out.family = dmi(source, "product_family");
  out.board = dmi(source, "board_name");
  out.firmware = dmi(source, "bios_version");
  out.device_tree = device_tree_model(source);
  out.operating_system = operating_system(source);
  out.kernel = read_plain(source, "/proc/sys/kernel/osrelease");
  out.dgx_os = dgx_os(source);
  out.container = container(source);
  out.wsl = wsl(source, out.kernel);
  out.comma_device = comma_device(source, out.device_tree);
  return out;
}

}  // namespace sparkpilot
