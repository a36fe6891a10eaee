// Plans that a tuner chooses among: few, named, and launches that every GPU takes.
#include "ops/cuda/plans.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/cuda/depthwise.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/products.h"

namespace sparkpilot::cuda::plans_test {
namespace {

constexpr int kMultiprocessors[] = {20, 48, 132, 188};

template <typename Plan>
void expect_few_and_named(const std::vector<Plan>& plans, size_t most) {
  const std::vector<std::string> names = variants_of(plans);
  ASSERT_FALSE(names.empty());
  EXPECT_LE(names.size(), most);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ(plan_of(plans, names[i]).variant(), names[i]);
    EXPECT_LE(names[i].size(), 40u);
  }
  for (const char* other : {"", "64x64 in 99 parts", "1x1", "7 warps"}) {
    EXPECT_EQ(plan_of(plans, other).variant(), names[0]) << other;
  }
}

void expect_legal(const KernelLaunch& launch) {
  EXPECT_GE(launch.grid_x, 1u);
  EXPECT_GE(launch.grid_y, 1u);
  EXPECT_GE(launch.grid_z, 1u);
  EXPECT_LE(launch.grid_x, 0x7fffffffu);
  EXPECT_LE(launch.grid_y, 65535u);
  EXPECT_LE(launch.grid_z, 65535u);
  EXPECT_LE(launch.shared_bytes, 99u * 1024);
}

ConvSizes conv(int height, int width, int channels, int out_channels, int kernel) {
  return {.batch = 1,
          .height = height,
          .width = width,
          .channels = channels,
          .out_height = height,
          .out_width = width,
          .out_channels = out_channels,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .pad_top = kernel / 2,
          .pad_left = kernel / 2};
}

TEST(CudaPlans, OfConvolutions) {
  size_t most = 0;
  for (const int multiprocessors : kMultiprocessors) {
    for (const Storage storage : {Storage::f32, Storage::f16}) {
      for (const ConvSizes& size : {conv(1, 1, 8, 8, 1), conv(8, 16, 256, 256, 3), conv(128, 256, 16, 32, 3),
                                    conv(1, 1, 2048, 1000, 1), conv(32, 64, 64, 64, 3), conv(1, 1, 8, 65535, 1)}) {
        for (const bool pieces : {true, false}) {
          const std::vector<ConvPlan> plans = conv_plans(size, storage, multiprocessors, pieces);
          expect_few_and_named(plans, 8);
          EXPECT_EQ(plan_conv(size, storage, multiprocessors, pieces).variant(), plans[0].variant());
          for (const ConvPlan& plan : plans) expect_legal(plan.launch(size));
          most = std::max(most, plans.size());
        }
      }
      ConvSizes wide = conv(64, 128, 64, 64, 7);
      wide.groups = 64;
      expect_few_and_named(depthwise_plans(wide, storage, multiprocessors), storage == Storage::f32 ? 2 : 3);
    }
  }
  EXPECT_GE(most, 5u);
}

TEST(CudaPlans, OfProducts) {
  for (const int multiprocessors : kMultiprocessors) {
    for (const Storage storage : {Storage::f32, Storage::f16}) {
      for (const auto& [batches, m, n, k] : std::vector<std::tuple<int, int, int, int>>{
               {1, 40, 512, 512}, {8, 100, 100, 64}, {1, 128, 768, 192}, {1, 9, 1, 1}, {65535, 2, 2, 2000}}) {
        const std::vector<GemmPlan> plans = gemm_plans(storage, GemmLayout::nk, batches, m, n, k, multiprocessors);
        expect_few_and_named(plans, 8);
        for (const GemmPlan& plan : plans) {
          GemmArguments arguments{};
          arguments.m = m, arguments.n = n, arguments.k = k;
          arguments.outer = batches, arguments.inner = 1, arguments.parts = plan.parts;
          EXPECT_TRUE(gemm_accepts(arguments, plan.tile));
          expect_legal(gemm_launch(arguments, plan.tile));
          EXPECT_GE(plan.parts * plan.part_depth, k);
          EXPECT_LT((plan.parts - 1) * plan.part_depth, k);
        }
      }
    }
  }
  EXPECT_TRUE(gemm_plans(Storage::f32, GemmLayout::kn, 65536, 1, 1, 2, 48).empty());
  EXPECT_TRUE(gemm_plans(Storage::f16, GemmLayout::nk, 1, 16, 1 << 29, 2, 48).empty());
}

TEST(CudaPlans, OfProductsByConstantWeights) {
  for (const int multiprocessors : kMultiprocessors) {
    const std::vector<GemmPlan> plans =
        gemm_plans(Storage::f16, GemmLayout::nk, 1, 10, 512, 2048, multiprocessors, true);
    expect_few_and_named(plans, 8);
    EXPECT_TRUE(std::ranges::any_of(plans, [](const GemmPlan& plan) { return plan.direct.has_value(); }));
    for (const GemmPlan& plan : plans) {
      if (plan.direct) expect_legal(plan.direct->launch(10, 512));
    }
  }
  // A tile of direct_gemm leaves its place to both plans of gemm's tile of that size.
  const auto plan = [](int parts, double cycles, std::optional<DirectGemmPlan> direct = {}) {
    return ModelledPlan<GemmPlan>{{{32, 32}, parts, kGemmDepth, direct}, cycles};
  };
  const std::vector<ModelledPlan<GemmPlan>> all{plan(1, 100, kDirectGemmPlans[0]), plan(1, 110), plan(2, 120)};
  EXPECT_EQ(variants_of(worth_timing(all, 0)), (std::vector<std::string>{"direct 32x32", "32x32", "32x32 in 2 parts"}));
}

TEST(CudaPlans, OfRows) {
  EXPECT_EQ(variants_of(warp_plans(2, 4)), (std::vector<std::string>{"2 warps", "4 warps", "1 warp"}));
  EXPECT_EQ(variants_of(warp_plans(1, 4)), (std::vector<std::string>{"1 warp", "2 warps"}));
  EXPECT_EQ(variants_of(warp_plans(8, 8)), (std::vector<std::string>{"8 warps", "4 warps"}));
  GemvGroupArguments group{};
  group.count = 2;
  for (const int i : {0, 1}) group.products[i].n = 10, group.products[i].k = i ? 2048 : 100;
  for (const auto& [share, first, second] : {std::tuple(0, 1, 4), {1, 2, 4}, {-1, 1, 2}}) {
    gemv_group_prepare(group, 48, share);
    EXPECT_EQ(group.products[0].warps_per_row, first);
    EXPECT_EQ(group.products[1].warps_per_row, second);
  }
}

// What the model does not expect to be far slower, the fastest first, from several tiles.
TEST(CudaPlans, AreThoseWorthTiming) {
  const auto plan = [](int tile, int splits, double cycles) {
    return ModelledPlan<ConvPlan>{{.tile = {tile, tile, 8, 4}, .splits = splits}, cycles};
  };
  const std::vector<ModelledPlan<ConvPlan>> all{plan(128, 1, 190), plan(64, 1, 120), plan(64, 2, 100), plan(64, 4, 110),
                                                plan(32, 1, 130),  plan(32, 2, 90),  plan(16, 1, 201)};
  EXPECT_EQ(variants_of(worth_timing(all, 2)),
            (std::vector<std::string>{"64x64 in 2 parts", "32x32 in 2 parts", "64x64 in 4 parts", "32x32", "128x128"}));
}

}  // namespace
}  // namespace sparkpilot::cuda::plans_test
