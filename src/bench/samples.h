// Inputs of a model for several runs, from files or random.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"

namespace sparkpilot {

// Fewer say little about what others are like.
inline constexpr size_t kFewSamples = 8;

// Samples of a model's inputs: for each input one tensor per sample, or a single one for all.
struct Samples {
  std::map<std::string, std::vector<Tensor>> inputs;
  size_t count = 0;
  // How many samples in a row come from one file or route and so may resemble each other; together `count`. Empty:
  // none.
  std::vector<size_t> groups = {};
};

// Arrays of files by input: each file holds one sample, or several along the first axis if the input's first dimension
// is 1. A .npz holds arrays of several inputs under their names. A folder means the .npy and .npz files in it, by name.
// `named` are pairs of an input's name (empty: the only one, or those of the .npz) and a path. With a seed,
// inputs without samples are filled as bench/inputs.h says, sample i from `seed` + i, and if none has any there are
// `random` samples; without a seed they are missing.
// Fails (user) if names, shapes or counts do not fit the session's inputs, or samples are missing; with `measured`, for
// samples that ranges or errors are measured on, also if one holds NaN or infinity, or as expect_contents() does.
Samples load_samples(const Session& session, const std::vector<std::pair<std::string, std::string>>& named,
                     std::optional<uint64_t> seed = {}, size_t random = 1, bool measured = false);

// Fails (user) if a picture (planes of colours, at least 32 by 32), or every input, is the same number everywhere in
// all samples. Other inputs may well stay the same: nobody changed lanes.
void expect_contents(const Samples& samples);

// One file's arrays by the input that each is for, found as above; not split into samples, and their shapes are not
// checked. Floats of another width than the input's are converted: NumPy makes float64 by default.
std::vector<std::pair<std::string, Tensor>> input_arrays(const Session& session, const std::string& wanted,
                                                         const std::filesystem::path& file);

// With its own memory.
Tensor copy_of(const ConstView& view);

// Writes sample i into the session's inputs.
void set_sample(Session& session, const Samples& samples, size_t i);

}  // namespace sparkpilot
