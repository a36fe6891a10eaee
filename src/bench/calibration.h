// How large a model's activations get: with it fp8 rounds what products read, too, by one scale for each tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/calibrate.h"
#include "bench/quantize.h"

namespace sparkpilot {

struct Calibration {
  std::string model;  // hash_text()
  int64_t samples = 0;
  std::map<std::string, double> largest;  // magnitude, by the names that values have in the file
  // Values that are the same number everywhere in all samples, such as those of an input that stays 0: they tell no
  // range, so what reads them is not rounded. Not in the file.
  std::vector<std::string> left_out = {};
};

struct CalibrateModelOptions {
  CalibrationOptions ranges = {.method = CalibrationMethod::min_max};
  std::map<std::string, int64_t> dims;                       // sizes of named dimensions
  std::map<std::string, Shape> shapes;                       // and shapes of inputs
  std::vector<std::pair<std::string, std::string>> samples;  // input's name (or empty), path
  std::optional<Samples> given;                              // instead of files
  int threads = 0;
};

// Runs the model on the samples and writes `to`. Fails (user) with the reason if the model is quantized already or has
// no products to calibrate, if a sample or an activation is not finite, as expect_contents() does, or if `to` would
// replace what is read; nothing is written then.
Calibration calibrate_model(const std::filesystem::path& model, const std::filesystem::path& to,
                            const CalibrateModelOptions& options, const QuantizeProgress& progress);

// As a calibration names the model: the hash of its files, 16 hexadecimal digits.
std::string hash_text(const std::filesystem::path& model);

// A JSON file. load fails (user) naming the file if it is another, has no magnitudes or one of a name twice, or one
// that f32 does not hold or that is below 0, or if it was made of no samples.
void save_calibration(const Calibration& calibration, const std::filesystem::path& file);
Calibration load_calibration(const std::filesystem::path& file);

// Fails (user) naming the calibration's file if it has a magnitude of a value that the model does not have.
void expect_values_of(const std::filesystem::path& model, const Calibration& calibration,
                      const std::filesystem::path& file);

// The magnitudes in `file` for PassOptions::largest. Fails (user) naming both if they are of another model, or as
// expect_values_of() does.
std::map<std::string, double> calibrated(const std::filesystem::path& file, const std::filesystem::path& model);

}  // namespace sparkpilot
