#include "ops/cuda/words_check.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/cuda/images.h"
#include "ops/cuda/kernels.h"

namespace sparkpilot::cuda {
namespace {

uint32_t element(std::span<const std::byte> bytes, size_t i, size_t size) {
  uint32_t out = 0;
  std::memcpy(&out, bytes.data() + i * size, size);  // little-endian, as every GPU's host
  return out;
}

// A number with its bits.
std::string shown(const WordCase& c, size_t i, uint32_t bits) {
  const auto digits = static_cast<int>(2 * c.element_bytes);
  if (i < c.floats_from) return fmt::format("{:0{}x}", bits, digits);
  return fmt::format("{:.9g} ({:0{}x})", std::bit_cast<float>(bits), bits, digits);
}

bool is_right(const WordCase& c, size_t i, uint32_t got) {
  const uint32_t expected = element(c.expected, i, c.element_bytes);
  if (!c.exact.empty()) {
    const double exact = c.exact[i], last_place = std::ldexp(1, std::ilogb(exact) - 23);
    return std::fabs(std::bit_cast<float>(got) - exact) <= c.last_places[i] * last_place;
  }
  if (got == expected) return true;
  return i >= c.floats_from && std::isnan(std::bit_cast<float>(got)) && std::isnan(std::bit_cast<float>(expected));
}

std::vector<std::byte> answer_of(GpuStream& stream, const WordCase& c) {
  GpuDevice& gpu = stream.gpu();
  const GpuFunction& kernel = kernel_on(gpu, "word_" + std::string(c.word));
  std::vector<std::byte> answer(c.expected.size());
  const auto size = static_cast<int64_t>(answer.size());
  const auto in = gpu.upload(c.in.data(), static_cast<int64_t>(c.in.size()));
  const auto out = gpu.allocate(size, gpu.own_place());
  stream.fill(out->data(), 0xee, size);
  stream.launch(kernel, {.threads = 64}, WordArguments{in->data(), out->data()});
  stream.copy_to_host(answer.data(), out->data(), size);
  stream.wait();
  return answer;
}

}  // namespace

std::string wrong_answer(const WordCase& c, std::span<const std::byte> answer) {
  if (answer.size() != c.expected.size())
    return fmt::format("{}: expected {} bytes, got {}", c.word, c.expected.size(), answer.size());
  const size_t count = answer.size() / c.element_bytes;
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t got = element(answer, i, c.element_bytes);
    if (is_right(c, i, got)) continue;
    if (wrong++ == 0) {
      first = fmt::format("{}: element {}: expected {}, got {}", c.word, i,
                          shown(c, i, element(c.expected, i, c.element_bytes)), shown(c, i, got));
    }
  }
  return wrong == 0 ? "" : fmt::format("{}; {} of {} differ", first, wrong, count);
}

std::vector<std::string> check_words(GpuDevice& gpu) {
  std::vector<std::string> wrong;
  GpuStream stream(gpu.shared_from_this());
  for (const WordCase& c : word_cases()) {
    if (gpu.facts().capability < c.capability) continue;
    // Only code that nvcc compiled as for 12.x has it; elsewhere the kernel stops.
    if (c.capability == 120 && kernel_on(gpu, "word_" + std::string(c.word)).ptx / 10 != 12) continue;
    try {
      std::string line = wrong_answer(c, answer_of(stream, c));
      if (!line.empty()) wrong.push_back(std::move(line));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("word {}: {}", c.word, error.what()));
    }
  }
  return wrong;
}

}  // namespace sparkpilot::cuda
