// Queues and pulses. The numbers are from tests/reference/action_numpy.py.
#include "route/contract/temporal.h"

#include <gtest/gtest.h>

#include "route/contract/outputs.h"

namespace sparkpilot::drive {
namespace {

using Row = std::vector<float>;

// Frame k is (k, 37 k mod 101), k from 1.
History<float> history_of(int frames) {
  History<float> history(100, 2);
  for (int k = 1; k <= frames; ++k) {
    const Row row{static_cast<float>(k), static_cast<float>(k * 37 % 101)};
    history.push(row);
  }
  return history;
}

// One column of a sample with rows of two.
Row column(const std::vector<float>& sample, size_t which) {
  Row out;
  for (size_t i = which; i < sample.size(); i += 2) out.push_back(sample[i]);
  return out;
}
Row split(const History<float>& history) {
  Row out(50);
  history.sample(4, 0, out);
  return column(out, 0);
}
Row merged(const History<float>& history) {
  Row out(48);
  history.sample(4, 3, out);
  return column(out, 0);
}
Row greatest(const History<float>& history) {
  Row out(50);
  history.sample_max(4, out);
  return column(out, 1);
}

// Zeros, then the given numbers: `count` in all.
Row after_zeros(size_t count, const Row& last) {
  Row out(count - last.size());
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

TEST(History, SamplesAsNumPysSlices) {
  EXPECT_EQ(split(history_of(1)), after_zeros(25, {1}));
  EXPECT_EQ(merged(history_of(1)), after_zeros(24, {}));
  EXPECT_EQ(split(history_of(6)), after_zeros(25, {2, 6}));
  EXPECT_EQ(merged(history_of(6)), after_zeros(24, {3}));
  EXPECT_EQ(split(history_of(30)), after_zeros(25, {2, 6, 10, 14, 18, 22, 26, 30}));
  EXPECT_EQ(merged(history_of(30)), after_zeros(24, {3, 7, 11, 15, 19, 23, 27}));
  EXPECT_EQ(split(history_of(111)), (Row{15, 19, 23, 27, 31, 35, 39, 43, 47, 51,  55,  59, 63,
                                         67, 71, 75, 79, 83, 87, 91, 95, 99, 103, 107, 111}));
  EXPECT_EQ(merged(history_of(111)),
            (Row{16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108}));
}

TEST(History, TakesTheGreatestOfEachGroup) {
  EXPECT_EQ(greatest(history_of(1)), after_zeros(25, {37}));
  EXPECT_EQ(greatest(history_of(6)), after_zeros(25, {74, 84}));
  EXPECT_EQ(greatest(history_of(30)), after_zeros(25, {74, 84, 94, 77, 87, 97, 80, 100}));
  EXPECT_EQ(greatest(history_of(111)),
            (Row{77, 97, 70, 90, 100, 83, 93, 76, 86, 96, 79, 89, 99, 82, 92, 75, 95, 68, 88, 98, 81, 91, 74, 84, 94}));
}

TEST(History, RowsByAgeAndAllOfThem) {
  History<float> history = history_of(111);
  EXPECT_EQ(history.length(), 100);
  EXPECT_EQ(history.row(0)[0], 111);
  EXPECT_EQ(history.row(99)[0], 12);  // the oldest that is kept
  Row all(200);
  history.sample(1, 0, all);
  for (size_t i = 0; i < 100; ++i) ASSERT_EQ(all[2 * i], 12 + static_cast<float>(i));
  history.reset();
  EXPECT_EQ(split(history), Row(25));
  history.push(Row{5, 6});
  EXPECT_EQ(split(history), after_zeros(25, {5}));
}

TEST(History, PicturesNowAndFourFramesAgo) {
  History<uint8_t> history(5, 3);
  std::vector<uint8_t> pair(6);
  for (uint8_t k = 1; k <= 7; ++k) history.push(std::vector<uint8_t>{k, k, k});
  history.sample(4, 0, pair);
  EXPECT_EQ(pair, (std::vector<uint8_t>{3, 3, 3, 7, 7, 7}));
}

// -1 if all eight are zero.
int pulse_of(DesirePulse& pulse, int desire) {
  std::vector<float> out(kDesires, 9.0F);
  pulse.next(desire, out);
  int at = -1;
  for (int i = 0; i < kDesires; ++i) {
    const float value = out[static_cast<size_t>(i)];
    EXPECT_TRUE(value == 0 || (value == 1 && at == -1)) << i;
    if (value == 1) at = i;
  }
  return at;
}

TEST(DesirePulse, ComesOnceWhereADesireBegins) {
  DesirePulse pulse;
  const std::vector<std::pair<int, int>> told_and_shown{{0, -1}, {3, 3},  {3, -1}, {3, -1}, {0, -1},
                                                        {3, 3},  {4, 4},  {4, -1}, {3, 3},  {-1, -1},
                                                        {3, 3},  {8, -1}, {1, 1},  {7, 7},  {0, -1}};
  for (const auto& [told, shown] : told_and_shown) EXPECT_EQ(pulse_of(pulse, told), shown) << told;
  EXPECT_EQ(pulse_of(pulse, 5), 5);
  pulse.reset();
  EXPECT_EQ(pulse_of(pulse, 5), 5);
}

TEST(DesireOfLaneChange, IsThereWhileTheChangeGoesOn) {
  for (int state = -1; state < 5; ++state) {
    const bool changing = state == 2 || state == 3;
    EXPECT_EQ(desire_of_lane_change(state, 0), 0);
    EXPECT_EQ(desire_of_lane_change(state, 1), changing ? 3 : 0) << state;
    EXPECT_EQ(desire_of_lane_change(state, 2), changing ? 4 : 0) << state;
    EXPECT_EQ(desire_of_lane_change(state, 3), 0);
  }
}

}  // namespace
}  // namespace sparkpilot::drive
