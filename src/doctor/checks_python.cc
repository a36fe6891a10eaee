// Python packages that compute on the GPU, as far as their files show. `sparkpilot stack audit` examines the GPU code
// in them.
#include <algorithm>
#include <sstream>

#include "doctor/check.h"
#include "doctor/versions.h"

namespace sparkpilot::doctor {
namespace {

struct Package {
  std::string folder = {};   // site-packages
  std::string version = {};  // from its metadata
};

// The package folders of the active environment, the user and the system.
std::vector<std::string> package_folders(Source& source) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& prefix, const char* name) {
    for (const std::string& python : source.list(prefix + "/lib")) {
      if (python.starts_with("python3")) folders.push_back(fmt::format("{}/lib/{}/{}", prefix, python, name));
    }
  };
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const auto prefix = source.variable(variable); prefix && !prefix->empty()) add(*prefix, "site-packages");
  }
  // The python3 that comes first, as containers have it without another variable.
  std::istringstream programs(source.variable("PATH").value_or(""));
  for (std::string folder; std::getline(programs, folder, ':');) {
    constexpr std::string_view kBin = "/bin";
    if (!folder.ends_with(kBin) || source.access(folder + "/python3") == Access::absent) continue;
    add(folder.substr(0, folder.size() - kBin.size()), "site-packages");
    break;
  }
  if (const auto home = source.variable("HOME"); home && !home->empty()) add(*home + "/.local", "site-packages");
  add("/usr/local", "dist-packages");
  folders.emplace_back("/usr/lib/python3/dist-packages");
  return folders;
}

// Finds a folder such as "torch-2.9.1+cu130.dist-info"; Python takes the first environment that has it.
std::optional<Package> find_package(Source& source, const std::string& name) {
  for (const std::string& folder : package_folders(source)) {
    for (const std::string& entry : source.list(folder)) {
      constexpr std::string_view kEnd = ".dist-info";
      if (!entry.starts_with(name + "-") || !entry.ends_with(kEnd)) continue;
      return Package{folder, entry.substr(name.size() + 1, entry.size() - name.size() - 1 - kEnd.size())};
    }
  }
  return std::nullopt;
}

bool nothing(const Patient& patient, Says& says, const char* name, std::optional<Package>& package) {
  if (!highest_capability(patient)) {
    says.skip("no NVIDIA GPU of known capability");
    return true;
  }
  package = find_package(patient.source, name);
  if (!package) says.skip("{} is not installed", name);
  return !package;
}

// From torch/version.py: cuda: Optional[str] = '13.0', or None. Empty if the file does not say.
std::optional<std::string> torch_cuda(Source& source, const Package& torch) {
  const auto text = source.read(torch.folder + "/torch/version.py", 8192);
  const size_t at = text ? text->find("\ncuda") : std::string::npos;
  const size_t equal = at == std::string::npos ? at : text->find('=', at);
  if (equal == std::string::npos) return std::nullopt;
  const size_t begin = text->find_first_not_of(" '\"", equal + 1);
  if (begin == std::string::npos) return std::nullopt;
  return text->substr(begin, text->find_first_of("'\"\n ", begin) - begin);
}

void fix_torch(const Patient& patient, Says& says) {
  fix_with_packages(patient, says, [](const CudaPackages& cuda) {
    return "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/" + cuda.index;
  });
}

void torch_without_cuda(const Patient& patient, Says& says) {
  std::optional<Package> torch;
  if (nothing(patient, says, "torch", torch)) return;
  const auto cuda = torch_cuda(patient.source, *torch);
  if (!cuda) return says.skip("PyTorch {} does not say what it is built with", torch->version);
  if (*cuda == "None") {
    says.bad("PyTorch {} in {} is built without CUDA", torch->version, torch->folder);
    return fix_torch(patient, says);
  }
  says.good("PyTorch {} with CUDA {}", torch->version, *cuda);
}

void torch_old(const Patient& patient, Says& says) {
  std::optional<Package> torch;
  if (nothing(patient, says, "torch", torch)) return;
  const auto cuda = torch_cuda(patient.source, *torch);
  const auto version = cuda ? parse_version(*cuda) : std::nullopt;
  if (!version) return says.skip("PyTorch {} does not say which CUDA it is built with", torch->version);
  const ComputeCapability capability = *highest_capability(patient);
  const std::optional<ComputeCapability>& serves = patient.machine.driver.cuda;
  if (serves && version->numbers[0] > serves->major) {
    says.bad("PyTorch {} is built with CUDA {}, and the driver serves CUDA {}.{}", torch->version, *cuda, serves->major,
             serves->minor);
    return fix_torch(patient, says);
  }
  if (capability < ComputeCapability{7, 5} && *version >= Version{{13}}) {
    says.bad("PyTorch {} is built with CUDA {}, which has left out compute capability {}.{}", torch->version, *cuda,
             capability.major, capability.minor);
    return says.fix("pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126");
  }
  if (capability >= ComputeCapability{10, 0} && *version < Version{{12, 8}}) {
    says.bad("PyTorch {} is built with CUDA {}, which knows nothing of compute capability {}.{}", torch->version, *cuda,
             capability.major, capability.minor);
    return fix_torch(patient, says);
  }
  says.good("PyTorch {} with CUDA {}", torch->version, *cuda);
}

