// The disks of models, routes and results.
#include <algorithm>

#include "doctor/check.h"

namespace sparkpilot::doctor {
namespace {

// The disk of a path: the one with the longest mount point above it.
const Disk* disk_of(const Patient& patient, const std::string& path) {
  const Disk* best = nullptr;
  for (const Disk& disk : patient.machine.disks) {
    const bool above = disk.mount == "/" || path == disk.mount || path.starts_with(disk.mount + "/");
    if (above && (!best || disk.mount.size() > best->mount.size())) best = &disk;
  }
  return best;
}

// The folder for datasets, else the home folder, else the root.
std::string work_folder(const Patient& patient) {
  if (!patient.options.data.empty()) return patient.options.data.string();
  return patient.source.variable("HOME").value_or("/");
}

void space(const Patient& patient, Says& says) {
  constexpr int64_t kMinuteOfRoute = int64_t{100} << 20;  // three cameras and a log
  const std::string folder = work_folder(patient);
  const Disk* disk = disk_of(patient, folder);
  std::optional<Space> space = patient.source.space(folder);
  if (!space && disk && disk->total && disk->free) space = Space{*disk->total, *disk->free};
  if (!space) return says.skip("the system does not say");
  if (space->free_bytes < 100 * kMinuteOfRoute) {
    return says.bad("{} are free for {}: {} minutes of routes", human_bytes(space->free_bytes), folder,
                    space->free_bytes / kMinuteOfRoute);
  }
  says.good("{} are free for {}", human_bytes(space->free_bytes), folder);
}

void slow_disk(const Patient& patient, Says& says) {
  const std::string folder = work_folder(patient);
  const Disk* disk = disk_of(patient, folder);
  if (!disk) return says.skip("the system does not say");
  for (const char* network : {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"}) {
    if (disk->filesystem == network) return says.bad("{} lies on the network ({})", folder, disk->filesystem);
  }
  // A virtual machine's disk claims to be rotating, whatever is behind it.
  const bool is_virtual = disk->device.starts_with("/dev/vd") || disk->device.starts_with("/dev/xvd") ||
                          disk->model.find("Virtual") != std::string::npos ||
                          disk->model.find("QEMU") != std::string::npos;
  if (is_virtual) return says.skip("{} is a virtual disk", disk->device);
  if (disk->rotational == true) return says.bad("{} lies on a spinning disk ({})", folder, disk->device);
  if (!disk->rotational) return says.skip("the system does not say");
  says.good("{} on {}{}", folder, disk->device, disk->model.empty() ? "" : " (" + disk->model + ")");
}

// Three cameras and a log of a minute are 100 MB; training reads many times faster than real time.
void speed(const Patient& patient, Says& says) {
  constexpr double kMin = 200e6;
  if (!patient.options.disk_bytes_per_second) return says.skip("not measured: sparkpilot doctor --load 2 does");
  const double speed = *patient.options.disk_bytes_per_second;
  if (speed < kMin) return says.bad("{} is read at {:.0f} MB/s", work_folder(patient), speed * 1e-6);
  says.good("{} is read at {:.0f} MB/s", work_folder(patient), speed * 1e-6);
}

void home(const Patient& patient, Says& says) {
  const auto home = patient.source.variable("HOME");
  if (!home || home->empty()) return says.skip("HOME is not set");
  const Access access = patient.source.access(*home);
  if (access == Access::absent) return says.bad("the home folder {} is not there", *home);
  if (access != Access::read_write) return says.bad("nothing can be written to the home folder {}", *home);
  says.good("{}", *home);
}

// A Git LFS pointer ("version https://git-lfs.github.com/spec/v1") in place of a model.
void pointers(const Patient& patient, Says& says) {
  constexpr size_t kMax = 200;
  if (patient.options.models.empty()) return says.skip("no folder of models was named (--models)");
  std::string folder = patient.options.models.string();
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  size_t models = 0;
  std::string some;
  size_t pointers = 0;
  for (const std::string& name : patient.source.list(folder)) {
    if (!name.ends_with(".onnx") || models >= kMax) continue;
    ++models;
    const auto head = patient.source.read(fmt::format("{}/{}", folder, name), 64);
    if (!head || !head->starts_with("version https://git-lfs.github.com/spec/")) continue;
    if (++pointers <= 3) some += (some.empty() ? "" : ", ") + name;
  }
  if (pointers > 0) {
    says.bad("{} of {} models in {} are git-lfs pointers: {}{}", pointers, models, folder, some,
             pointers > 3 ? " ..." : "");
  } else if (models == 0) {
    says.skip("no models in {}", folder);
  } else {
    says.good("{} models in {}", models, folder);
  }
}

constexpr Check kDiskChecks[] = {
    {{"disk.space", "There is room for routes", Impact::slow,
      "A minute of a route takes about 100 MB, and results as much again.",
      "name a folder on a larger disk, or remove old files: du -xh --max-depth=2 ~ | sort -h | tail"},
     space},
    {{"disk.kind", "Routes lie on a fast disk", Impact::slow,
      "Reading video for several models at once waits for the disk.", "copy the routes to an SSD of this machine"},
     slow_disk},
    {{"disk.speed", "The disk is read fast enough", Impact::slow,
      "Below 200 MB/s training waits for video, and several models at once do.",
      "copy the routes to an SSD of this machine"},
     speed},
    {{"disk.home", "The home folder can be written", Impact::cosmetic, "Settings cannot be kept.",
      "set HOME or XDG_CONFIG_HOME to a folder that can be written"},
     home},
    {{"models.lfs_pointers", "Model files hold models", Impact::fatal,
      "A checkout without git-lfs holds a few lines of text instead of each model.",
      "in openpilot's folder: git lfs install && git lfs pull"},
     pointers},
};

}  // namespace

std::span<const Check> disk_checks() { return kDiskChecks; }

}  // namespace sparkpilot::doctor
