#include "ops/cuda/quantized.h"

#include "ops/cuda/test_products.h"

namespace sparkpilot::cuda::quantized_test {
namespace {

const TestStorage &kF32 = kStorages[0], kI32{"i32", DType::i32, 0, 0}, kU8{"u8", DType::u8, 0, 0},
                  kI8{"i8", DType::i8, 0, 0};

std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> out(count);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random.integer(0, 255));
  return out;
}
int number(uint8_t byte, bool is_signed) { return is_signed ? static_cast<int8_t>(byte) : byte; }

// Columns with a bias, a multiplier and a shift, and the input's zero point.
struct Result {
  ByteResult::Type type;
  bool x_signed;
  int x_zero;
  std::vector<int32_t> bias;
  std::vector<double> multiplier, shift;
  float low, high, zero;

  Result(ByteResult::Type type, bool x_signed, int n, int depth) : type(type), x_signed(x_signed) {
    x_zero = x_signed ? -7 : 117;
    Random random(9);
    for (int i = 0; i < n; ++i) bias.push_back(static_cast<int32_t>(random.integer(-20000, 20000)));
    multiplier = kF32.random(size_of(n), 10, 0.01 / std::sqrt(depth));
    shift = kF32.random(size_of(n), 11, 5);
    low = type == ByteResult::i8 ? -100 : 20, high = type == ByteResult::i8 ? 127 : 240,
    zero = type == ByteResult::i8 ? -5 : 120;
  }
  const TestStorage& storage() const {
    return type == ByteResult::u8 ? kU8 : type == ByteResult::i8 ? kI8 : type == ByteResult::i32 ? kI32 : kF32;
  }
  int flipped_zero() const { return x_zero - (x_signed ? 0 : 128); }
  // `at_run`: the zero point lies in memory.
  ByteResult bound(TestRun& run, const std::vector<int>& sums_of_weights, bool at_run = false) const {
    std::vector<int32_t> start;
    for (size_t c = 0; c < bias.size(); ++c)
      start.push_back(bias[c] - (at_run ? 0 : flipped_zero() * sums_of_weights[c]));
    const auto zero_byte = static_cast<uint8_t>(x_zero);
    return {.type = type,
            .flip = x_signed ? 0 : 0x80808080u,
            .start = static_cast<const int*>(run.bytes(start.data(), start.size() * 4)),
            .multiplier = static_cast<const float*>(run.input(kF32, multiplier)),
            .shift = static_cast<const float*>(run.input(kF32, shift)),
            .low = low,
            .high = high,
            .zero = zero,
            .x_zero = at_run ? static_cast<const uint8_t*>(run.bytes(&zero_byte, 1)) : nullptr,
            .weight_sums = static_cast<const int*>(run.bytes(sums_of_weights.data(), sums_of_weights.size() * 4))};
  }
  double of(int64_t sum, size_t column) const {
    sum += bias[column];
    if (type == ByteResult::i32) return static_cast<double>(sum);
    const float v =
        std::fma(static_cast<float>(sum), static_cast<float>(multiplier[column]), static_cast<float>(shift[column]));
    if (type == ByteResult::f32) return static_cast<double>(v);
    return static_cast<double>(std::fmin(std::fmax(std::nearbyint(v) + zero, low), high));
  }
};

constexpr ByteResult::Type kTypes[] = {ByteResult::u8, ByteResult::i8, ByteResult::i32, ByteResult::f32};

struct Product {
  int m, n, k;
  long long a_stride, code_bytes;
  std::vector<uint8_t> a, codes;
  Result result;
  std::vector<int> sums;
  std::vector<double> expected;

  Product(int m, int n, int k, int beyond, ByteResult::Type type, bool x_signed)
      : m(m),
        n(n),
        k(k),
        a_stride(k + beyond),
        code_bytes(byte_gemm_depth(k)),
        result(type, x_signed, n, k),
        sums(size_of(n)) {
    a = random_bytes(size_of(m * a_stride), 1);
    const std::vector<uint8_t> weights = random_bytes(size_of(n * k), 2);
    codes.resize(size_of(n * code_bytes));
    for (int j = 0; j < n; ++j) {
      std::copy_n(weights.begin() + j * k, k, codes.begin() + j * code_bytes);
      for (int l = 0; l < k; ++l) sums[size_of(j)] += number(weights[size_of(j * k + l)], true);
    }
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int l = 0; l < k; ++l)
          sum += (number(a[size_of(i * a_stride + l)], x_signed) - result.x_zero) *
                 number(weights[size_of(j * k + l)], true);
        expected.push_back(result.of(sum, size_of(j)));
      }
    }
  }
  void launch(TestRun& run, bool at_run = false) const {
    QGemmArguments p{};
    p.a = static_cast<const uint8_t*>(run.bytes(a.data(), a.size()));
    p.codes = static_cast<const uint8_t*>(run.bytes(codes.data(), codes.size()));
    p.y = run.output(result.storage(), size_of(m * n));
    p.m = m, p.n = n, p.k = k;
    p.code_bytes = code_bytes, p.a_stride = a_stride, p.y_stride = n;
    p.result = result.bound(run, sums, at_run);
    run.launch("qgemm_" + std::to_string(byte_gemm_rows(m)), p, byte_gemm_launch(m, n));
  }
};

