#include "bench/samples.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "bench/inputs.h"
#include "bench/summary.h"
#include "stack/wheel.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    const fs::path kind = entry.path().extension();
    if (kind == ".npy" || kind == ".npz") files.push_back(entry.path());
  }
  if (files.empty()) fail("{}: no .npy or .npz files in this folder", path);
  std::sort(files.begin(), files.end());
  return files;
}

// A file's arrays by name; the array of a .npy has no name.
std::vector<std::pair<std::string, Tensor>> arrays_of(const fs::path& file) {
  constexpr uint64_t kLimit = uint64_t{1} << 31;
  if (file.extension() != ".npz") return {{"", load_npy(file)}};
  std::vector<std::pair<std::string, Tensor>> arrays;
  const stack::Wheel archive{InputFile(file)};
  for (const stack::Wheel::Member& member : archive.members()) {
    const fs::path name(member.name);
    if (name.extension() != ".npy") continue;
    const std::string bytes = archive.text(member, kLimit);
    arrays.emplace_back((name.parent_path() / name.stem()).string(),
                        parse_npy(std::as_bytes(std::span(bytes)), file.string() + "!" + member.name));
  }
  if (arrays.empty()) fail("{}: no arrays in it", file.string());
  return arrays;
}

// Planes of colours, not a mask or what an attention keeps.
bool is_picture(const Shape& shape) {
  return shape.rank() == 4 && shape[1] % 3 == 0 && shape[2] >= 32 && shape[3] >= 32;
}

// Splits an array into samples: it is one, or holds several along the first axis.
void split_samples(const Tensor& array, const TensorInfo& input, const std::string& file, bool measured,
                   std::vector<Tensor>& out) {
  if (!input.shape) fail("input \"{}\" has open dimensions: give them with --dim or --shape", input.name);
  const Shape& want = *input.shape;
  if (array.dtype() != input.dtype) {
    fail("{}: holds {}, input \"{}\" is {}", file, name(array.dtype()), input.name, name(input.dtype));
  }
  const Shape& have = array.shape();
  const bool several = want.rank() > 0 && want[0] == 1 && have.rank() == want.rank() && have.with(0, 1) == want;
  if (!(have == want) && !several) {
    fail("{}: shape {}, input \"{}\" is {}", file, have.str(), input.name, want.str());
  }
  const int64_t count = several ? have[0] : 1;
  if (count == 0) fail("{}: no samples in it", file);
  const int64_t bytes = storage_bytes(array.dtype(), want.elements());
  for (int64_t i = 0; i < count; ++i) {
    Tensor sample(array.dtype(), want);
    std::memcpy(sample.raw(), static_cast<const std::byte*>(array.raw()) + i * bytes, static_cast<size_t>(bytes));
    const TensorSummary summary = summarize(sample.view());
    // A mask that is added to logits may hold -infinity.
    if (measured && summary.nan + summary.infinite > 0) {
      fail("{}: sample {} of input \"{}\" holds NaN or infinity, expected finite numbers", file, i, input.name);
    }
    out.push_back(std::move(sample));
  }
}

const TensorInfo& input_named(const Session& session, const std::string& wanted) {
  const std::vector<TensorInfo>& inputs = session.inputs();
  if (wanted.empty()) {
    if (inputs.size() == 1) return inputs[0];
    fail("the model has {} inputs: say whose samples they are, as NAME=PATH", inputs.size());
  }
  std::string names;
  for (const TensorInfo& input : inputs) {
    if (input.name == wanted) return input;
    names += (names.empty() ? "" : ", ") + input.name;
  }
  fail("no input \"{}\"; there are: {}", wanted, names);
}

// The number that all elements of an input are in all samples, if there is one.
std::optional<double> constant_of(const std::vector<Tensor>& samples) {
  std::optional<double> found;
  for (const Tensor& sample : samples) {
    const TensorSummary summary = summarize(sample.view());
    if (!summary.min || summary.min != summary.max || (found && found != summary.min)) return {};
    found = summary.min;
  }
  return found;
}

