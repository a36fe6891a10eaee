// Every candidate kernel of every op, forced and disabled: the same results for the op table's cases and for whole
// networks.
#include "ir/kernel_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/infer.h"
#include "networks.h"
#include "ops/check.h"
#include "passes/precision.h"

namespace sparkpilot {
namespace kernels_test {

using Candidate = std::pair<std::string, std::string>;  // op, kernel

std::string text(const Candidate& candidate) { return candidate.first + "/" + candidate.second; }

struct Ran {
  std::string kernel;
  std::vector<Tensor> outputs;
};

// The case as a graph of one node, without passes.
Ran run_case(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors, const std::string& kernels) {
  Session session(
      case_graph(op, op_case, tensors),
      {.threads = 1, .passes = {.off = {"all"}, .precision = Precision::model}, .kernels = kernels, .profile = true});
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].present() && !op_case.inputs[i].constant) {
      session.set_input(fmt::format("x{}", i), tensors[i].view());
    }
  }
  session.run();
  return {session.profile().nodes.at(0).kernel, testing::results(session)};
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_LE(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), expected[i].dtype());
    ASSERT_EQ(got[i].shape(), expected[i].shape());
    const double limit = tolerance > 0 ? tolerance : default_tolerance(expected[i].dtype());
    EXPECT_LE(relative_l2(got[i], expected[i]), limit) << "output " << i;
  }
}

TEST(Kernels, EachIsForcedAndSwitchedOffOnTheOpTable) {
  std::set<Candidate> forced;
  for (const OpDef* op : all_ops()) {
    if (op->cpu.size() < 2) continue;
    for (const OpCase& op_case : op->cases()) {
      const std::vector<Tensor> inputs = case_inputs(op_case, 3);
      const std::vector<Tensor> expected = evaluate(case_node(*op, op_case), inputs, "reference");
      for (const Kernel& kernel : op->cpu.first(op->cpu.size() - 1)) {
        const Candidate candidate{qualified(*op), kernel.name};
        SCOPED_TRACE(text(candidate) + " case " + op_case.name);
        const Ran with = run_case(*op, op_case, inputs, text(candidate));
        if (with.kernel == kernel.name) {
          forced.insert(candidate);
          expect_close(with.outputs, expected, op_case.tolerance);
        }
        const Ran without = run_case(*op, op_case, inputs, "no-" + text(candidate));
        EXPECT_NE(without.kernel, kernel.name);
        expect_close(without.outputs, expected, op_case.tolerance);
      }
    }
  }
  EXPECT_GT(forced.size(), 60u);
}

// The outputs of a whole network; `taken`: the kernels that it used.
std::vector<Tensor> run_network(const Graph& graph, Precision precision, const std::string& kernels,
                                std::set<Candidate>* taken = nullptr) {
  Session session(graph, {.threads = 2, .passes = {.precision = precision}, .kernels = kernels, .profile = true});
  testing::fill_inputs(session, 11);
  session.run();
  for (const NodeProfile& node : session.profile().nodes) {
    const Candidate candidate{node.op, node.kernel};
    if (taken && node.kernel != "reference" && node.kernel != "view") taken->insert(candidate);
    EXPECT_NE("no-" + text(candidate), kernels);
  }
  return testing::results(session);
}

bool has_bf16() {
  try {
    check_precision(Precision::bf16);
    return true;
  } catch (const Error&) {
    return false;
  }
}

class NetworkKernels : public testing::NetworkTest {};

TEST_P(NetworkKernels, GiveTheSameWithEachSwitchedOff) {
  const Graph graph = network_.load();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    if (precision == Precision::bf16 && !has_bf16()) continue;
    // Two ways to sum the same products; with rounding to bf16 between layers, differences accumulate.
    const double tolerance = precision == Precision::bf16 ? 0.02 : 1e-5;
    std::set<Candidate> taken;
    const std::vector<Tensor> expected = run_network(graph, precision, "", &taken);
    for (const Candidate& candidate : taken) {
      SCOPED_TRACE(network_.name + " without " + text(candidate));
      expect_close(run_network(graph, precision, "no-" + text(candidate)), expected, tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkKernels, ::testing::ValuesIn(testing::tiny_networks()), testing::test_name);

TEST(Kernels, NamesThatAreNoneAreRefusedWithThoseThatAre) {
  const auto refused = [](const std::string& list, const std::string& why) {
    try {
      const KernelChoice choice(list);
      ADD_FAILURE() << list;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refused("onednm", "no kernel is named \"onednm\" (did you mean onednn?); there are ");
  refused("no-sparkpilot::Gemm/rows",
          "no kernel of sparkpilot::Gemm is named \"rows\"; there are amx, dot, onednn, packed, reference, simd");
  refused("simd,no-Convolution/simd", "no op \"Convolution\" has kernels");
  refused("no-reference", "stays");
  refused("no-Conv/reference", "stays");
  refused("simd,,onednn", "no kernel is named \"\"");
}

}  // namespace kernels_test
}  // namespace sparkpilot
