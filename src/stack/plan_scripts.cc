#include "stack/plan_scripts.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace sparkpilot::stack {
namespace {

constexpr std::string_view kVersions = R"sh(# What the steps install. Versions stand here and nowhere else.
# shellcheck shell=bash disable=SC2016,SC2034  # read by the steps; a path may hold a $
SPARKPILOT=${SPARKPILOT:-{{program}}} # the program that wrote this
STACK_HOME=${STACK_HOME:-$HOME/native-stack}
PYTHON=${PYTHON:-python3}
CUDA_MAJOR=13
CUDA_PACKAGES=13-0
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda-13.0}
CUSPARSELT_VERSION=0.8.0
CUSPARSELT_SHA256=
LLVM_VERSION=20
PYTORCH_TAG=v2.9.1
PYTORCH_COMMIT=
AUDIO_TAG=v2.9.1
AUDIO_COMMIT=
VISION_TAG=v0.24.1
VISION_COMMIT=
# Triton is taken at the commit that PyTorch pins, LLVM at the one that Triton pins.
# Where a sum or a commit is empty, none is published: that of the first download is kept in $STACK_HOME/versions.lock, and
# what comes later has to be the same.
)sh";

constexpr std::string_view kCommon = R"sh(# What the steps share; it is read by them, not run.
# shellcheck shell=bash
set -euo pipefail
steps=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=versions.sh
. "$steps/versions.sh"
python=$STACK_HOME/venv/bin/python
export CUDA_HOME PATH="$CUDA_HOME/bin:$PATH"
mkdir -p "$STACK_HOME/state" "$STACK_HOME/downloads" "$STACK_HOME/wheels"

# begin STEP: a step that ended well is not done again; to repeat it, remove its file in $STACK_HOME/state.
begin() {
  step=$1
  if [ -e "$STACK_HOME/state/$step" ]; then
    echo "== $step: done before"
    exit 0
  fi
  echo "== $step"
}
end() {
  touch "$STACK_HOME/state/$step"
  echo "== $step: done"
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
packages() {
  # One unreachable source among several is no reason to stop; the installation itself is.
  as_root apt-get update || echo "apt-get update failed; trying with the lists that are there" >&2
  as_root apt-get install -y --no-install-recommends "$@"
}

# expect NAME VALUE PINNED: VALUE is what is pinned or, where nothing is, what came the first time.
expect() {
  local lock=$STACK_HOME/versions.lock known=$3
  if [ -z "$known" ] && [ -e "$lock" ]; then known=$(awk -v name="$1" '$1 == name { print $2 }' "$lock"); fi
  if [ -z "$known" ]; then echo "$1 $2" >>"$lock"; return; fi
  if [ "$known" != "$2" ]; then
    echo "$1: expected $known, got $2" >&2
    exit 1
  fi
}

# download URL FILE SHA256
download() {
  local file=$STACK_HOME/downloads/$2 sum
  if [ ! -e "$file" ]; then
    wget --https-only --output-document="$file.part" "$1"
    mv "$file.part" "$file"
  fi
  sum=$(sha256sum "$file")
  expect "$2" "${sum%% *}" "$3"
}

# checkout URL TAG COMMIT FOLDER: a tag's files, with submodules.
checkout() {
  local folder=$STACK_HOME/$4 commit
  if [ ! -d "$folder/.git" ]; then
    rm -rf "$folder.part"
    git clone --branch "$2" --depth 1 "$1" "$folder.part"
    mv "$folder.part" "$folder"
  fi
  commit=$(git -C "$folder" rev-parse HEAD)
  expect "$4@$2" "$commit" "$3"
  git -C "$folder" submodule update --init --recursive --depth 1
}

# checkout_commit URL COMMIT FOLDER
checkout_commit() {
  local folder=$STACK_HOME/$3
  if [ ! -d "$folder/.git" ]; then
    git init --quiet "$folder"
    git -C "$folder" remote add origin "$1"
  fi
  git -C "$folder" fetch --depth 1 origin "$2"
  git -C "$folder" checkout --quiet --force FETCH_HEAD
}

# build_jobs GB: as many compilers at once as there are processors, and as fit into memory with GB each. Where GPU and
# processor share the memory, running out of it freezes the machine.
build_jobs() {
  local processors available jobs
  processors=$(nproc)
  available=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  jobs=$((available / $1))
  if [ "$jobs" -gt "$processors" ]; then jobs=$processors; fi
  if [ "$jobs" -lt 1 ]; then jobs=1; fi
  echo "$jobs"
}

# build_wheel NAME: of the current folder, against what the environment holds; then it is installed.
build_wheel() {
  "$python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$STACK_HOME/wheels" .
  "$python" -m pip install --force-reinstall --no-deps "$STACK_HOME/wheels/$1"-*.whl
}
)sh";

