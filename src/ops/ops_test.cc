// Tests the whole op table: valid schemas, and every candidate against its reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/parallel.h"
#include "hw/cpu.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "ops/check.h"
#include "ops/cpu/composed.h"
#include "ops/cpu/gemm/amx_tile.h"
#include "ops/cpu/gemm/dot_tile.h"
#include "ops/cpu/limit.h"

namespace sparkpilot {
namespace {

// With SPARKPILOT_CPU, the tests use the kernels of a less capable processor.
class Level : public ::testing::Environment {
  void SetUp() override {
    const char* level = std::getenv("SPARKPILOT_CPU");
    if (!level) return;
    const std::vector<std::string_view> levels = cpu_levels();
    if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
      GTEST_SKIP() << "this processor has no " << level;
    }
    limit_kernels(level);
  }
};
[[maybe_unused]] const auto* const kLevel = ::testing::AddGlobalTestEnvironment(new Level);

// Counts the names between `before` and `after`, in lines that begin with `before`.
void count_names(const std::filesystem::path& file, std::string_view before, std::string_view after,
                 std::map<std::string, int>& counts) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = line;
    if (text.size() < before.size() + after.size() || text.substr(0, before.size()) != before) continue;
    const size_t end = text.find(after, before.size());
    if (end != text.npos) ++counts[line.substr(before.size(), end - before.size())];
  }
}

// A gradient, or an expansion through which one flows, or why there is none; the reason only where it is true.
TEST(OpTable, EveryOpHasAGradientOrAReason) {
  for (const OpDef* op : all_ops()) {
    if (!op->refused.empty()) continue;
    EXPECT_EQ(op->grad || op->expand, op->no_gradient.empty()) << qualified(*op) << " since " << op->since;
  }
}

// If a merge loses the line of a file, its ops would silently be missing from the table.
TEST(OpTable, TheListNamesEveryFileOnce) {
  std::map<std::string, int> defined, listed;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("src/ops")) {
    if (entry.path().extension() != ".cc") continue;
    count_names(entry.path(), "namespace sparkpilot::", "_ops {", defined);
  }
  count_names("src/ops/list.inc", "SPARKPILOT_OPS(", ")", listed);
  EXPECT_GT(defined.size(), 0u);
  EXPECT_EQ(defined, listed) << "scripts/list_ops.sh writes src/ops/list.inc anew";
}

TEST(OpTable, EveryRecordIsComplete) {
  std::set<std::pair<std::string, int>> seen;
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(qualified(*op) + " since " + std::to_string(op->since));
    EXPECT_FALSE(op->doc.empty());
    EXPECT_TRUE(seen.emplace(qualified(*op), op->since).second) << "registered twice";
    EXPECT_TRUE(!op->cpu.empty() || op->expand || !op->refused.empty());
    if (!op->cpu.empty()) {
      EXPECT_TRUE(op->infer);
      EXPECT_TRUE(op->cases);
    }
    for (const Kernel& kernel : op->cpu) EXPECT_TRUE(kernel.run) << kernel.name;
    if (!op->cpu.empty()) {
      EXPECT_EQ(op->cpu.back().name, "reference");
    }
  }
}

TEST(OpTable, EveryCandidateMatchesItsReference) {
  int checked = 0;
  std::set<std::string> never;
  std::set<std::string> ran;
  for (const CheckResult& result : check_ops("", 1)) {
    const std::string kernel = result.op + "/" + result.kernel;
    if (result.outcome == CheckResult::skipped) never.insert(kernel);
    else ran.insert(kernel);
    checked += result.outcome == CheckResult::passed;
    EXPECT_NE(result.outcome, CheckResult::failed) << kernel << " case " << result.case_name << ": " << result.message;
  }
  EXPECT_GT(checked, 0);
  // Some case must reach each kernel, except those that this processor cannot run.
  for (const std::string& kernel : never) {
    const CpuFeatures& cpu = cpu_features();
    const bool absent = (kernel.ends_with("/dot") && dot_group() == 0) || (kernel.ends_with("/amx") && !has_amx()) ||
                        (kernel.ends_with("/onednn") && !cpu.avx2) ||
                        (kernel == "sparkpilot::WideGemm/onednn" && !cpu.avx512_bf16);
    EXPECT_TRUE(absent || ran.contains(kernel)) << "no case that " << kernel << " accepts";
  }
}

// Whether the kernel may be, or may run, one of oneDNN's, which split work by threads as they like. What a composed
// kernel runs depends on the processor: a convolution of it is oneDNN's with AVX2, and an own one with AVX-512.
bool may_be_onednn(const OpDef& op, const Kernel& kernel) {
  return kernel.name == "onednn" || (kernel.run == run_composed && op.name.starts_with("Conv"));
}