// Fills the inputs that have no samples: as many of each as of the others, or `random` ones if no input has any.
void add_random(const Session& session, uint64_t seed, size_t random, Samples& samples) {
  if (samples.count == 0) samples.count = random;
  for (const TensorInfo& input : session.inputs()) {
    std::vector<Tensor>& tensors = samples.inputs[input.name];
    if (!tensors.empty()) continue;
    if (!input.shape) fail("input \"{}\" has open dimensions: give them with --dim or --shape", input.name);
    for (size_t i = 0; i < samples.count; ++i) {
      tensors.emplace_back(input.dtype, *input.shape);
      fill_random(tensors.back().view(), input.name, seed + i);
    }
  }
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> input_arrays(const Session& session, const std::string& wanted,
                                                         const fs::path& file) {
  std::vector<std::pair<std::string, Tensor>> arrays = arrays_of(file);
  // A single array may have any name.
  if (arrays.size() == 1 && session.inputs().size() == 1) arrays[0].first.clear();
  if (!wanted.empty() && arrays.size() > 1) {
    std::erase_if(arrays, [&](const auto& a) { return a.first != wanted; });
    if (arrays.empty()) fail("{}: no array \"{}\" in it", file.string(), wanted);
  }
  for (auto& [name, array] : arrays) {
    const TensorInfo& input = input_named(session, wanted.empty() ? name : wanted);
    if (array.dtype() != input.dtype && is_float(array.dtype()) && is_float(input.dtype)) {
      array = convert(array, input.dtype);
    }
    name = input.name;
  }
  return arrays;
}

Samples load_samples(const Session& session, const std::vector<std::pair<std::string, std::string>>& named,
                     std::optional<uint64_t> seed, size_t random, bool measured) {
  Samples samples;
  std::map<std::string, std::vector<size_t>> of_files;  // samples by input and file
  for (const auto& [wanted, path] : named) {
    for (const fs::path& file : files_of(path)) {
      for (const auto& [name, array] : input_arrays(session, wanted, file)) {
        std::vector<Tensor>& tensors = samples.inputs[name];
        const size_t before = tensors.size();
        split_samples(array, input_named(session, name), file.string(), measured, tensors);
        of_files[name].push_back(tensors.size() - before);
      }
    }
  }
  for (const auto& [input, tensors] : samples.inputs) {
    if (tensors.size() <= samples.count) continue;
    samples.count = tensors.size();
    samples.groups = of_files[input];
  }
  if (seed) add_random(session, *seed, random, samples);
  for (const TensorInfo& input : session.inputs()) {
    const auto found = samples.inputs.find(input.name);
    if (found == samples.inputs.end()) fail("no samples of input \"{}\"", input.name);
    if (found->second.size() != samples.count && found->second.size() != 1) {
      fail("{} samples of input \"{}\", {} of another", found->second.size(), input.name, samples.count);
    }
  }
  if (measured && !named.empty()) expect_contents(samples);
  return samples;
}

void expect_contents(const Samples& samples) {
  bool any = false;
  for (const auto& [name, tensors] : samples.inputs) {
    const std::optional<double> constant = constant_of(tensors);
    any |= !constant;
    if (constant && !tensors.empty() && is_picture(tensors[0].shape())) {
      fail("the picture \"{}\" is {} everywhere in all of {} samples: they do not tell its range", name, *constant,
           samples.count);
    }
  }
  if (!any)
    fail("every input is the same number everywhere in all of {} samples: they do not tell a range", samples.count);
}

Tensor copy_of(const ConstView& view) {
  Tensor tensor(view.dtype, view.shape);
  std::memcpy(tensor.raw(), view.data, static_cast<size_t>(view.bytes()));
  return tensor;
}

void set_sample(Session& session, const Samples& samples, size_t i) {
  for (const auto& [input, tensors] : samples.inputs) {
    session.set_input(input, tensors[tensors.size() == 1 ? 0 : i].view());
  }
}

}  // namespace sparkpilot
