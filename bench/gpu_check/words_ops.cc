// The smallest pieces: words of device.cuh, and single kernels.
#include <map>

#include "base/error.h"
#include "ops/check_gpu.h"
#include "ops/cuda/images.h"
#include "ops/cuda/words_check.h"
#include "part.h"

namespace sparkpilot::gpu_check {

Outcome check_words_part(const Options& options, const Json&) {
  const auto gpu = GpuDevice::open(options.ordinal);
  Outcome out;
  Json left_out = Json::array();
  int run = 0;
  for (const cuda::WordCase& word_case : cuda::word_cases()) {
    if (gpu->facts().capability >= word_case.capability) ++run;
    else left_out.push_back(std::string(word_case.word));
  }
  out.figures = {{"cases", run},
                 {"not_on_this_gpu", std::move(left_out)},
                 {"image", cuda::image_of(cuda::kernel_on(*gpu, "word_half"))}};
  out.failures = cuda::check_words(*gpu);
  return out;
}

namespace {

// What became of an op's kernels.
struct KernelResults {
  int passed = 0, failed = 0;
  double error = 0, tolerance = 0;  // of the worst case
};

Json check_op(const OpDef& op, GpuDevice& gpu, std::vector<std::string>& failures) {
  std::map<std::string, KernelResults> kernels;
  for (const CheckResult& result : check_op_on_gpu(op, 1, gpu)) {
    if (result.outcome == CheckResult::skipped) continue;
    KernelResults& of = kernels[result.kernel.substr(0, result.kernel.find(' '))];  // all of its variants
    if (result.outcome == CheckResult::failed) {
      ++of.failed;
      failures.push_back(fmt::format("{} {}: {}", result.kernel, result.case_name, result.message));
      continue;
    }
    ++of.passed;
    if (of.tolerance > 0 && result.error * of.tolerance <= of.error * result.tolerance) continue;
    of.error = result.error;
    of.tolerance = result.tolerance;
  }
  Json out{{"op", qualified(op)}, {"kernels", Json::array()}};
  for (const auto& [name, of] : kernels) {
    out["kernels"].push_back({{"kernel", name},
                              {"passed", of.passed},
                              {"failed", of.failed},
                              {"relative_l2", of.error},
                              {"allowed", of.tolerance}});
  }
  return out;
}

}  // namespace

Outcome check_ops_part(const Options& options, const Json& go_on) {
  std::vector<const OpDef*> ops;
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) {
    if (op->cuda.empty() || op->cpu.empty() || !op->cases) continue;
    if (!options.takes(qualified(*op))) continue;
    ops.push_back(op);
    names.push_back(qualified(*op));
  }
  const auto gpu = GpuDevice::open(options.ordinal);
  return each_of(options, go_on, "ops", names,
                 [&](size_t i, std::vector<std::string>& failures) { return check_op(*ops[i], *gpu, failures); });
}

}  // namespace sparkpilot::gpu_check
