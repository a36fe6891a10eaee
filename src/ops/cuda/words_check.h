// The words of device.cuh on a GPU: each one's kernel (words.inc) with fixed inputs, against the word's definition. The
// emulator is held to the same answers by its tests, so this needs no emulator.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/gpu.h"

namespace sparkpilot::cuda {

// One run of a word's kernel: what it reads, and what it must write.
struct WordCase {
  std::string_view word;
  int capability = 0;  // least compute capability x 10
  std::vector<std::byte> in, expected;
  size_t element_bytes = 4;   // of `expected`
  size_t floats_from = ~0ul;  // elements from here on are f32, of which every NaN equals every other
  // Of approximate words: the values in double, and by how many last places each may differ.
  std::vector<double> exact, last_places;
};

// Every word of words.inc at least once, in its order. Sums of products are whole numbers or fractions that are exact
// in any order.
const std::vector<WordCase>& word_cases();

// "mma_f16: element 3: expected 12 (41400000), got 13 (41500000); 2 of 128 differ"; empty if `answer` is right.
std::string wrong_answer(const WordCase& word_case, std::span<const std::byte> answer);

// Runs every word that this GPU has on it; a line of wrong_answer() for each that is wrong. Fails (device) with the
// word's name if the driver does.
std::vector<std::string> check_words(GpuDevice& gpu);

}  // namespace sparkpilot::cuda
