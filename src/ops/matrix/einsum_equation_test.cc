#include "ops/matrix/einsum_equation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sparkpilot {
namespace {

TEST(EinsumEquation, ImplicitOutputIsTheEllipsisThenLettersThatStandOnce) {
  EXPECT_EQ(EinsumEquation("bA, bc", {2, 2}).output, "Ac");
  EXPECT_EQ(EinsumEquation("ii", {2}).output, "");
  const EinsumEquation broadcast("...i,...j", {3, 2});
  EXPECT_EQ(broadcast.inputs[0].size(), 3u);
  // The shorter ellipsis is aligned to the right.
  EXPECT_EQ(broadcast.inputs[0][1], broadcast.inputs[1][0]);
  EXPECT_EQ(broadcast.output.size(), 4u);
}

TEST(EinsumEquation, ExplicitOutputKeepsItsOrder) {
  const EinsumEquation equation("b...ij -> j...b", {4});
  EXPECT_EQ(equation.inputs[0].front(), 'b');
  EXPECT_EQ(equation.output.front(), 'j');
  EXPECT_EQ(equation.output.back(), 'b');
  EXPECT_EQ(EinsumEquation("ij->", {2}).output, "");
}

TEST(EinsumEquation, RefusesWhatDoesNotFit) {
  EXPECT_THROW(EinsumEquation("ij", {3}), Error);
  EXPECT_THROW(EinsumEquation("ij,jk", {2}), Error);
  EXPECT_THROW(EinsumEquation("ij", {2, 2}), Error);
  EXPECT_THROW(EinsumEquation("ij->ii", {2}), Error);
  EXPECT_THROW(EinsumEquation("ij->k", {2}), Error);
  EXPECT_THROW(EinsumEquation("i.j", {2}), Error);
  EXPECT_THROW(EinsumEquation("...i...", {3}), Error);
  EXPECT_THROW(EinsumEquation("abc...", {2}), Error);
  EXPECT_THROW(EinsumEquation("i1", {2}), Error);
  EXPECT_THROW(EinsumEquation("", {2}), Error);
}

}  // namespace
}  // namespace sparkpilot