TEST(OpTable, ResultsOfOwnKernelsDoNotDependOnThreads) {
  int compared = 0;
  for (const OpDef* op : all_ops()) {
    if (op->cpu.size() < 2 || !op->cases || !op->infer || !op->traits.pure) continue;
    for (const OpCase& op_case : op->cases()) {
      const std::vector<Tensor> inputs = case_inputs(op_case, 5);
      const Node node = case_node(*op, op_case);
      for (const Kernel& kernel : op->cpu.first(op->cpu.size() - 1)) {
        if (may_be_onednn(*op, kernel)) continue;
        SCOPED_TRACE(qualified(*op) + " " + std::string(kernel.name) + " case " + op_case.name);
        const auto run = [&](int threads) {
          const ThreadScope scope(threads);
          return evaluate(node, inputs, kernel.name, {}, variable_inputs(op_case));
        };
        std::vector<Tensor> one;
        try {
          one = run(1);
        } catch (const Error&) {  // it does not accept the case
          continue;
        }
        for (const int threads : {2, 5}) {
          const std::vector<Tensor> many = run(threads);
          for (size_t i = 0; i < one.size(); ++i) {
            const auto bytes = static_cast<size_t>(one[i].bytes());
            EXPECT_EQ(std::memcmp(one[i].raw(), many[i].raw(), bytes), 0) << threads << " threads, output " << i;
          }
        }
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 300);
}

// Replaces one element of each float operand of the case's inputs; false if there is none.
bool spoil(const OpCase& op_case, std::vector<Tensor>& inputs, double value) {
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& input = inputs[i];
    if (op_case.inputs[i].constant || !input.present() || !is_float(input.dtype()) || bits(input.dtype()) < 16)
      continue;
    if (input.elements() < 2) continue;
    input = input.clone();
    store_element(input.dtype(), input.raw(), input.elements() / 2, value);
    any = true;
  }
  return any;
}

// Counts elements that are NaN in the reference and a number in `kernel`'s result, which would hide an error.
int64_t lost_nans(const Node& node, const std::vector<Tensor>& inputs, std::string_view kernel, uint64_t variable) {
  const std::vector<Tensor> expected = evaluate(node, inputs, "reference", {}, variable);
  const std::vector<Tensor> got = evaluate(node, inputs, kernel, {}, variable);
  int64_t lost = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    if (!is_float(got[k].dtype())) continue;
    for (int64_t i = 0; i < got[k].elements(); ++i) {
      lost += std::isnan(load_element(expected[k].dtype(), expected[k].raw(), i)) &&
              !std::isnan(load_element(got[k].dtype(), got[k].raw(), i));
    }
  }
  return lost;
}

TEST(OpTable, EveryCandidateKeepsNaN) {
  int compared = 0;
  for (const OpDef* op : all_ops()) {
    if (op->cpu.size() < 2 || !op->cases || !op->infer) continue;
    for (const OpCase& op_case : op->cases()) {
      std::vector<Tensor> inputs = case_inputs(op_case, 3);
      if (!spoil(op_case, inputs, std::nan(""))) continue;
      const Node node = case_node(*op, op_case);
      const uint64_t variable = variable_inputs(op_case);
      for (const Kernel& kernel : op->cpu) {
        SCOPED_TRACE(qualified(*op) + " " + std::string(kernel.name) + " case " + op_case.name);
        try {
          EXPECT_EQ(lost_nans(node, inputs, kernel.name, variable), 0);
          ++compared;
        } catch (const Error& error) {  // it does not accept the case, or refuses NaN
          EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
}

// Profiles show the reason to users who wonder why a fast kernel was not used.
TEST(OpTable, KernelsSayWhyTheyDecline) {
  int declined = 0;
  for (const OpDef* op : all_ops()) {
    for (const OpCase& op_case : op->cpu.size() > 1 && op->cases ? op->cases() : std::vector<OpCase>{}) {
      for (const Kernel& kernel : op->cpu.first(op->cpu.size() - 1)) {
        try {
          evaluate(case_node(*op, op_case), case_inputs(op_case, 1), kernel.name, {}, variable_inputs(op_case));
        } catch (const NoKernel& declines) {
          EXPECT_NE(declines.reason(), "") << declines.what();
          ++declined;
        } catch (const Error&) {  // other cases are not tested here
        }
      }
    }
  }
  EXPECT_GT(declined, 100);
}

TEST(OpTable, NewestVersionAtOrBelowTheOpsetWins) {
  ASSERT_NE(find_op("", "Softmax", 13), nullptr);
  EXPECT_EQ(find_op("", "Softmax", 13)->since, 13);
  EXPECT_EQ(find_op("", "Softmax", 12)->since, 1);
  EXPECT_EQ(find_op("", "Softmax", 0), nullptr);
  EXPECT_EQ(find_op("", "NoSuchOp", 20), nullptr);
}

}  // namespace
}  // namespace sparkpilot
