#include "ops/recurrent/infer_recurrent.h"
#include "ops/axes.h"

#include <iterator>

#include "ops/expect.h"

namespace sparkpilot {

void infer_recurrent(InferContext& c, const RecurrentKind& kind) {
  expect_float(c, kX);
  const Recurrent r = parse_recurrent(kind, c.shape(kX), c.shape(kR), c.attrs);
  if (c.attrs.integer("hidden_size", r.hidden) != r.hidden) {
    fail("hidden_size is {}, R has {}", c.attrs.integer("hidden_size", r.hidden), r.hidden);
  }
  const int64_t rows = Shape{r.gates, r.hidden}.elements();
  const Shape state = r.batch_first ? Shape{r.batch, r.directions, r.hidden} : Shape{r.directions, r.batch, r.hidden};
  const Shape expected[] = {c.shape(kX),
                            {r.directions, rows, r.input},
                            {r.directions, rows, r.hidden},
                            {r.directions, 2 * rows},
                            {r.batch},
                            state,
                            state,
                            {r.directions, 3 * r.hidden}};
  for (int i = 0; i < static_cast<int>(std::size(expected)); ++i) {
    if (!c.has(i)) continue;
    if (i == kLengths) expect_dtype(c, i, TypeList<int32_t>{}, "i32");
    else expect_same_dtype(c, i, kX);
    expect_shape(c, i, expected[i]);
  }
  c.output(0, c.dtype(0),
           r.batch_first ? Shape{r.batch, r.steps, r.directions, r.hidden}
                         : Shape{r.steps, r.directions, r.batch, r.hidden});
  c.output(1, c.dtype(0), state);
  if (kind.cell) c.output(2, c.dtype(0), state);
}

// Axis map: batch entries are independent. The batch is axis 1 of X and of the states and axis 2 of Y, or axis 0 of all
// with `layout` = 1.
AxisSource axes_of_recurrent(const Problem& p, int output, int axis, size_t input) {
  const bool first = p.attrs().integer("layout", 0) != 0;
  if (axis != (first ? 0 : output == 0 ? 2 : 1)) return {};
  if (input == kLengths) return same_axis(0);
  if (input == kX || input == kInitialH || input == kInitialC) return same_axis(first ? 0 : 1);
  return whole_input();
}

double recurrent_cost(const Problem& p, int64_t gates) {
  const Shape &x = p.inputs[kX].shape, &r = p.inputs[kR].shape;
  return 2.0 * static_cast<double>(x[0] * x[1]) * static_cast<double>(r[0] * gates * r[2]) *
         static_cast<double>(x[2] + r[2]);
}

}  // namespace sparkpilot
