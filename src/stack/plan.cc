#include "stack/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/error.h"
#include "stack/verdict.h"

namespace sparkpilot::stack {
namespace {

// What a step requires: family-specific machine code is enough if nobody publishes or can build native code.
enum class Serves { native, family, no_gpu_code, compiles };

struct Step {
  std::string_view id, title, component;  // component is empty if the step only prepares for others
  Serves serves;
  std::string_view least_version;
  std::string_view size, check;
  std::string_view prepares;  // ids of the steps that it prepares for, separated by blanks
};

constexpr std::array kSteps{
    Step{"toolkit", "the CUDA toolkit's compilers", "ptxas", Serves::compiles, "", "about 3 GB on disk",
         "ptxas makes code for the GPU", ""},
    Step{"cublas", "cuBLAS", "cuBLASLt", Serves::family, "", "0.6 GB to download",
         "cuBLASLt holds code for the GPU's family", ""},
    Step{"cufile", "cuFile", "cuFile", Serves::no_gpu_code, "", "2 MB to download", "cuFile is there for Arm64", ""},
    Step{"cudnn", "cuDNN", "cuDNN", Serves::family, "", "0.6 GB to download", "cuDNN holds code for the GPU's family",
         ""},
    Step{"nccl", "NCCL", "NCCL", Serves::family, "", "0.3 GB to download", "NCCL holds code for the GPU's family", ""},
    Step{"cusparselt", "cuSPARSELt 0.8.0 from NVIDIA's local repository", "cuSPARSELt", Serves::family, "0.8.0",
         "0.2 GB to download", "cuSPARSELt 0.8.0 or newer holds code for the GPU's family", ""},
    Step{"tools", "compilers, LLVM and a Python environment to build with", "", Serves::native, "",
         "about 1.5 GB on disk", "its script ends well", " llvm triton pytorch audio vision flash-attention "},
    Step{"sources", "PyTorch's sources with their submodules", "", Serves::native, "", "about 3 GB to download",
         "the sources are at the pinned version", " triton pytorch flash-attention "},
    Step{"llvm", "LLVM as Triton pins it (mlir, llvm, lld; host and NVPTX)", "", Serves::native, "",
         "about 0.3 GB to download, 8 GB on disk while it is built", "its folder of installed files is there",
         " triton "},
    Step{"triton", "Triton", "Triton", Serves::compiles, "", "about 2 GB on disk while it is built",
         "Triton is there for Arm64, with a ptxas that makes code for the GPU", ""},
    Step{"pytorch", "PyTorch 2.9.1 for this GPU", "PyTorch", Serves::native, "2.9.1",
         "about 25 GB on disk while it is built", "PyTorch holds code for this very GPU", ""},
    Step{"audio", "torchaudio 2.9.1 against that PyTorch", "torchaudio", Serves::no_gpu_code, "2.9.1",
         "about 1 GB on disk", "torchaudio is there for Arm64", ""},
    Step{"vision", "torchvision 0.24.1 against that PyTorch", "torchvision", Serves::native, "0.24.1",
         "about 1 GB on disk", "torchvision holds code for this very GPU", ""},
    Step{"flash-attention", "flash-attention from PyTorch's third_party", "flash-attention", Serves::family, "",
         "about 10 GB on disk while it is built", "flash-attention holds code for the GPU's family", ""},
};

// Compares dotted numbers: -1, 0, 1; a part that is not a number counts as 0.
int compare_versions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const auto take = [](std::string_view& text) {
      int value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      text.remove_prefix(std::min(text.find('.'), text.size() - 1) + !text.empty());
      return value;
    };
    const int x = a.empty() ? 0 : take(a), y = b.empty() ? 0 : take(b);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

void expect_spark_like(const NamedGpu& gpu) {
  if (gpu.capability.major == 12 && gpu.machine == "aarch64") return;
  fail("the plan is for compute capability 12.x with an Arm64 processor, such as --gpu gb10; this is {} with {}",
       text_of(gpu.capability), gpu.machine.empty() ? "an unknown processor" : gpu.machine);
}

// How well one library fulfils a step; from kServes on it is enough.
constexpr int kServes = 3;
int rank(const Step& step, Standing standing) {
  switch (standing) {
    case Standing::native: return kServes;
    case Standing::family: return step.serves == Serves::native ? 2 : kServes;
    case Standing::compiles: return step.serves == Serves::compiles ? kServes : 0;
    case Standing::no_gpu_code: return step.serves == Serves::no_gpu_code ? kServes : 0;
    case Standing::jit: return 1;
    case Standing::none:
    case Standing::too_old:
    case Standing::wrong_machine:
    case Standing::unreadable: break;
  }
  return 0;
}

std::string described(const Library& library, const Verdict& verdict) {
  const std::string file = library.path.substr(library.path.find_last_of("/!") + 1);
  return fmt::format("{}{}{}: {}{}", file, library.version.empty() ? "" : " ", library.version,
                     name_of(verdict.standing), verdict.cost.empty() ? "" : ", " + verdict.cost);
}

std::string_view folder_of(const Library& library) {
  return std::string_view(library.path).substr(0, library.path.find_last_of("/!"));
}

// Triton generates its code at run time: what counts is the compiler that comes with it, and that it loads. The ptxas
// of another Python package is the toolkit's only with an nvcc beside it: nothing is built with a ptxas alone.
std::string_view component_to_check(const Library& library, const Audit& audit) {
  if (library.component != "ptxas" || library.package.empty()) return library.component;
  if (component_of_package(library.package) == "Triton") return "Triton";
  const bool nvcc = std::any_of(audit.libraries.begin(), audit.libraries.end(), [&](const Library& other) {
    return other.component == "nvcc" && folder_of(other) == folder_of(library);
  });
  return nvcc ? library.component : std::string_view("ptxas alone");
}

// Of a component's libraries in one place (cuDNN has eight), all with GPU code have to be good enough; of its compilers
// (Triton has one per generation), one. The best place counts, because a machine may keep old environments.
StackCheck check_step(const Step& step, const Audit& audit, const NamedGpu& gpu) {
  StackCheck check{std::string(step.id), false, std::string(step.check), "not found"};
  struct Place {
    int value = 0;
    bool old = false;
    std::string seen;
  };
  std::map<std::string, Place> places;
  for (const Library& library : audit.libraries) {
    if (component_to_check(library, audit) != step.component) continue;
    const Verdict verdict = judge(library, gpu.capability, gpu.machine);
    if (verdict.standing == Standing::no_gpu_code && step.serves != Serves::no_gpu_code) continue;
    const auto [found, first] = places.try_emplace(std::string(folder_of(library)));
    Place& place = found->second;
    const int value = rank(step, verdict.standing);
    const bool counts = step.serves == Serves::compiles ? value > place.value : value < place.value;
    if (!first && !counts) continue;
    place.value = value;
    place.old = !library.version.empty() && compare_versions(library.version, step.least_version) < 0;
    place.seen = described(library, verdict);
    // Natively only what the plan builds is: which version that is stands in versions.sh.
    if (step.serves == Serves::native && value < kServes && compare_versions(library.version, step.least_version) > 0)
      place.seen +=
          fmt::format("; newer than the {} that is built, unless versions.sh names another", step.least_version);
  }
  int best = -1;
  for (const auto& [folder, place] : places) {
    const int value = place.old ? 0 : place.value;
    if (value <= best) continue;
    best = value;
    check.seen = place.seen + (place.old ? fmt::format(", older than {}", step.least_version) : "");
    check.good = !place.old && place.value >= kServes;
  }
  return check;
}

}  // namespace

std::vector<StackCheck> check_stack(const Audit& audit, const NamedGpu& gpu) {
  expect_spark_like(gpu);
  std::vector<StackCheck> checks;
  for (const Step& step : kSteps) {
    if (!step.component.empty()) checks.push_back(check_step(step, audit, gpu));
  }
  return checks;
}

std::vector<PlanStep> plan_stack(const Audit& audit, const NamedGpu& gpu) {
  const std::vector<StackCheck> checks = check_stack(audit, gpu);
  std::map<std::string, std::string> reasons;  // by step
  for (const StackCheck& check : checks) {
    if (!check.good) reasons[check.step] = check.seen;
  }
  // PyTorch's extensions are built for one version of it: a new one makes them obsolete.
  for (const char* extension : {"audio", "vision", "flash-attention"}) {
    if (reasons.contains("pytorch")) reasons.try_emplace(extension, "has to match the PyTorch that is built");
  }
  std::vector<PlanStep> steps;
  for (const Step& step : kSteps) {
    for (const Step& later : kSteps) {
      const bool prepared = step.prepares.find(fmt::format(" {} ", later.id)) != std::string_view::npos;
      if (prepared && reasons.contains(std::string(later.id))) {
        reasons.try_emplace(std::string(step.id), fmt::format("{} needs it", later.id));
      }
    }
    const auto reason = reasons.find(std::string(step.id));
    if (reason == reasons.end()) continue;
    const auto number = static_cast<int>(&step - kSteps.data()) + 1;
    steps.push_back({number, std::string(step.id), std::string(step.title), reason->second, std::string(step.size),
                     std::string(step.check)});
  }
  return steps;
}

}  // namespace sparkpilot::stack
