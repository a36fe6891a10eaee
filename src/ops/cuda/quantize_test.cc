#include "ops/cuda/quantize.h"

#include <limits>

#include "ops/cuda/test_elements.h"

namespace sparkpilot::cuda::quantize_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Code {
  ByteCode code;
  TestStorage storage;
  int zero;
};
const std::vector<Code> kCodes = {{ByteCode::u8, {"u8", DType::u8, 0, 0}, 117},
                                  {ByteCode::i8, {"i8", DType::i8, 0, 0}, -5},
                                  {ByteCode::e4m3, {"e4m3", DType::f8e4m3fn, 0, 0}, 0}};

size_t at(int i) { return static_cast<size_t>(i); }

// What ONNX defines of one number; a tie goes to the even code.
double code_of(const Code& code, double x, float scale) {
  const float v = static_cast<float>(x) / scale;
  if (code.code == ByteCode::e4m3) {
    uint8_t byte = 0;
    store_element(DType::f8e4m3fn, &byte, 0, static_cast<double>(v), true);
    return load_element(DType::f8e4m3fn, &byte, 0);
  }
  const double low = code.code == ByteCode::i8 ? -128 : 0, rounded = std::nearbyint(static_cast<double>(v)) + code.zero;
  return rounded >= low ? std::min(rounded, low + 255) : low;
}

// All sizes of a thread's last elements, numbers that saturate, ties, NaN; addresses that are no multiple of 16.
TEST(CudaQuantize, RoundsAsOnnxDefines) {
  for (const Code& code : kCodes) {
    for (const TestElement& element : {kElements[0], kElements[1], kElements[2]}) {
      for (const int count : {1, 7, 8, 1029, 1032}) {
        for (const int shift : {0, 1}) {
          const float scale = code.code == ByteCode::e4m3 ? 0.0078125f * 3 : 0.25f;
          std::vector<double> x = element.storage.random(at(count + shift), 1, 40);
          if (count > 100) {
            x[40] = NAN, x[41] = kInfinity, x[42] = -kInfinity, x[43] = 0, x[44] = -0.0;
            for (int i = 0; i < 20; ++i) x[at(50 + i)] = 0.125 * i;  // ties of 0.25
          }
          TestRun run;
          QuantizeArguments p{};
          const auto* const from = static_cast<const uint8_t*>(run.input(element.storage, x));
          p.x = const_cast<uint8_t*>(from) + shift * static_cast<int>(element.storage.bytes());
          p.codes = run.output(code.storage, at(count));
          p.type = element.type, p.code = code.code, p.scale = scale, p.zero = code.zero, p.elements = count;
          run.launch("quantize", p, quantize_launch(p.elements));
          const std::vector<double> y = run.values();
          for (int i = 0; i < count; ++i) {
            const double expected = code_of(code, x[at(i + shift)], scale);
            if (std::isnan(expected)) EXPECT_TRUE(std::isnan(y[at(i)]));
            else ASSERT_EQ(y[at(i)], expected) << code.storage.name << " " << element.storage.name << " " << i;
          }
        }
      }
    }
  }
}

TEST(CudaQuantize, EveryCodeComesBack) {
  for (const Code& code : kCodes) {
    for (const TestElement& element : {kElements[0], kElements[1], kElements[2]}) {
      for (const int shift : {0, 3}) {
        std::vector<uint8_t> codes(256 + at(shift));
        for (int i = 0; i < 256; ++i) codes[at(i + shift)] = static_cast<uint8_t>(i);
        const float scale = 0.0371f;
        TestRun run;
        QuantizeArguments p{};
        p.codes = const_cast<uint8_t*>(static_cast<const uint8_t*>(run.bytes(codes.data(), codes.size()))) + shift;
        p.x = run.output(element.storage, 256);
        p.type = element.type, p.code = code.code, p.scale = scale, p.zero = code.zero, p.elements = 256;
        run.launch("dequantize", p, quantize_launch(p.elements));
        const std::vector<double> x = run.values();
        for (int i = 0; i < 256; ++i) {
          const double value = load_element(code.storage.dtype, &codes[at(i + shift)], 0) - code.zero;
          const double expected = element.storage.rounded(static_cast<double>(static_cast<float>(value) * scale));
          if (std::isnan(expected)) EXPECT_TRUE(std::isnan(x[at(i)]));
          else ASSERT_EQ(x[at(i)], expected) << code.storage.name << " " << element.storage.name << " " << i;
        }
      }
    }
  }
}

