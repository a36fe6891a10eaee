// What a training run writes besides its checkpoints: metrics, curves, the summary, a batch that was not finite.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "train/event_file.h"
#include "train/trainer.h"

namespace sparkpilot::train {

// metrics.jsonl and the event file: one point for each update and each evaluation.
class MetricsFiles {
 public:
  // Keeps the lines of metrics.jsonl up to `updates`, and those of evaluations up to the one after `evaluated` updates;
  // a resumed run writes the others again. A line that a killed run left incomplete is dropped, too. Fails (user)
  // naming a file that cannot be written.
  MetricsFiles(const std::filesystem::path& out, int64_t updates, int64_t evaluated);
  ~MetricsFiles();
  MetricsFiles(const MetricsFiles&) = delete;
  MetricsFiles& operator=(const MetricsFiles&) = delete;

  void add(const TrainingStep& step);
  void add_evaluation(int64_t update, double loss, std::span<const std::pair<std::string, double>> reports,
                      double seconds);

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  int fd_ = -1;
  EventFile events_;
};

// OUT/summary.json; null for what is absent.
void write_summary(const std::filesystem::path& out, const TrainingSummary& summary);

// OUT/not_finite/batch.safetensors: the fields by their names; its metadata tells the samples, the update and the
// reason. Returns its path.
std::filesystem::path write_batch(const std::filesystem::path& out, std::span<const Field> fields,
                                  std::span<const Tensor> batch, std::span<const int64_t> samples, int64_t update,
                                  const std::string& reason);

}  // namespace sparkpilot::train
