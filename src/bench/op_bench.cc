#include "bench/op_bench.h"

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "ops/check.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

// A candidate kernel with its session.
struct Contender {
  OpBench result;
  std::unique_ptr<Session> session;
  int64_t batch = 1;  // number of runs that take long enough for the clock
  double once_ns = 0;
  std::vector<double> us = {};
};

void warm_up(Contender& c) {
  c.session->run();
  const int64_t start = now_ns();
  c.session->run();
  c.once_ns = std::max<double>(static_cast<double>(now_ns() - start), 100);
  c.batch = std::max<int64_t>(1, static_cast<int64_t>(20e3 / c.once_ns));
}

void time_batch(Contender& c) {
  const int64_t begin = now_ns();
  for (int64_t i = 0; i < c.batch; ++i) c.session->run();
  c.us.push_back(static_cast<double>(now_ns() - begin) * 1e-3 / static_cast<double>(c.batch));
}

}  // namespace

std::vector<OpBench> bench_case(const OpDef& op, const OpCase& op_case, int threads, double ms_each, uint64_t seed,
                                bool fast_only) {
  std::vector<Contender> contenders;
  const std::vector<Tensor> tensors = case_inputs(op_case, seed);
  for (const Kernel& kernel : op.cpu) {
    if (fast_only && &kernel == &op.cpu.back()) continue;
    SessionOptions options;
    options.threads = threads;
    options.kernels = std::string(kernel.name);
    options.passes = {.off = {"all"}, .precision = Precision::model};  // 16-bit types are kept
    Contender c;
    c.session = std::make_unique<Session>(case_graph(op, op_case, tensors), options);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].present() && !op_case.inputs[i].constant) {
        c.session->set_input(fmt::format("x{}", i), tensors[i].view());
      }
    }
    c.session->compile();
    const Profile profile = c.session->profile();
    // If this kernel does not accept the case, the session takes another one.
    if (profile.nodes.size() != 1 || profile.nodes[0].kernel != kernel.name) continue;
    c.result = {qualified(op),
                op_case.name,
                std::string(kernel.name),
                tensors.empty() || !tensors[0].present() ? "" : tensors[0].shape().str(),
                0,
                profile.nodes[0].flops,
                profile.nodes[0].bytes};
    warm_up(c);
    contenders.push_back(std::move(c));
  }
  // In turns, so that other load on the machine affects all of them alike.
  constexpr int64_t kTurns = 10;
  for (int64_t turn = 0; turn < kTurns; ++turn) {
    for (Contender& c : contenders) {
      const auto batches = static_cast<int64_t>(ms_each * 1e6 / c.once_ns) / c.batch / kTurns;
      for (int64_t b = 0; b < std::clamp<int64_t>(batches, turn < 3 ? 1 : 0, 100); ++b) time_batch(c);
    }
  }
  std::vector<OpBench> results;
  for (Contender& c : contenders) {
    c.result.p50_us = summarize(c.us).p50;
    results.push_back(std::move(c.result));
  }
  return results;
}

std::vector<OpBench> bench_op(const OpDef& op, int threads, double ms_each, uint64_t seed) {
  std::vector<OpBench> results;
  for (const OpCase& op_case : op.cases ? op.cases() : std::vector<OpCase>{}) {
    for (OpBench& each : bench_case(op, op_case, threads, ms_each, seed)) results.push_back(std::move(each));
  }
  return results;
}

}  // namespace sparkpilot