TEST(CudaQuantized, Products) {
  size_t turn = 0;
  for (const bool x_signed : {false, true}) {
    for (const auto& [m, n, k, beyond] : std::vector<std::tuple<int, int, int, int>>{
             {1, 1, 1, 0}, {1, 40, 1024, 0}, {8, 17, 264, 0}, {3, 20, 77, 3}, {9, 16, 1030, 2}, {70, 18, 144, 16}}) {
      const Product test(m, n, k, beyond, kTypes[turn++ % 4], x_signed);
      TestRun run;
      test.launch(run, turn % 3 == 0);
      EXPECT_TRUE(run.near(test.expected, 0)) << m << " x " << n << " x " << k << " " << test.result.storage().name;
    }
  }
}

// The largest sums, of 2^15 products with a bias of 2^30, neither wrap nor saturate.
TEST(CudaQuantized, TheLargestSums) {
  for (const bool negative : {false, true}) {
    Product test(1, 2, 1 << 15, 0, ByteResult::i32, false);
    std::fill(test.a.begin(), test.a.end(), 255);
    std::fill(test.codes.begin(), test.codes.end(), negative ? 0x80 : 0x7f);
    const int weight = negative ? -128 : 127;
    test.sums.assign(2, weight * (1 << 15));
    test.result.x_zero = 0;
    test.result.bias.assign(2, negative ? -(1 << 30) : 1 << 30);
    test.expected.assign(2, 255.0 * weight * (1 << 15) + test.result.bias[0]);
    TestRun run;
    test.launch(run);
    EXPECT_TRUE(run.near(test.expected, 0)) << negative;
  }
}

// Every weight is read once where one block has all rows, in whole sectors.
TEST(CudaQuantized, Traffic) {
  for (const int m : {1, 8, 32}) {
    const Product test(m, 64, 512, 0, ByteResult::u8, false);
    TestRun run;
    run.count_traffic();
    test.launch(run);
    run.values();
    uint64_t read = 0;
    for (const emulator::Checker::Traffic& line : run.traffic()) {
      if (line.shared) EXPECT_LE(line.worst_bank, 2) << line.line;
      else if (line.bytes == test.codes.size() && line.used() > 0.9) read += line.bytes;
    }
    EXPECT_GE(read, test.codes.size()) << m;
  }
}

struct ConvCase {
  int batch, height, width, channels, out_channels, kernel, stride, dilation, pad;
  bool depthwise;
};