// The kernels in PyTorch's largest library, a gigabyte or two.
void torch_kernels(const Patient& patient, Says& says) {
  std::optional<Package> torch;
  if (nothing(patient, says, "torch", torch)) return;
  if (!patient.options.here || !patient.options.deep)
    return says.skip("not looked at: sparkpilot doctor --verify does, and stack audit");
  const auto code = gpu_code(patient, torch->folder + "/torch/lib/libtorch_cuda.so");
  if (!code) return says.skip("PyTorch {} has no libtorch_cuda.so that can be read", torch->version);
  if (code->standing == stack::Standing::none) says.bad("PyTorch {} holds no kernel for this GPU", torch->version);
  if (code->standing == stack::Standing::jit) says.bad("PyTorch {} holds PTX alone for this GPU", torch->version);
  if (!says.wrong().empty()) return fix_torch(patient, says);
  says.good("PyTorch {}: {} for this GPU", torch->version, stack::name_of(code->standing));
}

// Triton brings a second ptxas for compute capability 10.0 and newer, and takes that of TRITON_PTXAS_BLACKWELL_PATH
// instead; TRITON_PTXAS_PATH counts for older GPUs only.
void ptxas_blackwell(const Patient& patient, Says& says, const Package& triton, const std::string& own) {
  auto set = patient.source.variable("TRITON_PTXAS_BLACKWELL_PATH");
  if (set && set->empty()) set.reset();
  if (set && patient.source.access(*set) == Access::absent)
    return says.bad("TRITON_PTXAS_BLACKWELL_PATH names {}, which is not there", *set);
  const std::string& used = set ? *set : own;
  const auto code = patient.options.here ? gpu_code(patient, used) : std::nullopt;
  if (code && code->standing != stack::Standing::compiles)
    return says.bad("Triton {} compiles with {}, which does not know this GPU", triton.version, used);
  says.good("Triton {} compiles with {}", triton.version, used);
}

// Triton compiles with its own ptxas, which may be too old for the GPU.
void ptxas(const Patient& patient, Says& says) {
  std::optional<Package> triton;
  if (nothing(patient, says, "triton", triton)) return;
  if (*highest_capability(patient) < ComputeCapability{12, 1}) return says.good("Triton's own ptxas knows this GPU");
  const std::string blackwell = triton->folder + "/triton/backends/nvidia/bin/ptxas-blackwell";
  if (patient.source.access(blackwell) != Access::absent) {
    ptxas_blackwell(patient, says, *triton, blackwell);
    if (!says.wrong().empty()) says.fix("export TRITON_PTXAS_BLACKWELL_PATH=/usr/local/cuda/bin/ptxas");
    return;
  }
  auto set = patient.source.variable("TRITON_PTXAS_PATH");
  if (set && set->empty()) set.reset();
  if (!set) return says.bad("Triton {} compiles with its own ptxas: TRITON_PTXAS_PATH is not set", triton->version);
  if (patient.source.access(*set) == Access::absent)
    return says.bad("TRITON_PTXAS_PATH names {}, which is not there", *set);
  says.good("TRITON_PTXAS_PATH={}", *set);
}

void cutlass(const Patient& patient, Says& says) {
  std::optional<Package> package;
  if (nothing(patient, says, "nvidia_cutlass_dsl", package)) return;
  if (parse_version(package->version) == Version{{4, 5, 0}} &&
      *highest_capability(patient) >= ComputeCapability{12, 0}) {
    return says.bad("nvidia-cutlass-dsl {}", package->version);
  }
  says.good("nvidia-cutlass-dsl {}", package->version);
}

constexpr Check kPythonChecks[] = {
    {{"python.torch_cuda", "PyTorch is built with CUDA", Impact::slow, "It computes on the processor alone.",
      "pip install torch --index-url https://download.pytorch.org/whl/cu130"},
     torch_without_cuda},
    {{"python.torch_old", "PyTorch's CUDA fits the GPU and the driver", Impact::slow,
      "It does not start, or has no kernels for the GPU and fails at the first one: no kernel image is available.",
      "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"},
     torch_old},
    {{"python.torch_kernels", "PyTorch has kernels for the GPU", Impact::slow,
      "Kernels for the GPU's family are as good as its own; with PTX alone every first start compiles for minutes, and "
      "with neither nothing runs.",
      "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"},
     torch_kernels},
    {{"python.ptxas", "Triton compiles for the GPU", Impact::slow,
      "The ptxas inside Triton's wheel may not know compute capability 12.1: kernels fail to compile.",
      "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas; for a Triton that brings ptxas-blackwell "
      "TRITON_PTXAS_BLACKWELL_PATH"},
     ptxas},
    {{"python.cutlass", "CUTLASS's Python package is not one of the known bad versions", Impact::slow,
      "4.5.0 computes garbage in NVFP4 on this GPU; 4.5.1 is correct.", "pip install 'nvidia-cutlass-dsl>=4.5.1'"},
     cutlass},
};

}  // namespace

std::span<const Check> python_checks() { return kPythonChecks; }

}  // namespace sparkpilot::doctor
