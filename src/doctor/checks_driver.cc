// The NVIDIA driver: installed, loaded, of a single version, new enough, answering.
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "doctor/check.h"
#include "doctor/versions.h"
#include "hw/parse_text.h"

namespace sparkpilot::doctor {
namespace {

using State = GpuDriverAnswers::State;
constexpr int kNotLoaded = 9, kNoLibrary = 12, kMismatch = 18;  // nvmlReturn_t
constexpr int kStub = 34, kNoDevice = 100;                      // CUresult
constexpr int kNewestBranch = 580;                              // knows every GPU of the table in too_old()

bool nothing_to_ask(const Patient& patient, Says& says) {
  if (has_nvidia(patient)) return false;
  says.skip("no NVIDIA GPU");
  return true;
}

std::string driver_version(const Patient& patient) {
  const Driver& driver = patient.machine.driver;
  return driver.version.value_or(driver.kernel_version.value_or("of unknown version"));
}

// How to get this driver or a newer one: under WSL and in a container it is not the system's own to install.
std::string driver_remedy(const Patient& patient, int version) {
  const Identity& identity = patient.machine.identity;
  const bool spark = is_dgx_spark(patient.machine);
  if (identity.wsl) return "update NVIDIA's driver in Windows, then there: wsl --shutdown";
  if (identity.container)
    return spark ? "on the host: update DGX OS in DGX Dashboard"
                 : fmt::format("on the host: install NVIDIA's driver {} or newer, then start the container again",
                               version);
  if (spark) return "update DGX OS in DGX Dashboard";
  // The open kernel modules begin with Turing, whose PCI ids begin at 1e00; 580 is the last branch for what is older.
  const std::optional<std::string>& id = patient.machine.gpus.front().pci_id;
  const bool open = !id || id->size() < 9 || id->substr(5) >= "1e00";
  if (identity.operating_system.starts_with("Ubuntu"))
    return fmt::format("sudo apt install nvidia-driver-580{} && sudo reboot", open ? "-open" : "");
  if (identity.operating_system.starts_with("Debian")) {
    return fmt::format(
        "sudo apt install nvidia-driver (from non-free) if that is {} or newer, else nvidia-open from NVIDIA's own "
        "repository; then sudo reboot",
        version);
  }
  return fmt::format("install NVIDIA's driver {} or newer as this system's makers describe, then sudo reboot", version);
}

void missing(const Patient& patient, Says& says) {
  if (nothing_to_ask(patient, says)) return;
  const std::optional<std::string>& in_kernel = patient.machine.driver.kernel_version;
  const Identity& identity = patient.machine.identity;
  const bool told_by_container = in_kernel && identity.container;  // its own check reports it
  if (patient.nvml.state == State::absent && patient.cuda.state == State::absent && !told_by_container) {
    if (in_kernel) says.bad("driver {} is in the kernel, and its libraries are not there", *in_kernel);
    else
      says.bad("{} is there, and neither a driver in the kernel nor its libraries",
               gpu_name(patient.machine.gpus.front()));
    if (identity.container)
      says.fix("start the container with `--gpus all` (Docker, Podman with the NVIDIA Container Toolkit on the host)");
    else if (in_kernel && !identity.wsl)
      says.fix(
          fmt::format("install the libraries of driver {0}; on Ubuntu and a DGX Spark: sudo apt install "
                      "libnvidia-compute-{1} nvidia-utils-{1}",
                      *in_kernel, in_kernel->substr(0, in_kernel->find('.'))));
    else if (is_dgx_spark(patient.machine))
      says.fix(
          "sudo apt install --reinstall nvidia-driver-580-open && sudo reboot; if that fails, restore DGX OS, which "
          "erases the disk");
    else says.fix(driver_remedy(patient, kNewestBranch));
  } else {
    says.good("driver {}", driver_version(patient));
  }
}

void not_loaded(const Patient& patient, Says& says) {
  if (nothing_to_ask(patient, says)) return;
  if (patient.nvml.state == State::failed && (patient.nvml.error == kNotLoaded || patient.nvml.error == kNoLibrary)) {
    says.bad("the driver's libraries are installed and say {}", nvml_error_name(patient.nvml.error));
  } else if (patient.nvml.state == State::absent) {
    says.skip("no driver");
  } else {
    says.good("loaded");
  }
}

// NVML itself reports this: it applies even if no GPU is seen in any other way, as under WSL.
bool versions_differ(const Patient& patient) {
  return patient.nvml.state == State::failed && patient.nvml.error == kMismatch;
}

void mismatch(const Patient& patient, Says& says) {
  if (!versions_differ(patient) && nothing_to_ask(patient, says)) return;
  const Driver& driver = patient.machine.driver;
  if (versions_differ(patient)) {
    says.bad("the kernel runs driver {}, the libraries are of another ({})", driver.kernel_version.value_or("?"),
             nvml_error_name(kMismatch));
  } else if (driver.version && driver.kernel_version && *driver.version != *driver.kernel_version) {
    says.bad("the kernel runs driver {}, the libraries are of {}", *driver.kernel_version, *driver.version);
  } else if (driver.version && driver.kernel_version) {
    says.good("kernel and libraries are of {}", *driver.version);
  } else {
    says.skip("not both versions are known");
  }
}

void hangs(const Patient& patient, Says& says) {
  for (const auto& [library, answers] : {std::pair{"NVML", &patient.nvml}, std::pair{"libcuda", &patient.cuda}}) {
    if (answers->state == State::timed_out) says.bad("{}: {}", library, answers->reason);
  }
  if (!says.wrong().empty()) return;
  if (patient.nvml.state == State::absent && patient.cuda.state == State::absent) return says.skip("no driver");
  says.good("it answers in time");
}

void broken(const Patient& patient, Says& says) {
  for (const auto& [library, answers] : {std::pair{"NVML", &patient.nvml}, std::pair{"libcuda", &patient.cuda}}) {
    if (answers->state == State::unusable) says.bad("{} cannot be loaded: {}", library, answers->reason);
  }
  if (!says.wrong().empty()) return;
  const bool nvml = patient.nvml.state != State::absent, cuda = patient.cuda.state != State::absent;
  if (!nvml && !cuda) return says.skip("no driver");
  says.good("{}", nvml && cuda ? "NVML and libcuda load" : nvml ? "NVML loads" : "libcuda loads; there is no NVML");
}

void no_device(const Patient& patient, Says& says) {
  if (patient.nvml.state == State::absent && patient.cuda.state == State::absent) return says.skip("no driver");
  const bool silent = patient.nvml.state == State::timed_out || patient.cuda.state == State::timed_out;
  if (patient.machine.gpus.empty() && (silent || versions_differ(patient))) {
    return says.skip("the driver does not say which GPUs there are");
  }
  if (patient.machine.gpus.empty())
    return says.bad("a driver {} is installed, and there is no GPU for it", driver_version(patient));
  says.good("{} GPU{}", patient.machine.gpus.size(), patient.machine.gpus.size() == 1 ? "" : "s");
}

// Whether libcuda sees no GPU because CUDA_VISIBLE_DEVICES names none. The list ends at the first entry that is no GPU,
// so with a GPU's number in front the variable is not the reason.
bool hides_every_gpu(const Patient& patient) {
  const std::optional<std::string> visible = patient.source.variable("CUDA_VISIBLE_DEVICES");
  const bool none = patient.cuda.state == State::failed
                        ? patient.cuda.error == kNoDevice
                        : patient.cuda.state == State::answered && patient.cuda.devices.empty();
  if (!visible || !none) return false;
  const std::optional<int64_t> first = to_integer(trim(visible->substr(0, visible->find(','))));
  return !first || *first < 0 || *first >= std::ssize(patient.machine.gpus);
}

void cuda_fails(const Patient& patient, Says& says) {
  if (nothing_to_ask(patient, says)) return;
  if (hides_every_gpu(patient)) return says.skip("CUDA_VISIBLE_DEVICES hides every GPU");
  if (patient.cuda.state == State::failed && patient.source.access("/dev/nvidiactl") == Access::denied)
    return says.skip("this user may not open /dev/nvidiactl");
  if (patient.cuda.state == State::absent && patient.nvml.state == State::answered) {
    says.bad("NVML is there and libcuda.so.1 is not");
    says.fix("install the driver's computing part: sudo apt install libnvidia-compute-<driver version>");
  } else if (patient.cuda.state == State::failed && patient.cuda.error == kStub) {
    says.bad("the libcuda that is found is the toolkit's stub, made for linking only ({})", patient.cuda.library);
    says.fix("take the folder \"stubs\" out of LD_LIBRARY_PATH and /etc/ld.so.conf.d");
  } else if (patient.cuda.state == State::failed && patient.cuda.error != kNoDevice) {
    says.bad("cuInit says {}", cuda_error_name(patient.cuda.error));
  } else if (patient.cuda.state == State::failed && patient.nvml.state == State::answered) {
    says.bad("NVML sees a GPU, cuInit says {}", cuda_error_name(patient.cuda.error));
  } else if (patient.cuda.state == State::answered) {
    says.good("libcuda sees {} GPU{}", patient.cuda.devices.size(), patient.cuda.devices.size() == 1 ? "" : "s");
  } else {
    says.skip("libcuda does not answer");
  }
}

// The first driver branch that supports a capability, from NVIDIA's release notes.
void too_old(const Patient& patient, Says& says) {
  struct First {
    ComputeCapability capability;
    int driver;
  };
  constexpr std::array kFirst = {First{{12, 1}, 580}, First{{10, 0}, 570}, First{{9, 0}, 525},
                                 First{{8, 9}, 520},  First{{8, 6}, 455},  First{{8, 0}, 450}};
  if (nothing_to_ask(patient, says)) return;
  const std::optional<Version> version = parse_version(driver_version(patient));
  const std::optional<ComputeCapability> capability = highest_capability(patient);
  if (!version || !capability) return says.skip("driver or GPU not known");
  for (const First& first : kFirst) {
    if (*capability < first.capability) continue;
    if (version->numbers[0] < first.driver) {
      says.bad("driver {}, and compute capability {}.{} needs {} or newer", driver_version(patient), capability->major,
               capability->minor, first.driver);
      return says.fix(driver_remedy(patient, first.driver));
    }
    break;
  }
  says.good("driver {} serves compute capability {}.{}", driver_version(patient), capability->major, capability->minor);
}

// The version in cuda.h: 13020 is 13.2. Its line is in the first 15 kB of 13.0's.
std::optional<Version> toolkit_of_header(const Patient& patient) {
  const std::string text = patient.source.read("/usr/local/cuda/include/cuda.h", 64 << 10).value_or("");
  constexpr std::string_view kDefine = "#define CUDA_VERSION ";
  const size_t at = text.find(kDefine);
  if (at == std::string::npos) return std::nullopt;
  const int number = std::atoi(text.substr(at + kDefine.size(), 8).c_str());
  if (number < 1000) return std::nullopt;
  return Version{.numbers = {number / 1000, number % 1000 / 10}};
}

// The version of CUDA in /usr/local/cuda. Packages of single parts of it bring no version.json.
std::optional<Version> toolkit(const Patient& patient) {
  const std::optional<std::string> text = patient.source.read("/usr/local/cuda/version.json");
  if (!text) return toolkit_of_header(patient);
  const nlohmann::ordered_json document = parse_json_or_discard(*text);
  if (!document.is_object() || !document.contains("cuda") || !document["cuda"].is_object()) return std::nullopt;
  const nlohmann::ordered_json version = document["cuda"].value("version", nlohmann::ordered_json());
  return version.is_string() ? parse_version(version.get<std::string>()) : std::nullopt;
}

bool know_both(const Patient& patient, Says& says, std::optional<Version>& tools) {
  tools = toolkit(patient);
  if (!tools || tools->numbers.size() < 2) {
    says.skip("no CUDA toolkit in /usr/local/cuda");
    return false;
  }
  if (!patient.machine.driver.cuda) {
    says.skip("the driver does not say which CUDA it serves");
    return false;
  }
  return true;
}

void toolkit_major(const Patient& patient, Says& says) {
  std::optional<Version> tools;
  if (!know_both(patient, says, tools)) return;
  const ComputeCapability serves = *patient.machine.driver.cuda;
  if (tools->numbers[0] > serves.major) {
    says.bad("the toolkit is CUDA {}, the driver serves CUDA {}.{}", tools->str(), serves.major, serves.minor);
  } else {
    says.good("toolkit CUDA {}, driver CUDA {}.{}", tools->str(), serves.major, serves.minor);
  }
}

void toolkit_minor(const Patient& patient, Says& says) {
  std::optional<Version> tools;
  if (!know_both(patient, says, tools)) return;
  const ComputeCapability serves = *patient.machine.driver.cuda;
  if (tools->numbers[0] == serves.major && tools->numbers[1] > serves.minor) {
    says.bad("the toolkit is CUDA {}, the driver compiles PTX up to CUDA {}.{}", tools->str(), serves.major,
             serves.minor);
  } else {
    says.good("toolkit CUDA {}, driver CUDA {}.{}", tools->str(), serves.major, serves.minor);
  }
}

// The first toolkit that compiles for a capability.
void toolkit_old(const Patient& patient, Says& says) {
  struct First {
    ComputeCapability capability;
    Version toolkit;
  };
  static const std::array kFirst = {First{{12, 1}, {{12, 9}}}, First{{10, 0}, {{12, 8}}}, First{{9, 0}, {{11, 8}}},
                                    First{{8, 9}, {{11, 8}}},  First{{8, 6}, {{11, 1}}},  First{{8, 0}, {{11, 0}}}};
  const std::optional<Version> tools = toolkit(patient);
  if (!tools) return says.skip("no CUDA toolkit in /usr/local/cuda");
  const std::optional<ComputeCapability> capability = highest_capability(patient);
  if (!capability) return says.skip("no NVIDIA GPU of known capability");
  if (*capability < ComputeCapability{7, 5} && *tools >= Version{{13}}) {
    says.bad("the toolkit is CUDA {}, and the last for compute capability {}.{} is 12.9", tools->str(),
             capability->major, capability->minor);
    return says.fix("sudo apt install cuda-toolkit-12-9");
  }
  for (const First& first : kFirst) {
    if (*capability < first.capability) continue;
    if (*tools < first.toolkit) {
      says.bad("the toolkit is CUDA {}, and compute capability {}.{} needs {} or newer", tools->str(),
               capability->major, capability->minor, first.toolkit.str());
      return fix_with_packages(patient, says, [](const CudaPackages& cuda) {
        return fmt::format("sudo apt install cuda-toolkit-{}", cuda.version);
      });
    }
    break;
  }
  says.good("CUDA {} compiles for compute capability {}.{}", tools->str(), capability->major, capability->minor);
}

constexpr Check kDriverChecks[] = {
    {{"driver.missing", "A driver for the GPU is installed", Impact::fatal,
      "Without it no program can use the GPU; everything runs on the processor.",
      "Ubuntu: sudo apt install nvidia-driver-580-open; Debian: nvidia-driver from non-free, or nvidia-open from "
      "NVIDIA's own repository; WSL: NVIDIA's driver in Windows"},
     missing},
    {{"driver.not_loaded", "The driver is loaded in the kernel", Impact::fatal,
      "The libraries talk to the kernel module. After a kernel update it may not have been built, or Secure Boot "
      "refuses it.",
      "sudo modprobe nvidia; where that fails: sudo dkms autoinstall && sudo reboot, and look at `mokutil --sb-state`"},
     not_loaded},
    {{"driver.mismatch", "Kernel module and libraries have the same version", Impact::fatal,
      "An update replaced the libraries while the old module is still loaded: every program fails until both are the "
      "same.",
      "sudo reboot"},
     mismatch},
    {{"driver.hangs", "The driver answers in time", Impact::fatal,
      "A driver that does not answer has usually lost its GPU, or takes many seconds to wake it because nothing keeps "
      "it awake.",
      "sudo systemctl enable --now nvidia-persistenced; wait longer with --wait 10; else sudo reboot"},
     hangs},
    {{"driver.broken", "The driver's libraries can be loaded", Impact::fatal,
      "A library that is truncated, for another machine or without its dependencies stops every program that uses the "
      "GPU.",
      "sudo apt install --reinstall the package that `dpkg -S` names for the file"},
     broken},
    {{"driver.no_device", "The driver has a GPU", Impact::cosmetic,
      "A driver without a GPU does no harm; a GPU that used to be there may be off the bus.",
      "look for the GPU with `lspci -d 10de:`; if it should be there, switch the machine off and on"},
     no_device},
    {{"driver.cuda_fails", "CUDA starts", Impact::fatal,
      "The driver manages the GPU but cannot compute on it: frameworks say that there is no GPU.",
      "sudo modprobe nvidia-uvm; then sudo reboot; `sudo dmesg | grep NVRM` says more"},
     cuda_fails},
    {{"driver.too_old", "The driver is new enough for the GPU", Impact::fatal,
      "An older driver does not know the GPU, or does not use all of its features.",
      "Ubuntu: sudo apt install nvidia-driver-580-open && sudo reboot; Debian: nvidia-driver from non-free, or "
      "nvidia-open from NVIDIA's own repository; WSL: update NVIDIA's driver in Windows, then wsl --shutdown; a "
      "container: its host's driver; on a DGX Spark: update DGX OS in DGX Dashboard"},
     too_old},
    {{"driver.toolkit_major", "The driver supports the toolkit's CUDA", Impact::fatal,
      "Programs built with a toolkit of a newer major version than the driver supports do not start.",
      "install a newer driver, or the toolkit of the driver's major version"},
     toolkit_major},
    {{"driver.toolkit_minor", "The driver compiles the toolkit's PTX", Impact::slow,
      "Code stored as PTX is compiled by the driver at start; PTX of a newer CUDA is refused "
      "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION).",
      "install a newer driver, or build for the GPU's own architecture"},
     toolkit_minor},
    {{"driver.toolkit_old", "The toolkit compiles for the GPU", Impact::slow,
      "Nothing that is built here, such as PyTorch's extensions and Triton's kernels, can be made for this GPU.",
      "sudo apt install cuda-toolkit-13-0; where the driver serves CUDA 12 only: cuda-toolkit-12-8 or so"},
     toolkit_old},
};

}  // namespace

std::span<const Check> driver_checks() { return kDriverChecks; }

}  // namespace sparkpilot::doctor
