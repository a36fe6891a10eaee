// Every network in fp16 and bf16, near its own results in fp32 and not the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "networks.h"
#include "ops/check.h"

namespace sparkpilot {
namespace {

std::vector<Tensor> run(const testing::Network& network, Precision precision) {
  SessionOptions options;
  options.passes.precision = precision;
  Session session(network.load(), options);
  testing::fill_inputs(session, 3);
  session.run();
  return testing::results(session);
}

// The tolerance leaves room for detectors, whose features random pixels stretch; most networks are ten times nearer.
void stays_near(Precision precision, double tolerance) {
  double sum = 0;
  for (const testing::Network& network : testing::networks()) {
    SCOPED_TRACE(network.name);
    const std::vector<Tensor> expected = run(network, Precision::fp32), got = run(network, precision);
    ASSERT_EQ(got.size(), expected.size());
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), expected[i].dtype());
      EXPECT_EQ(got[i].shape(), expected[i].shape());
      largest = std::max(largest, relative_l2(got[i], expected[i]));
    }
    EXPECT_LE(largest, tolerance);
    sum += largest;
  }
  EXPECT_GT(sum, 1e-6) << "nothing was computed in 16 bits";
}

TEST(Precisions, Fp16StaysNearFp32) { stays_near(Precision::fp16, 1e-2); }

TEST(Precisions, Bf16StaysNearFp32OrIsRefused) {
  try {
    check_precision(Precision::bf16);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
    GTEST_SKIP() << error.what();
  }
  stays_near(Precision::bf16, 6e-2);
}

}  // namespace
}  // namespace sparkpilot
