#include "ops/cuda/attention.h"

#include <cmath>

#include "ops/cuda/test_products.h"

namespace sparkpilot::cuda::attention_test {
namespace {

struct Sizes {
  int batches, heads, heads_per_key, queries, keys, size;
  int beyond = 0;       // elements between tokens
  bool masked = false;  // by [heads, queries, keys]
};

// Tokens of all heads lie together: [batch, token, head, size].
struct Case {
  Sizes s;
  int key_heads;
  long long q_token, k_token, y_token;
  std::vector<double> q, k, v, mask;
  double scale;

  Case(const TestStorage& storage, const Sizes& sizes) : s(sizes), key_heads(s.heads / s.heads_per_key) {
    q_token = s.heads * s.size + s.beyond, k_token = key_heads * s.size + s.beyond, y_token = s.heads * s.size;
    q = storage.random(size_of(s.batches * s.queries * q_token), 1, 1.0);
    k = storage.random(size_of(s.batches * s.keys * k_token), 2, 1.5);
    v = storage.random(size_of(s.batches * s.keys * k_token), 3, 1.0);
    scale = 1.0 / std::sqrt(s.size);
    if (!s.masked) return;
    mask = storage.random(size_of(s.heads * s.queries * s.keys), 4, 1.0);
    // Queries see no later keys, as in a decoder; the last query sees all.
    for (int h = 0; h < s.heads; ++h) {
      for (int i = 0; i < s.queries; ++i) {
        for (int j = i + s.keys - s.queries + 1; j < s.keys; ++j)
          mask[size_of((h * s.queries + i) * s.keys + j)] = -INFINITY;
      }
    }
  }
  std::vector<double> expected() const {
    std::vector<double> y(size_of(s.batches * s.queries * y_token));
    std::vector<double> p(size_of(s.keys));
    for (int b = 0; b < s.batches; ++b) {
      for (int h = 0; h < s.heads; ++h) {
        for (int i = 0; i < s.queries; ++i) {
          const double* const q_row = &q[size_of((b * s.queries + i) * q_token + h * s.size)];
          const auto kv = [&](int j) { return size_of((b * s.keys + j) * k_token + h / s.heads_per_key * s.size); };
          double top = -INFINITY, sum = 0;
          for (int j = 0; j < s.keys; ++j) {
            double dot = 0;
            for (int c = 0; c < s.size; ++c) dot += q_row[c] * k[kv(j) + size_of(c)];
            p[size_of(j)] = dot * scale + (s.masked ? mask[size_of((h * s.queries + i) * s.keys + j)] : 0);
            top = std::max(top, p[size_of(j)]);
          }
          for (double& x : p) x = std::exp(x - top), sum += x;
          for (int j = 0; j < s.keys; ++j) {
            for (int c = 0; c < s.size; ++c)
              y[size_of((b * s.queries + i) * y_token + h * s.size + c)] += p[size_of(j)] / sum * v[kv(j) + size_of(c)];
          }
        }
      }
    }
    return y;
  }
  AttentionArguments arguments(TestRun& run, const TestStorage& storage) const {
    AttentionArguments out{};
    out.q = run.input(storage, q);
    out.k = run.input(storage, k);
    out.v = run.input(storage, v);
    out.y = run.output(storage, size_of(s.batches * s.queries * y_token));
    out.batches = s.batches, out.heads = s.heads, out.heads_per_key = s.heads_per_key;
    out.queries = s.queries, out.keys = s.keys, out.size = s.size;
    out.scale = static_cast<float>(scale);
    out.q_batch = s.queries * q_token, out.q_head = s.size, out.q_token = q_token;
    out.k_batch = s.keys * k_token, out.k_head = s.size, out.k_token = k_token;
    out.v_batch = out.k_batch, out.v_head = out.k_head, out.v_token = k_token;
    out.y_batch = s.queries * y_token, out.y_head = s.size, out.y_token = y_token;
    if (s.masked) {
      const TestStorage& stored = storage.dtype == DType::f16 ? kStorages[0] : storage;
      out.mask = run.input(stored, mask);
      out.mask_storage = storage_of(stored);
      out.mask_head = static_cast<long long>(s.queries) * s.keys, out.mask_query = s.keys, out.mask_key = 1;
    }
    return out;
  }
  void launch(TestRun& run, const TestStorage& storage, AttentionArguments& arguments, int multiprocessors) const {
    EXPECT_TRUE(attention_accepts(arguments));
    arguments.warps_per_query = attention_warps_per_query(storage_of(storage), arguments, multiprocessors);
    run.launch(attention_name(storage_of(storage), arguments), arguments,
               attention_launch(storage_of(storage), arguments));
  }
};

// Weights of values are rounded to the storage type by attention_<storage>_<size>.
double tolerance_of(const TestStorage& storage) {
  return storage.tolerance(5e-6 + (storage.dtype == DType::f32 ? 0 : storage.last_place / 2));
}

TEST(CudaAttention, OddSizes) {
  const std::vector<Sizes> sizes{{1, 1, 1, 3, 1, 8},
                                 {2, 2, 1, 21, 70, 32, 0, true},
                                 {1, 2, 2, 20, 130, 64},
                                 {1, 1, 1, 18, 41, 24, 3},
                                 {1, 2, 1, 19, 75, 128, 8, true},
                                 {1, 1, 1, 66, 33, 80},
                                 {1, 2, 2, 1, 270, 64, 0, true},
                                 {2, 1, 1, 2, 45, 37},
                                 {1, 1, 1, 3, 40, 300}};
  for (const TestStorage& storage : kStorages) {
    for (const Sizes& s : sizes) {
      const Case test(storage, s);
      for (const int multiprocessors : {1, 48}) {  // one warp or several for each query
        if (multiprocessors == 1 && storage.dtype == DType::bf16) continue;
        TestRun run;
        AttentionArguments arguments = test.arguments(run, storage);
        test.launch(run, storage, arguments, multiprocessors);
        EXPECT_TRUE(run.near(test.expected(), tolerance_of(storage), 1.0))
            << storage.name << " " << s.queries << " x " << s.keys << " x " << s.size << ", "
            << arguments.warps_per_query << " warps";
      }
    }
  }
}

TEST(CudaAttention, NanStaysNanWhereItIsSeenAndWhatSeesNothingIsZero) {
  for (const TestStorage& storage : kStorages) {
    for (const int queries : {1, 20}) {
      Case test(storage, {1, 2, 1, queries, 40, 32, 0, true});
      const auto last = queries - 1;
      test.q[size_of(last * test.q_token + 32 + 5)] = NAN;             // of head 1
      test.k[size_of(39 * test.k_token + 7)] = NAN;                    // of head 0, a key that the last query sees
      for (int j = 0; j < 40; ++j) test.mask[size_of(j)] = -INFINITY;  // of head 0, query 0
      TestRun run;
      AttentionArguments arguments = test.arguments(run, storage);
      test.launch(run, storage, arguments, 48);
      const std::vector<double> y = run.values();
      for (int i = 0; i < queries; ++i) {
        for (int c = 0; c < 64; ++c) {
          const double value = y[size_of(i * test.y_token + c)];
          if (c < 32 && i == 0) EXPECT_EQ(value, 0) << c;
          else EXPECT_EQ(std::isnan(value), i == last) << i << " " << c;
        }
      }
    }
  }
}

TEST(CudaAttention, KernelsAndBlocks) {
  AttentionArguments arguments{};
  arguments.batches = 1, arguments.heads = 8, arguments.queries = 100, arguments.keys = 100, arguments.size = 64;
  EXPECT_EQ(attention_name(Storage::f16, arguments), "attention_f16_64");
  EXPECT_EQ(attention_name(Storage::f32, arguments), "attention_rows_f32");
  arguments.warps_per_query = attention_warps_per_query(Storage::f16, arguments, 48);
  EXPECT_EQ(arguments.warps_per_query, 4);
  EXPECT_EQ(attention_launch(Storage::f16, arguments).grid_x, 7u);
  arguments.queries = 1;
  EXPECT_EQ(attention_name(Storage::bf16, arguments), "attention_rows_bf16");
  EXPECT_EQ(attention_warps_per_query(Storage::bf16, arguments, 48), 8);
  arguments.queries = 4096, arguments.size = 100;
  EXPECT_EQ(attention_name(Storage::bf16, arguments), "attention_bf16_128");
  EXPECT_EQ(attention_warps_per_query(Storage::bf16, arguments, 48), 1);
}

// Of a head of 64 elements, tokens apart: 16 bytes a lane, no sector in part, no conflict of banks.
TEST(CudaAttention, Traffic) {
  for (const TestStorage& storage : kStorages) {
    for (const int size : {32, 64, 128}) {
      if (storage.dtype != DType::f16 && size > 32) continue;
      const Case test(storage, {1, 2, 1, 32, 64, size});
      TestRun run;
      run.count_traffic();
      AttentionArguments arguments = test.arguments(run, storage);
      test.launch(run, storage, arguments, 1);
      run.values();
      for (const emulator::Checker::Traffic& line : run.traffic()) {
        // An asynchronous copy counts once as read from global and once as written to shared memory. Without them
        // (f32) a lane reads its own key, half a sector at once.
        EXPECT_LE(line.worst_bank, 2) << line.line;
        const double least = storage.dtype == DType::f32 ? 0.4 : line.shared ? 1.8 : 0.9;
        EXPECT_GE(line.used(), line.sectors ? least : 0.0) << line.line;
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::attention_test