void convolution(const ConvCase& c, ByteResult::Type type, bool x_signed, bool at_run) {
  QConvArguments p{};
  ConvSizes& s = p.size;
  s.batch = c.batch, s.height = c.height, s.width = c.width, s.channels = c.channels, s.out_channels = c.out_channels;
  s.kernel_height = c.kernel, s.kernel_width = std::max(1, c.kernel - 1);
  s.stride_height = s.stride_width = c.stride;
  s.dilation_height = s.dilation_width = c.dilation;
  s.pad_top = c.pad, s.pad_left = c.pad;
  s.out_height = (c.height + 2 * c.pad - c.dilation * (s.kernel_height - 1) - 1) / c.stride + 1;
  s.out_width = (c.width + 2 * c.pad - c.dilation * (s.kernel_width - 1) - 1) / c.stride + 1;
  p.by = conv_divisors(s);
  const int taps = s.kernel_height * s.kernel_width, in = c.depthwise ? 1 : c.channels;
  p.m = c.batch * s.out_height * s.out_width, p.n = c.out_channels, p.k = in * taps;
  p.code_bytes = byte_gemm_depth(p.k);
  const Result result(type, x_signed, p.n, p.k);
  const std::vector<uint8_t> x = random_bytes(size_of(c.batch * c.height * c.width * c.channels), 1);
  const std::vector<uint8_t> weights = random_bytes(size_of(p.n * p.k), 2);  // [output][tap][channel]
  std::vector<uint8_t> codes(size_of(c.depthwise ? taps * p.n : p.n * p.code_bytes));
  std::vector<int> sums(size_of(p.n));
  for (int o = 0; o < p.n; ++o) {
    for (int l = 0; l < p.k; ++l) {
      const uint8_t weight = weights[size_of(o * p.k + l)];
      codes[size_of(c.depthwise ? l * p.n + o : o * p.code_bytes + l)] = weight;
      sums[size_of(o)] += number(weight, true);
    }
  }
  std::vector<double> expected;
  for (int pixel = 0; pixel < p.m; ++pixel) {
    const int column = pixel % s.out_width, row = pixel / s.out_width % s.out_height,
              image = pixel / s.out_width / s.out_height;
    for (int o = 0; o < p.n; ++o) {
      int64_t sum = 0;
      for (int tap = 0; tap < taps; ++tap) {
        const int h = row * c.stride - c.pad + tap / s.kernel_width * c.dilation;
        const int w = column * c.stride - c.pad + tap % s.kernel_width * c.dilation;
        if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
        for (int i = 0; i < in; ++i) {
          const int channel = c.depthwise ? o / (p.n / c.channels) : i;
          sum += (number(x[size_of(((image * c.height + h) * c.width + w) * c.channels + channel)], x_signed) -
                  result.x_zero) *
                 number(weights[size_of(o * p.k + tap * in + i)], true);
        }
      }
      expected.push_back(result.of(sum, size_of(o)));
    }
  }
  TestRun run;
  p.a = static_cast<const uint8_t*>(run.bytes(x.data(), x.size()));
  p.codes = static_cast<const uint8_t*>(run.bytes(codes.data(), codes.size()));
  p.y = run.output(result.storage(), size_of(p.m * p.n));
  if (!at_run) p.padding = static_cast<uint8_t>(result.flipped_zero()) * 0x01010101u;
  p.result = result.bound(run, sums, at_run);
  std::string kernel;
  if (c.depthwise) {
    const int unit = qdepthwise_unit(s);
    run.launch(kernel = "qdepthwise_" + std::to_string(unit), p, qdepthwise_launch(p, unit));
  } else {
    kernel = "qconv_" + std::to_string(byte_conv_unit(s)) + "_" + std::to_string(byte_conv_pixels(p.k));
    run.launch(kernel, p, byte_conv_launch(p.m, p.n, p.k));
  }
  run.count_traffic();
  EXPECT_TRUE(run.near(expected, 0)) << kernel << " " << c.channels << " channels, " << p.m << " pixels";
  for (const emulator::Checker::Traffic& line : run.traffic()) EXPECT_LE(line.worst_bank, 2) << line.line;
}

TEST(CudaQuantized, Convolutions) {
  size_t turn = 0;
  for (const ConvCase& c : {ConvCase{1, 9, 7, 48, 37, 1, 1, 1, 0, false},  // by 16 bytes
                            {2, 5, 6, 16, 20, 3, 1, 1, 1, false},
                            {1, 9, 8, 64, 17, 3, 2, 1, 1, false},
                            {1, 11, 9, 32, 18, 3, 1, 2, 2, false},
                            {1, 15, 13, 12, 33, 3, 2, 1, 1, false},  // by 4
                            {2, 7, 6, 20, 9, 5, 1, 1, 2, false},
                            {1, 13, 12, 3, 16, 3, 2, 1, 1, false},  // one by one
                            {1, 6, 7, 19, 5, 4, 1, 1, 1, false}}) {
    for (const bool x_signed : {false, true}) convolution(c, kTypes[turn % 4], x_signed, turn % 3 == 0), ++turn;
    ++turn;
  }
}

TEST(CudaQuantized, FiltersOfEachChannel) {
  size_t turn = 0;
  for (const ConvCase& c : {ConvCase{2, 9, 8, 32, 32, 3, 1, 1, 1, true},
                            {1, 7, 9, 19, 19, 5, 2, 1, 2, true},
                            {1, 7, 6, 8, 24, 3, 2, 1, 1, true},
                            {1, 11, 9, 8, 8, 3, 1, 2, 3, true}}) {
    for (const bool x_signed : {false, true}) convolution(c, kTypes[turn % 4], x_signed, turn % 3 == 0), ++turn;
    ++turn;
  }
}

