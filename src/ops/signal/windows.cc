// KernelWindow functions of signal processing, as sums of cosines of 2 pi n / N (N is the size, less one if not
// periodic), and the matrix that sums a spectrum into mel bands.
#include <cmath>

#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::windows_ops {
namespace {

constexpr double kPi = 3.14159265358979323846;

DType output_dtype(const Attributes& attrs) {
  const int64_t code = attrs.integer("output_datatype", 1);
  const std::optional<DType> dtype = dtype_from_onnx(code);
  if (!dtype || !contains(NumericTypes{}, *dtype)) fail("output_datatype {} is no number type", code);
  return *dtype;
}

int64_t one_integer(const Tensor& tensor, const char* what) {
  const std::vector<int64_t> values = tensor.to_ints();
  if (values.size() != 1) fail("{} has {} values, expected one", what, values.size());
  return values[0];
}

// w(n) = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N)
struct Coefficients {
  double a0, a1, a2;
};
constexpr Coefficients kHann{0.5, 0.5, 0}, kHamming{25.0 / 46.0, 1 - 25.0 / 46.0, 0}, kBlackman{0.42, 0.5, 0.08};

void infer_window(InferContext& c) {
  const int64_t size = one_integer(c.known(0), "size");
  if (size < 0) fail("size is {}", size);
  c.output(0, output_dtype(c.attrs), {size});
}

template <const Coefficients& kWindow>
void run_window(const Call& c) {
  const View& y = c.outputs[0];
  const int64_t size = y.shape[0], period = c.attrs().integer("periodic", 1) != 0 ? size : size - 1;
  for (int64_t n = 0; n < size; ++n) {
    // A symmetric window of one value is its centre.
    const double phase = period == 0 ? kPi : 2 * kPi * static_cast<double>(n) / static_cast<double>(period);
    store_element(y.dtype, y.data, n, kWindow.a0 - kWindow.a1 * std::cos(phase) + kWindow.a2 * std::cos(2 * phase));
  }
}

std::vector<OpCase> window_cases() {
  const auto size = [](int64_t n) { return CaseInput::value(Tensor::scalar<int64_t>(n)); };
  return {{"periodic", {size(10)}},
          {"symmetric", {size(9)}, {{"periodic", int64_t{0}}}},
          {"one", {size(1)}, {{"periodic", int64_t{0}}, {"output_datatype", onnx_code(DType::f64)}}}};
}

// ---------------------------------------------------------------- MelWeightMatrix
void infer_mel(InferContext& c) {
  const int64_t bins = one_integer(c.known(0), "num_mel_bins"), length = one_integer(c.known(1), "dft_length");
  if (bins < 1 || length < 1) fail("{} mel bins of a transform of length {}", bins, length);
  for (int i = 3; i <= 4; ++i) {
    expect_float(c, i);
    if (c.shape(i).elements() != 1) fail("input {} has shape {}, expected one number", i, c.shape(i).str());
  }
  if (c.shape(2).elements() != 1) fail("input 2 has shape {}, expected one number", c.shape(2).str());
  c.output(0, output_dtype(c.attrs), {length / 2 + 1, bins});
}

// The spectrum bin of band edge i; edges are evenly spaced on the mel scale, 2595 log10(1 + f / 700).
int64_t edge_bin(int64_t i, int64_t bands, double low, double high, int64_t length, int64_t rate) {
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double at = mel(low) + static_cast<double>(i) * (mel(high) - mel(low)) / static_cast<double>(bands + 2);
  const double hertz = 700 * (std::pow(10, at / 2595) - 1);
  const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
  if (!(bin >= 0) || bin > static_cast<double>(length / 2)) {
    fail("band edge {} at {} Hz is outside the spectrum of {} samples a second", i, hertz, rate);
  }
  return static_cast<int64_t>(bin);
}

void run_mel(const Call& c) {
  const View& y = c.outputs[0];
  const int64_t bands = y.shape[1];
  const auto integer = [&](size_t i) {
    return static_cast<int64_t>(load_element(c.inputs[i].dtype, c.inputs[i].data, 0));
  };
  const auto real = [&](size_t i) { return load_element(c.inputs[i].dtype, c.inputs[i].data, 0); };
  const int64_t length = integer(1), rate = integer(2);
  if (rate < 1 || length / 2 + 1 != y.shape[0]) fail("sample_rate is {}, dft_length {}", rate, length);
  const auto edge = [&](int64_t i) { return edge_bin(i, bands, real(3), real(4), length, rate); };
  for (int64_t i = 0; i < y.elements(); ++i) store_element(y.dtype, y.data, i, 0);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t low = edge(band), middle = edge(band + 1), high = edge(band + 2);
    const auto set = [&](int64_t bin, double value) { store_element(y.dtype, y.data, bin * bands + band, value); };
    set(middle, 1);
    for (int64_t bin = low; bin < middle; ++bin) {
      set(bin, static_cast<double>(bin - low) / static_cast<double>(middle - low));
    }
    for (int64_t bin = middle; bin < high; ++bin) {
      set(bin, static_cast<double>(high - bin) / static_cast<double>(high - middle));
    }
  }
}

std::vector<OpCase> mel_cases() {
  const auto integer = [](int64_t n) { return CaseInput::value(Tensor::scalar<int64_t>(n)); };
  const auto real = [](float x) { return CaseInput::value(Tensor::scalar<float>(x)); };
  return {{"speech", {integer(8), integer(64), integer(8192), real(0), real(4000)}},
          {"narrow", {integer(20), integer(33), integer(16000), real(100), real(3000)}},
          {"f64",
           {integer(4), integer(256), integer(22050), real(20), real(8000)},
           {{"output_datatype", onnx_code(DType::f64)}}}};
}

constexpr AttrSpec kWindowAttrs[] = {{"output_datatype", AttrType::integer}, {"periodic", AttrType::integer}};
constexpr AttrSpec kMelAttrs[] = {{"output_datatype", AttrType::integer}};
constexpr Kernel kHannCpu[] = {{.name = "reference", .run = run_window<kHann>}};
constexpr Kernel kHammingCpu[] = {{.name = "reference", .run = run_window<kHamming>}};
constexpr Kernel kBlackmanCpu[] = {{.name = "reference", .run = run_window<kBlackman>}};
constexpr Kernel kMelCpu[] = {{.name = "reference", .run = run_mel}};

constexpr OpDef window(std::string_view name, std::string_view doc, std::span<const Kernel> cpu) {
  return {.name = name,
          .doc = doc,
          .since = 17,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attributes = kWindowAttrs,
          .infer = infer_window,
          .cpu = cpu,
          .no_gradient = no_gradient::kGenerated,
          .cases = window_cases};
}

const OpDef kOps[] = {
    window("HannWindow", "Hann's window of a given size.", kHannCpu),
    window("HammingWindow", "Hamming's window of a given size.", kHammingCpu),
    window("BlackmanWindow", "Blackman's window of a given size.", kBlackmanCpu),
    {.name = "MelWeightMatrix",
     .doc = "Weights that gather a spectrum's bins into mel bands.",
     .since = 17,
     .inputs = {5, 5},
     .outputs = {1, 1},
     .attributes = kMelAttrs,
     .infer = infer_mel,
     .cpu = kMelCpu,
     .no_gradient = no_gradient::kGenerated,
     .cases = mel_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::windows_ops
