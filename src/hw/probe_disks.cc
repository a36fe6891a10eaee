#include <algorithm>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

constexpr size_t kMaxDisks = 32;
constexpr int kMaxLayers = 4;

// Decodes "/mnt/my\040disk" of /proc/mounts.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto code =
        text[i] == '\\' && i + 3 < text.size() ? within(to_integer(text.substr(i + 1, 3), 8), 1, 255) : std::nullopt;
    out += code ? static_cast<char>(*code) : text[i];
    if (code) i += 3;
  }
  return out;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Asking an unreachable server for its free space never returns.
bool is_remote(std::string_view type) {
  return is_one_of(type, {"nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "ceph", "glusterfs", "fuse.sshfs", "drvfs"});
}

bool is_listed(const Disk& disk) {
  // Container runtimes and WSL mount single files and folders here.
  for (const std::string_view folder : {"/etc/", "/dev/", "/usr/lib/"}) {
    if (disk.mount.substr(0, folder.size()) == folder) return false;
  }
  if (disk.mount == "/" || is_remote(disk.filesystem) || is_one_of(disk.filesystem, {"zfs", "virtiofs"})) return true;
  const bool image = is_one_of(disk.filesystem, {"squashfs", "iso9660", "erofs", "devtmpfs"});
  const bool portal = disk.filesystem.substr(0, 5) == "fuse.";
  return disk.device.substr(0, 5) == "/dev/" && !image && !portal;
}

// The disk of a partition or of a device built on partitions: "nvme0n1" for "nvme0n1p2", for "dm-0" through its parts.
std::string disk_of(Source& source, std::string name) {
  for (int layer = 0; layer < kMaxLayers; ++layer) {
    const std::vector<std::string> parts = source.list("/sys/class/block/" + name + "/slaves");
    if (parts.empty()) break;
    name = parts[0];
  }
  const std::string link = source.link("/sys/class/block/" + name).value_or("");
  const size_t slash = link.rfind('/');
  if (slash == std::string::npos) return name;
  const std::string parent(base_name(std::string_view(link).substr(0, slash)));
  return source.read("/sys/class/block/" + parent + "/queue/rotational", 16) ? parent : name;
}

void examine_device(Source& source, Disk& disk) {
  std::string name(base_name(disk.device));
  if (disk.device.substr(0, 12) == "/dev/mapper/") name = base_name(source.link(disk.device).value_or(""));
  if (disk.device.substr(0, 5) != "/dev/" || name.empty()) return;
  const std::string folder = "/sys/class/block/" + disk_of(source, name);
  const auto rotational = read_integer(source, folder + "/queue/rotational");
  if (rotational && (*rotational == 0 || *rotational == 1)) disk.rotational = *rotational == 1;
  disk.model = read_plain(source, folder + "/device/model");
}

}  // namespace

std::vector<Disk> probe_disks(Source& source) {
  const std::string mounts = read_text(source, "/proc/mounts");
  std::vector<Disk> disks;
  for (std::string_view left = mounts; const auto line = next_line(left);) {
    const auto fields = words(*line, 3);
    if (fields.size() < 3) continue;
    Disk disk{plain(unescape(fields[1])), plain(unescape(fields[0])), plain(fields[2])};
    if (disk.mount.substr(0, 1) != "/" || !is_listed(disk)) continue;
    // If mounted in several places, the shortest path is the one a user expects.
    const auto same = std::find_if(disks.begin(), disks.end(), [&](const Disk& other) {
      return other.mount == disk.mount || (other.device == disk.device && disk.device.substr(0, 5) == "/dev/");
    });
    if (same == disks.end()) {
      if (disks.size() < kMaxDisks) disks.push_back(std::move(disk));
    } else if (same->mount == disk.mount || disk.mount.size() < same->mount.size()) {
      *same = std::move(disk);
    }
  }
  for (Disk& disk : disks) {
    examine_device(source, disk);
    if (is_remote(disk.filesystem)) continue;
    if (const auto space = source.space(disk.mount); space && space->total_bytes > 0) {
      disk.total = space->total_bytes;
      if (space->free_bytes >= 0 && space->free_bytes <= space->total_bytes) disk.free = space->free_bytes;
    }
  }
  return disks;
}

}  // namespace sparkpilot