// Pads that count and pads that do not, of images of either sign and layout; and the largest.
TEST(CudaQuantized, Windows) {
  for (const auto& [x_signed, channels_first, average] :
       {std::tuple(false, false, true), {true, true, true}, {false, true, false}, {true, false, false}}) {
    BytePoolArguments p{};
    PoolArguments& w = p.window;
    w.batch = 2, w.channels = 19, w.height = 9, w.width = 7;
    w.kernel_height = 3, w.kernel_width = 2, w.stride_height = 2, w.stride_width = 1;
    w.dilation_width = 2;
    w.pad_top = 1, w.pad_left = 1, w.pad_bottom = 1;
    w.out_height = 5, w.out_width = 6;
    w.count_padding = x_signed, w.channels_first = channels_first, w.average = average;
    p.x_signed = x_signed, p.y_signed = average ? !x_signed : x_signed;
    p.x_zero = x_signed ? -3 : 120, p.y_zero = x_signed ? 90 : -20, p.scale = 1.7f;
    const std::vector<uint8_t> x = random_bytes(size_of(w.batch * w.height * w.width * w.channels), 1);
    const auto place = [&, first = channels_first](int image, int channel, int h, int width, int height, int columns) {
      return size_of(first ? ((image * w.channels + channel) * height + h) * columns + width
                           : ((image * height + h) * columns + width) * w.channels + channel);
    };
    std::vector<double> expected(size_of(w.batch * w.out_height * w.out_width * w.channels));
    for (size_t at = 0; at < expected.size(); ++at) {
      const int i = static_cast<int>(at), channel = i % w.channels, pixel = i / w.channels,
                column = pixel % w.out_width;
      const int row = pixel / w.out_width % w.out_height, image = pixel / w.out_width / w.out_height;
      int sum = 0, inside = 0, positions = 0, largest = -128;
      for (int ky = 0; ky < 3; ++ky) {
        for (int kx = 0; kx < 2; ++kx) {
          const int h = row * 2 - 1 + ky, from = column - 1 + kx * 2;
          positions += h < w.height + 1 && from < w.width;
          if (h < 0 || h >= w.height || from < 0 || from >= w.width) continue;
          ++inside;
          const int element = number(x[place(image, channel, h, from, w.height, w.width)], x_signed);
          sum += element - p.x_zero;
          largest = std::max(largest, element);
        }
      }
      const float scale = p.scale / static_cast<float>(w.count_padding ? positions : inside);
      const float low = p.y_signed ? -128.0f : 0.0f, q = std::nearbyint(static_cast<float>(sum) * scale) + p.y_zero;
      const double mean = static_cast<double>(std::fmin(std::fmax(q, low), low + 255));
      expected[place(image, channel, row, column, w.out_height, w.out_width)] = average ? mean : largest;
    }
    TestRun run;
    w.x = run.bytes(x.data(), x.size());
    w.y = run.output(p.y_signed ? kI8 : kU8, expected.size());
    run.launch("byte_pool", p, byte_pool_launch(w));
    EXPECT_TRUE(run.near(expected, 0)) << x_signed << channels_first << average;
  }
}

uint8_t square(int x) { return static_cast<uint8_t>(x * x / 255); }

// 16 at once, and those that are left or do not lie together.
TEST(CudaQuantized, ElementsBetween) {
  for (const auto& [count, shift] : {std::pair(5, 0), {4099, 0}, {2048, 0}, {100, 3}}) {
    for (const bool is_signed : {false, true}) {
      const std::vector<uint8_t> a = random_bytes(size_of(count + shift), 1),
                                 b = random_bytes(size_of(count + shift), 2);
      QAddArguments p{};
      p.a_signed = is_signed, p.b_signed = !is_signed;
      p.a_zero = is_signed ? -9 : 131, p.b_zero = is_signed ? 77 : -128, p.zero = is_signed ? 5 : 101;
      p.a_scale = 0.731f, p.b_scale = 0.402f;
      p.low = -60, p.high = 77, p.elements = count;
      std::vector<double> sums, squares;
      for (int i = shift; i < count + shift; ++i) {
        const float product = static_cast<float>(number(b[size_of(i)], p.b_signed) - p.b_zero) * p.b_scale;
        const float v = std::fma(static_cast<float>(number(a[size_of(i)], p.a_signed) - p.a_zero), p.a_scale, product);
        sums.push_back(static_cast<double>(std::fmin(std::fmax(std::nearbyint(v), p.low), p.high)) + p.zero);
        squares.push_back(square(a[size_of(i)]));
      }
      TestRun run;
      p.a = static_cast<const uint8_t*>(run.bytes(a.data(), a.size())) + shift;
      p.b = static_cast<const uint8_t*>(run.bytes(b.data(), b.size())) + shift;
      p.y = run.output(is_signed ? kI8 : kU8, size_of(count));
      run.launch("qadd", p, byte_elements_launch(count));
      EXPECT_TRUE(run.near(sums, 0)) << count << " " << is_signed;

      std::vector<uint8_t> table(256);
      for (int i = 0; i < 256; ++i) table[size_of(i)] = square(i);
      TestRun looked_up;
      ByteTableArguments t{};
      t.table = static_cast<const uint8_t*>(looked_up.bytes(table.data(), table.size()));
      t.x = static_cast<const uint8_t*>(looked_up.bytes(a.data(), a.size())) + shift;
      t.y = looked_up.output(kU8, size_of(count));
      t.elements = count;
      looked_up.launch("byte_table", t, byte_elements_launch(count));
      EXPECT_TRUE(looked_up.near(squares, 0)) << count;
    }
  }
}

}  // namespace
}  // namespace sparkpilot::cuda::quantized_test