// Every code, with one scale, with one for each index of an axis, and with blocks whose last one is shorter; addresses
// that are no multiple of 16.
TEST(CudaQuantize, DecodesWithTheScalesOfAnAxisAndOfBlocks) {
  struct Case {
    int outer, size, inner, block;  // block 0: a scale for each index; -1: one for all
  };
  for (const bool four_bits : {false, true}) {
    const DType dtype = four_bits ? DType::f4e2m1 : DType::f8e4m3fn;
    for (const auto& [outer, size, inner, block] : {Case{1, 5, 7, 0},
                                                    {3, 37, 1, 0},
                                                    {1, 64, 24, 0},
                                                    {2, 3, 513, 0},
                                                    {1, 1, 1029, -1},
                                                    {1, 37, 5, 16},
                                                    {6, 21, 1, 16},
                                                    {2, 48, 16, 16},
                                                    {1, 1, 9, 4}}) {
      for (const int shift : {0, 1}) {
        const int count = outer * size * inner, blocks = block > 0 ? (size + block - 1) / block : 1;
        const int scales = block > 0 ? outer * blocks * inner : block == 0 ? size : 1;
        std::vector<uint8_t> codes(at(count + shift));
        for (int i = 0; i < count; ++i) codes[at(i + shift)] = static_cast<uint8_t>(i * 7);
        const std::vector<double> scale = kElements[0].storage.random(at(scales), 5, 0.3);
        TestRun run;
        DecodeArguments p{};
        p.codes = static_cast<const uint8_t*>(run.bytes(codes.data(), codes.size())) + shift;
        p.scales = static_cast<const float*>(run.input(kElements[0].storage, scale));
        p.x = static_cast<float*>(run.output(kElements[0].storage, at(count)));
        p.four_bits = four_bits, p.elements = count, p.size = size, p.inner = inner, p.block = std::max(block, 1);
        if (block > 0) p.outer_stride = blocks * inner, p.axis_stride = inner, p.inner_stride = 1;
        if (block == 0) p.axis_stride = 1;
        run.launch("decode_scaled", p, quantize_launch(count));
        const std::vector<double> x = run.values();
        for (int i = 0; i < count; ++i) {
          const int o = i / inner / size, a = i / inner % size, j = i % inner;
          const int from = block > 0 ? (o * blocks + a / block) * inner + j : block == 0 ? a : 0;
          const double value = load_element(dtype, codes.data() + shift, i);
          const double expected = static_cast<double>(static_cast<float>(value) * static_cast<float>(scale[at(from)]));
          if (std::isnan(expected)) EXPECT_TRUE(std::isnan(x[at(i)]));
          else ASSERT_EQ(x[at(i)], expected) << four_bits << " " << size << " " << inner << " " << block << " " << i;
        }
      }
    }
  }
}

