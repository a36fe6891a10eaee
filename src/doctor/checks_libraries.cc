// NVIDIA's libraries that driving models use: installed, and new enough for the GPU. `sparkpilot stack audit` examines
// their contents and Python's environments.
#include <array>

#include "doctor/check.h"
#include "doctor/libraries.h"

namespace sparkpilot::doctor {
namespace {

std::optional<FoundLibrary> find(const Patient& patient, const std::string& stem) {
  const auto folders = library_folders(patient.source, patient.machine.cpu.architecture);
  return find_library(patient.source, folders, stem);
}

bool no_gpu(const Patient& patient, Says& says) {
  if (highest_capability(patient)) return false;
  says.skip("no NVIDIA GPU of known capability");
  return true;
}

struct Least {
  ComputeCapability from;
  Version version;
};

constexpr std::array kWanted = {std::pair{"cuBLASLt", "libcublasLt"}, std::pair{"cuDNN", "libcudnn"},
                                std::pair{"cuSPARSELt", "libcusparseLt"}};

void missing(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  std::string names;
  for (const auto& [name, stem] : kWanted) {
    if (!find(patient, stem)) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  if (names.empty()) return says.good("cuBLASLt, cuDNN and cuSPARSELt are there");
  says.bad("not found where the loader looks: {}", names);
  fix_with_packages(patient, says, [](const CudaPackages& cuda) {
    return fmt::format(
        "what is missing of: sudo apt install libcublas-{} cudnn9-cuda-{} libcusparselt0-cuda-{} (from NVIDIA's "
        "repository)",
        cuda.version, cuda.major, cuda.major);
  });
}

void damaged(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  int looked = 0;
  for (const auto& [name, stem] : kWanted) {
    const std::optional<FoundLibrary> found = find(patient, stem);
    const std::optional<std::string> head = found ? patient.source.read(found->path, 4) : std::nullopt;
    if (!head) continue;
    ++looked;
    if (*head != "\177ELF") says.bad("{} is no library: it does not begin as an ELF file does", found->path);
  }
  if (!says.wrong().empty()) return;
  looked > 0 ? says.good("what was found are libraries") : says.skip("none of them was found");
}

// Checks for at least the version that the GPU needs.
template <size_t N>
void expect(const Patient& patient, Says& says, const std::string& stem, const std::array<Least, N>& least,
            std::string (*command)(const CudaPackages&) = nullptr) {
  if (no_gpu(patient, says)) return;
  const std::optional<FoundLibrary> found = find(patient, stem);
  if (!found) return says.skip("{} is not found", stem);
  if (!found->version || found->version->numbers.size() < 2)
    return says.skip("{} does not say its version", found->path);
  const ComputeCapability capability = *highest_capability(patient);
  for (const Least& need : least) {
    if (capability < need.from) continue;
    if (*found->version < need.version) {
      says.bad("{} {}, and compute capability {}.{} needs {} or newer ({})", stem, found->version->str(),
               capability.major, capability.minor, need.version.str(), found->path);
      if (command) fix_with_packages(patient, says, command);
      return;
    }
    break;
  }
  says.good("{}", found->path);
}

void cublas(const Patient& patient, Says& says) {
  static const std::array kMin = {Least{{12, 1}, {{12, 9}}}, Least{{10, 0}, {{12, 8}}}, Least{{8, 9}, {{11, 8}}}};
  expect(patient, says, "libcublasLt", kMin,
         [](const CudaPackages& cuda) { return "sudo apt install libcublas-" + cuda.version; });
}

void cudnn(const Patient& patient, Says& says) {
  static const std::array kMin = {Least{{10, 0}, {{9, 7}}}, Least{{8, 9}, {{8, 6}}}};
  expect(patient, says, "libcudnn", kMin,
         [](const CudaPackages& cuda) { return "sudo apt install cudnn9-cuda-" + cuda.major; });
}

void cudnn_slow(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  const std::optional<FoundLibrary> found = find(patient, "libcudnn");
  if (!found || !found->version || found->version->numbers.size() < 3) return says.skip("no cuDNN of known version");
  const bool bad = *found->version >= Version{{9, 18, 1}} && *found->version < Version{{9, 18, 2}};
  if (bad && *highest_capability(patient) >= ComputeCapability{12, 0}) {
    says.bad("cuDNN {}, which compiles LayerNorm's plans slowly on this GPU", found->version->str());
    return fix_with_packages(patient, says, [](const CudaPackages& cuda) {
      return "sudo apt install --only-upgrade cudnn9-cuda-" + cuda.major;
    });
  }
  says.good("cuDNN {}", found->version->str());
}

void cusparselt(const Patient& patient, Says& says) {
  static const std::array kMin = {Least{{12, 1}, {{0, 8}}}, Least{{10, 0}, {{0, 7}}}};
  expect(patient, says, "libcusparseLt", kMin, [](const CudaPackages& cuda) {
    return fmt::format("sudo apt install libcusparselt0-cuda-{} (from NVIDIA's repository)", cuda.major);
  });
}

void nccl(const Patient& patient, Says& says) {
  static const std::array kMin = {Least{{12, 1}, {{2, 28, 9}}}, Least{{10, 0}, {{2, 25}}}};
  expect(patient, says, "libnccl", kMin);
}

// A Spark supports only the compatibility mode: nothing to fix.
void gds(const Patient& patient, Says& says) {
  if (no_gpu(patient, says)) return;
  const bool library = find(patient, "libcufile").has_value();
  const bool module = patient.source.read("/proc/driver/nvidia-fs/version", 4096).has_value();
  if (!library) return says.skip("cuFile is not installed");
  if (module) return says.good("GPUDirect Storage with its kernel module");
  if (is_dgx_spark(patient.machine)) return says.good("cuFile in its compatibility mode, all that a DGX Spark offers");
  says.bad(
      "cuFile is installed, the kernel module nvidia-fs is not loaded: its compatibility mode copies through memory");
}

constexpr Check kLibraryChecks[] = {
    {{"library.missing", "cuBLASLt, cuDNN and cuSPARSELt are installed", Impact::cosmetic,
      "Matrix products in fp8 and NVFP4, convolutions in half precision and 2:4 sparse products come from them. Python "
      "environments may hold their own (sparkpilot stack audit). sparkpilot itself needs none of them.",
      "what is missing, for the driver's CUDA, with 13: sudo apt install libcublas-13-0 cudnn9-cuda-13 "
      "libcusparselt0-cuda-13 (from NVIDIA's repository)"},
     missing},
    {{"library.damaged", "NVIDIA's libraries are intact", Impact::fatal, "Programs that load them do not start.",
      "sudo apt install --reinstall the package that `dpkg -S` names for the file"},
     damaged},
    {{"library.cublaslt", "cuBLASLt is new enough", Impact::slow, "An older one has no kernels for the GPU.",
      "for the driver's CUDA, with 13: sudo apt install libcublas-13-0"},
     cublas},
    {{"library.cudnn", "cuDNN is new enough", Impact::slow, "An older one has no kernels for the GPU.",
      "for the driver's CUDA, with 13: sudo apt install cudnn9-cuda-13"},
     cudnn},
    {{"library.cudnn_layernorm", "cuDNN is not one of the known slow versions", Impact::slow,
      "A model's first run takes seconds to minutes longer.",
      "for the driver's CUDA, with 13: sudo apt install --only-upgrade cudnn9-cuda-13"},
     cudnn_slow},
    {{"library.cusparselt", "cuSPARSELt is new enough", Impact::slow, "0.8.0 is the first for compute capability 12.1.",
      "for the driver's CUDA, with 13: sudo apt install libcusparselt0-cuda-13 (from NVIDIA's repository)"},
     cusparselt},
    {{"library.nccl", "NCCL is new enough", Impact::slow,
      "Several GPUs or two Sparks exchange gradients through it; 2.28.9 is the first that is built for compute "
      "capability 12.1.",
      "sudo apt install --only-upgrade libnccl2"},
     nccl},
    {{"library.gds", "GPUDirect Storage has its kernel module", Impact::cosmetic,
      "Datasets are read through the processor's memory; the processor has more to do.", "sudo apt install nvidia-fs"},
     gds},
};

}  // namespace

std::span<const Check> library_checks() { return kLibraryChecks; }

}  // namespace sparkpilot::doctor
