// The same bits in one session, in another session, and with another number of threads.
#include <gtest/gtest.h>

#include <cstring>

#include "networks.h"
#include "ops/check.h"

namespace sparkpilot {
namespace determinism_test {

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i].shape() == b[i].shape()) || std::memcmp(a[i].raw(), b[i].raw(), static_cast<size_t>(a[i].bytes())) != 0)
      return false;
  }
  return true;
}

class Determinism : public testing::NetworkTest {};

TEST_P(Determinism, SameBitsTwiceAndForAnyNumberOfThreads) {
  std::vector<Tensor> first;
  for (const int threads : {1, 1, 2, 3}) {
    Session session(network_.load(), {.threads = threads});
    testing::fill_inputs(session, 5);
    session.run();
    const std::vector<Tensor> once = testing::results(session);
    session.run();
    EXPECT_TRUE(same_bits(once, testing::results(session))) << threads << " threads, second run";
    if (first.empty()) first = once;
    EXPECT_TRUE(same_bits(first, once)) << threads << " threads against 1";
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Determinism, ::testing::ValuesIn(testing::networks()), testing::test_name);

}  // namespace determinism_test
}  // namespace sparkpilot