// By the range of all numbers and 0: of both signs, of one, of none; NaN and infinities as on the CPU.
TEST(CudaQuantize, ByTheRangeOfTheData) {
  for (const auto& [count, low, high, special] : {std::tuple(1029, -3.0, 5.0, 0.0),
                                                  {1, 2.0, 2.0, 0.0},
                                                  {512, 1.0, 9.0, 0.0},
                                                  {77, -9.0, -1.0, 0.0},
                                                  {600, 0.0, 0.0, 0.0},
                                                  {1030, -3.0, 5.0, static_cast<double>(NAN)},
                                                  {40, -3.0, 5.0, static_cast<double>(kInfinity)}}) {
    Random random(3);
    std::vector<double> x(at(count));
    for (double& each : x) each = static_cast<float>(random.uniform(low, high));
    if (special != 0) x[at(count / 2)] = special;
    float least = 0, most = 0;
    for (const double each : x) {
      least = each < least ? static_cast<float>(each) : least;
      most = each > most ? static_cast<float>(each) : most;
    }
    const float scale = most == least ? 1 : (most - least) / 255, v = -least / scale;
    const float zero = v >= 0 ? std::nearbyint(std::min(v, 255.0f)) : 0;
    std::vector<double> expected;
    for (const double each : x) {
      const float code = std::nearbyint(static_cast<float>(each) / scale) + zero;
      expected.push_back(code >= 0 ? static_cast<double>(std::min(code, 255.0f)) : 0);
    }
    for (const char* what : {"codes", "scale", "zero"}) {
      TestRun run;
      DynamicQuantizeArguments p{};
      p.x = static_cast<const float*>(run.input(kElements[0].storage, x));
      void* const out =
          run.output(*what == 's' ? kElements[0].storage : kCodes[0].storage, *what == 'c' ? at(count) : 1);
      p.codes = static_cast<uint8_t*>(*what == 'c' ? out : run.scratch(at(count)));
      p.scale = static_cast<float*>(*what == 's' ? out : run.scratch(4));
      p.zero = static_cast<uint8_t*>(*what == 'z' ? out : run.scratch(1));
      p.elements = count;
      run.launch("dynamic_quantize", p, dynamic_quantize_launch());
      const std::vector<double> y = run.values();
      if (*what == 'c') EXPECT_EQ(y, expected) << count << " " << special;
      else EXPECT_EQ(y[0], static_cast<double>(*what == 's' ? scale : zero)) << what << " " << count << " " << special;
    }
  }
}

// Whole sectors, on both sides.
TEST(CudaQuantize, Traffic) {
  for (const char* kernel : {"quantize", "dequantize"}) {
    const bool to_codes = kernel[0] == 'q';
    const std::vector<double> x = kElements[0].storage.random(4096, 1, 4);
    const std::vector<uint8_t> codes(4096, 7);
    TestRun run;
    run.count_traffic();
    QuantizeArguments p{};
    if (to_codes) {
      p.x = const_cast<void*>(run.input(kElements[0].storage, x)), p.codes = run.output(kCodes[0].storage, 4096);
    } else {
      p.codes = const_cast<void*>(run.bytes(codes.data(), codes.size())), p.x = run.output(kElements[0].storage, 4096);
    }
    p.scale = 0.5f, p.elements = 4096;
    run.launch(kernel, p, quantize_launch(p.elements));
    run.values();
    uint64_t moved = 0;
    for (const emulator::Checker::Traffic& line : run.traffic()) moved += line.used() > 0.45 ? line.bytes : 0;
    EXPECT_EQ(moved, 4096u * 5) << kernel;
  }
  for (const bool four_bits : {false, true}) {
    const std::vector<uint8_t> codes(4096, 7);
    const std::vector<double> scale(1, 0.5);
    TestRun run;
    run.count_traffic();
    DecodeArguments p{};
    p.codes = run.bytes(codes.data(), codes.size());
    p.scales = static_cast<const float*>(run.input(kElements[0].storage, scale));
    p.elements = p.inner = four_bits ? 8192 : 4096, p.size = p.block = 1, p.four_bits = four_bits;
    p.x = static_cast<float*>(run.output(kElements[0].storage, at(p.elements)));
    run.launch("decode_scaled", p, quantize_launch(p.elements));
    run.values();
    uint64_t moved = 0;
    for (const emulator::Checker::Traffic& line : run.traffic()) moved += line.used() > 0.45 ? line.bytes : 0;
    EXPECT_EQ(moved, 4096u + 4 * at(p.elements) + 4 * at(p.elements) / 8) << four_bits;  // each thread reads a scale
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::quantize_test
