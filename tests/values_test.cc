// The intermediate values of every network with all passes, and of the file's own graph: the same under the same names.
#include <gtest/gtest.h>

#include <map>

#include "networks.h"
#include "ops/check.h"
#include "runtime/run_value.h"

namespace sparkpilot {
namespace values_test {

std::map<std::string, Tensor> values_of(const testing::Network& network, const PassOptions& passes, int* unnamed) {
  Session session(network.load(), {.threads = 1, .passes = passes, .keep = {"all"}});
  testing::fill_inputs(session, 5);
  session.run();
  std::map<std::string, Tensor> values;
  session.visit_values([&](const RunValue& value) {
    if (value.name.empty()) ++*unnamed;
    else values.insert_or_assign(std::string(value.name), in_file_layout(value));
  });
  return values;
}

class Values : public testing::NetworkTest {};

TEST_P(Values, HoldWhatTheirNamesSay) {
  int unnamed = 0, unnamed_in_file = 0;
  const auto expected = values_of(network_, {.off = {"all"}, .precision = Precision::fp32}, &unnamed_in_file);
  const auto got = values_of(network_, {.precision = Precision::fp32}, &unnamed);
  int compared = 0;
  for (const auto& [name, value] : got) {
    const auto found = expected.find(name);
    if (found == expected.end()) continue;
    ++compared;
    EXPECT_EQ(value.shape(), found->second.shape()) << name;
    EXPECT_LE(relative_l2(value, found->second), 1e-3) << name;
  }
  // Names are of use only where most values keep theirs.
  EXPECT_GE(compared, unnamed) << compared << " of " << got.size() << " compared, " << unnamed << " without a name";
}

INSTANTIATE_TEST_SUITE_P(Networks, Values, ::testing::ValuesIn(testing::networks()), testing::test_name);

}  // namespace values_test
}  // namespace sparkpilot
