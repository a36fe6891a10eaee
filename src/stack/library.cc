#include "stack/library.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "base/error.h"
#include "stack/text.h"

namespace sparkpilot::stack {
namespace {

struct Rule {
  std::string_view component, pattern;
};

// By file name; the first match wins.
constexpr std::array kFiles{
    Rule{"CUDA driver", "libcuda.so*"},
    Rule{"CUDA runtime", "libcudart*.so*"},
    Rule{"cuBLASLt", "libcublasLt*.so*"},
    Rule{"cuBLAS", "libcublas*.so*"},
    Rule{"nvBLAS", "libnvblas*.so*"},
    Rule{"cuDNN", "libcudnn*.so*"},
    Rule{"cuSPARSELt", "libcusparseLt*.so*"},
    Rule{"cuSPARSE", "libcusparse*.so*"},
    Rule{"cuFile", "libcufile*.so*"},
    Rule{"cuFFT", "libcufft*.so*"},
    Rule{"cuSOLVER", "libcusolver*.so*"},
    Rule{"cuRAND", "libcurand*.so*"},
    Rule{"cuTENSOR", "libcutensor*.so*"},
    Rule{"NPP", "libnpp*.so*"},
    Rule{"nvJPEG", "libnvjpeg*.so*"},
    Rule{"NVRTC", "libnvrtc*.so*"},
    Rule{"nvJitLink", "libnvJitLink*.so*"},
    Rule{"NVVM", "libnvvm*.so*"},
    Rule{"CUPTI", "libcupti*.so*"},
    Rule{"CUPTI", "libnvperf_*.so*"},
    Rule{"CUPTI", "libcheckpoint.so"},
    Rule{"CUPTI", "libpcsamplingutil.so"},
    Rule{"NVSHMEM", "libnvshmem*.so*"},
    Rule{"NCCL", "libnccl*.so*"},
    Rule{"TensorRT", "libnvinfer*.so*"},
    Rule{"TensorRT", "libnvonnxparser*.so*"},
    Rule{"PyTorch", "libtorch*.so*"},
    Rule{"PyTorch", "libc10*.so*"},
    Rule{"ONNX Runtime", "libonnxruntime*.so*"},
    Rule{"ONNX Runtime", "onnxruntime_pybind11_state*.so*"},
    Rule{"Triton", "libtriton.so"},
    Rule{"flash-attention", "flash_attn*.so"},
    Rule{"flash-attention", "_vllm_fa*.so"},
    Rule{"bitsandbytes", "libbitsandbytes*.so*"},
    Rule{"Transformer Engine", "*transformer_engine*.so*"},
    Rule{"ptxas", "ptxas*"},
    Rule{"nvcc", "nvcc"},
};

// By Python package, its name in lower case with dashes.
constexpr std::array kPackages{
    Rule{"PyTorch", "torch"},
    Rule{"torchvision", "torchvision"},
    Rule{"torchaudio", "torchaudio"},
    Rule{"torchao", "torchao"},
    Rule{"Triton", "triton"},
    Rule{"Triton", "pytorch-triton"},
    Rule{"flash-attention", "flash-attn*"},
    Rule{"FlashInfer", "flashinfer*"},
    Rule{"ONNX Runtime", "onnxruntime*"},
    Rule{"Transformer Engine", "transformer-engine*"},
    Rule{"xformers", "xformers"},
    Rule{"bitsandbytes", "bitsandbytes"},
    Rule{"vLLM", "vllm"},
    Rule{"SGLang", "sgl-kernel*"},
    Rule{"SGLang", "sglang*"},
    Rule{"TensorRT", "tensorrt*"},
    Rule{"FBGEMM", "fbgemm-gpu*"},
    Rule{"CuPy", "cupy*"},
    Rule{"JAX", "jax*"},
    Rule{"TensorFlow", "tensorflow*"},
    Rule{"DeepSpeed", "deepspeed"},
    Rule{"Apex", "apex"},
    Rule{"Mamba", "mamba-ssm"},
    Rule{"causal-conv1d", "causal-conv1d"},
};

bool is_compiler(std::string_view component) {
  return component == "ptxas" || component == "nvcc" || component == "NVRTC" || component == "nvJitLink";
}

// "13.0.88" from "13.0.88\n..."; empty unless it begins with at least two numbers.
std::string leading_version(std::string_view text) {
  std::string version(text.substr(0, std::min(text.find_first_not_of("0123456789."), text.size())));
  while (version.ends_with('.')) version.pop_back();
  return version.find('.') == std::string::npos || version.starts_with('.') ? std::string() : version;
}

// The version in the first text of the file's data that begins with `mark`, empty if absent: the digits and dots
// after the mark or, if that is longer, after ", V".
std::string version_behind(const Source& source, const Elf& elf, std::string_view mark) {
  constexpr size_t kPiece = 1 << 20, kLongest = 128;
  std::string piece;
  for (const DataRange& range : elf.data) {
    // Sections with GPU code contain no text, and are most of the bytes.
    if (range.name.find("fatbin") != std::string::npos || range.name.find("cask") != std::string::npos) continue;
    for (uint64_t at = 0; at < range.bytes; at += kPiece) {
      piece.resize(std::min<uint64_t>(kPiece + kLongest, range.bytes - at));
      source.read(range.offset + at, std::as_writable_bytes(std::span(piece.data(), piece.size())));
      for (size_t hit = piece.find(mark); hit != std::string::npos; hit = piece.find(mark, hit + 1)) {
        const std::string_view text = std::string_view(piece).substr(hit + mark.size(), kLongest);
        const std::string_view line = text.substr(0, text.find_first_of(std::string_view("\n\0", 2)));
        const size_t longer = line.find(", V");
        std::string version = leading_version(longer == std::string_view::npos ? line : line.substr(longer + 3));
        if (!version.empty()) return version;
      }
    }
  }
  return {};
}

// Version texts that these libraries contain and print.
std::string version_in_text(const Source& source, const Elf& elf, std::string_view component) {
  if (component == "NCCL") return version_behind(source, elf, "NCCL version ");
  if (is_compiler(component)) return version_behind(source, elf, "Cuda compilation tools, release ");
  return {};
}

void read_into(const Source& source, Library& library) {
  Elf elf = read_elf(source);
  library.machine = elf.machine;
  if (elf.bits == 32 || elf.big_endian) return;
  library.soname = elf.soname;
  library.build_id = elf.build_id;
  library.needed = elf.needed;
  library.run_path = elf.run_path;
  library.stripped = elf.stripped;
  library.code = find_gpu_code(source, elf);
  if (is_compiler(library.component)) library.compiles_for = find_compiler_targets(source, elf);
  if (std::string version = version_in_text(source, elf, library.component); !version.empty()) {
    library.version = std::move(version);
    library.version_from = "its text";
  }
  library.damage = std::move(elf.damage);
  if (elf.cut) library.trouble = fmt::format("it is cut: {} bytes do not hold all that is to be loaded", source.size());
}

}  // namespace

std::string_view component_of_file(std::string_view file_name) {
  if (!is_library_name(file_name) && !is_compiler_name(file_name)) return {};
  const auto rule =
      std::find_if(kFiles.begin(), kFiles.end(), [&](const Rule& r) { return matches(r.pattern, file_name); });
  return rule == kFiles.end() ? std::string_view() : rule->component;
}

std::string_view component_of_package(std::string_view package) {
  const std::string name = package_name(package);
  const auto rule =
      std::find_if(kPackages.begin(), kPackages.end(), [&](const Rule& r) { return matches(r.pattern, name); });
  return rule == kPackages.end() ? std::string_view() : rule->component;
}

const std::vector<std::string_view>& core_components() {
  static const std::vector<std::string_view> list{
      "CUDA driver", "CUDA runtime", "cuBLASLt", "cuDNN",       "cuSPARSELt", "cuFile", "NCCL",           "ptxas",
      "NVRTC",       "TensorRT",     "PyTorch",  "torchvision", "torchaudio", "Triton", "flash-attention"};
  return list;
}

Library inspect(const Source& source, std::string path) {
  Library library;
  const std::string name = path.substr(path.find_last_of("/!") + 1);
  library.path = std::move(path);
  library.component = component_of_file(name);
  library.bytes = static_cast<int64_t>(source.size());
  try {
    read_into(source, library);
  } catch (const Error& error) {
    library.trouble = error.what();
  }
  if (library.version.empty() && !(library.version = version_in_name(name)).empty()) library.version_from = "file name";
  return library;
}

std::string version_in_name(std::string_view file_name) {
  const size_t so = file_name.find(".so");
  if (so == std::string_view::npos) return {};
  const auto valid = [](std::string_view text) {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) && text.back() != '.' &&
           text.find('.') != std::string_view::npos && text.find_first_not_of("0123456789.") == std::string_view::npos;
  };
  if (file_name.size() > so + 4 && valid(file_name.substr(so + 4))) return std::string(file_name.substr(so + 4));
  const std::string_view stem = file_name.substr(0, so);
  const size_t dash = stem.rfind('-');
  if (dash != std::string_view::npos && valid(stem.substr(dash + 1))) return std::string(stem.substr(dash + 1));
  return {};
}

bool is_library_name(std::string_view file_name) {
  const size_t so = file_name.rfind(".so");
  return so != std::string_view::npos && so > 0 &&
         (file_name.size() == so + 3 ||
          (file_name[so + 3] == '.' && file_name.find_first_not_of("0123456789.", so + 3) == std::string_view::npos));
}

bool is_compiler_name(std::string_view file_name) {
  return file_name == "nvcc" || file_name == "ptxas" || file_name.starts_with("ptxas-");
}

}  // namespace sparkpilot::stack