struct Body {
  std::string_view step, text;
};
constexpr std::array kBodies{
    Body{"toolkit", R"sh(packages "cuda-toolkit-$CUDA_PACKAGES"
)sh"},
    Body{"cublas", R"sh(packages "libcublas-dev-$CUDA_PACKAGES"
)sh"},
    Body{
        "cufile",
        R"sh(# The library alone: on unified memory it works in compatibility mode, without the kernel module of nvidia-gds.
packages "libcufile-dev-$CUDA_PACKAGES"
)sh"},
    Body{"cudnn", R"sh(packages "libcudnn9-dev-cuda-$CUDA_MAJOR"
)sh"},
    Body{"nccl", R"sh(packages libnccl2 libnccl-dev
)sh"},
    Body{"cusparselt", R"sh(repository=cusparselt-local-repo-ubuntu2404-$CUSPARSELT_VERSION
file=${repository}_$CUSPARSELT_VERSION-1_arm64.deb
download "https://developer.download.nvidia.com/compute/cusparselt/$CUSPARSELT_VERSION/local_installers/$file" "$file" \
  "$CUSPARSELT_SHA256"
as_root dpkg -i "$STACK_HOME/downloads/$file"
as_root cp "/var/$repository"/cusparselt-*-keyring.gpg /usr/share/keyrings/
packages "libcusparselt0-cuda-$CUDA_MAJOR" "libcusparselt0-dev-cuda-$CUDA_MAJOR"
)sh"},
    Body{
        "tools",
        R"sh(packages build-essential git cmake ninja-build pkg-config python3-dev python3-venv "llvm-$LLVM_VERSION-dev" \
  libopenblas-dev libnuma-dev libjpeg-dev libpng-dev
"$PYTHON" -m venv "$STACK_HOME/venv"
"$python" -m pip install --upgrade pip setuptools wheel cmake ninja
)sh"},
    Body{"sources", R"sh(checkout https://github.com/pytorch/pytorch.git "$PYTORCH_TAG" "$PYTORCH_COMMIT" pytorch
commit=$(cat "$STACK_HOME/pytorch/.ci/docker/ci_commit_pins/triton.txt")
checkout_commit https://github.com/triton-lang/triton.git "$commit" triton
)sh"},
    Body{"llvm", R"sh(commit=$(cat "$STACK_HOME/triton/cmake/llvm-hash.txt")
checkout_commit https://github.com/llvm/llvm-project.git "$commit" llvm-project
# Triton builds its AMD backend in any case, which links LLVM's.
cmake -G Ninja -S "$STACK_HOME/llvm-project/llvm" -B "$STACK_HOME/llvm" -DCMAKE_BUILD_TYPE=Release \
  -DLLVM_ENABLE_PROJECTS="mlir;llvm;lld" -DLLVM_TARGETS_TO_BUILD="host;NVPTX;AMDGPU"
cmake --build "$STACK_HOME/llvm" --parallel "$(build_jobs 2)"
)sh"},
    Body{"triton", R"sh(export LLVM_SYSPATH=$STACK_HOME/llvm
export LLVM_INCLUDE_DIRS=$LLVM_SYSPATH/include LLVM_LIBRARY_DIR=$LLVM_SYSPATH/lib
MAX_JOBS=$(build_jobs 3)
export MAX_JOBS
cd "$STACK_HOME/triton"
"$python" -m pip install --requirement python/requirements.txt
build_wheel triton
)sh"},
    Body{"pytorch",
         R"sh(export USE_CUDA=1 USE_CUDNN=1 USE_CUBLAS=1 USE_CUSPARSELT=1 USE_CUFILE=1 USE_NCCL=1 USE_SYSTEM_NCCL=1
export USE_DISTRIBUTED=1 USE_TENSORPIPE=1 USE_FBGEMM=1 USE_FBGEMM_GENAI=1 USE_FLASH_ATTENTION=1 USE_MEM_EFF_ATTENTION=1
export TORCH_CUDA_ARCH_LIST="12.0;12.1"
export CUDAARCHS=121 # as CMake writes 12.1
export PYTORCH_BUILD_VERSION=${PYTORCH_TAG#v} PYTORCH_BUILD_NUMBER=1
MAX_JOBS=$(build_jobs 6)
export MAX_JOBS
cd "$STACK_HOME/pytorch"
"$python" -m pip install --requirement requirements.txt
build_wheel torch
)sh"},
    Body{"audio", R"sh(checkout https://github.com/pytorch/audio.git "$AUDIO_TAG" "$AUDIO_COMMIT" audio
export USE_CUDA=1 TORCH_CUDA_ARCH_LIST="12.0;12.1" BUILD_VERSION=${AUDIO_TAG#v}
MAX_JOBS=$(build_jobs 4)
export MAX_JOBS
cd "$STACK_HOME/audio"
build_wheel torchaudio
)sh"},
    Body{"vision", R"sh(checkout https://github.com/pytorch/vision.git "$VISION_TAG" "$VISION_COMMIT" vision
export FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST="12.0;12.1" BUILD_VERSION=${VISION_TAG#v}
MAX_JOBS=$(build_jobs 4)
export MAX_JOBS
cd "$STACK_HOME/vision"
build_wheel torchvision
)sh"},
    Body{"flash-attention", R"sh(# Its build knows 120, which serves the family.
export FLASH_ATTENTION_FORCE_BUILD=TRUE FLASH_ATTN_CUDA_ARCHS=120
MAX_JOBS=$(build_jobs 8)
export MAX_JOBS
cd "$STACK_HOME/pytorch/third_party/flash-attention"
"$python" -m pip install einops
build_wheel flash_attn
)sh"},
};

constexpr std::string_view kVerify = R"sh(#!/usr/bin/env bash
# Whether the stack is as it should be: the libraries, then PyTorch on the GPU.
set -euo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
VIRTUAL_ENV=$STACK_HOME/venv "$SPARKPILOT" stack verify
"$python" - <<'PYTHON'
import torch

major, minor = torch.cuda.get_device_capability()
properties = torch.cuda.get_device_properties(0)
print(f"{properties.name}, compute capability {major}.{minor}, {properties.total_memory / 1e9:.0f} GB")
square = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
if (major, minor) not in ((12, 0), (12, 1)) or (square @ square)[0, 0].item() != 256:
    raise SystemExit("PyTorch does not compute as it should on this GPU")
PYTHON
)sh";

std::string step_script(const PlanStep& step) {
  const auto body = std::find_if(kBodies.begin(), kBodies.end(), [&](const Body& b) { return b.step == step.id; });
  if (body == kBodies.end()) fail_internal("the step {} has no script", step.id);
  return fmt::format(
      "#!/usr/bin/env bash\n# {}: {}.\n# Done when {}.\nset -euo pipefail\n# shellcheck source=common.sh\n"
      ". \"$(dirname \"${{BASH_SOURCE[0]}}\")/common.sh\"\nbegin {}\n{}end\n",
      step.title, step.size, step.check, step.id, body->text);
}

}  // namespace

std::vector<Script> plan_scripts(const std::vector<PlanStep>& steps, const std::string& program) {
  std::string versions(kVersions);
  constexpr std::string_view kProgram = "{{program}}";
  versions.replace(versions.find(kProgram), kProgram.size(), shell_word(program));
  std::vector<Script> scripts{{"versions.sh", versions, false}, {"common.sh", std::string(kCommon), false}};
  std::string run =
      "#!/usr/bin/env bash\n# All steps in their order. What is done is passed over, so this may be run again after a "
      "failure.\n"
      "set -euo pipefail\ncd \"$(dirname \"${BASH_SOURCE[0]}\")\"\n"
      "# shellcheck source=versions.sh\n. ./versions.sh\n"
      "if ! \"$SPARKPILOT\" version >/dev/null 2>&1; then\n"
      "  echo \"run.sh: $SPARKPILOT does not run here; say which sparkpilot does: SPARKPILOT=/its/path bash run.sh\" "
      ">&2\n"
      "  exit 1\nfi\n";
  for (const PlanStep& step : steps) {
    const std::string name = fmt::format("{:02}-{}.sh", step.number, step.id);
    scripts.push_back({name, step_script(step)});
    run += "bash " + name + "\n";
  }
  scripts.push_back({"verify.sh", std::string(kVerify)});
  scripts.push_back({"run.sh", run + "bash verify.sh\n"});
  return scripts;
}

}  // namespace sparkpilot::stack
