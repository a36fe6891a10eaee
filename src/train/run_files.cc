#include "train/run_files.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "tensor/safetensors.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The lines of the file that are whole and not later.
std::string lines_until(const fs::path& file, int64_t updates, int64_t evaluated) {
  std::string kept;
  if (updates == 0 || !fs::exists(file)) return kept;
  const std::string text = read_file(file);
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const Json json = parse_json_or_discard(line);
    if (!json.is_object() || !json.contains("update") || !json["update"].is_number_integer()) continue;
    const int64_t last = json.contains("evaluation_loss") ? evaluated : updates;
    if (json["update"].get<int64_t>() <= last) kept += fmt::format("{}\n", line);
  }
  return kept;
}

void replace_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json or_null(const fs::path& path) { return path.empty() ? Json() : Json(path.string()); }

}  // namespace

MetricsFiles::MetricsFiles(const fs::path& out, int64_t updates, int64_t evaluated)
    : path_(out / "metrics.jsonl"), events_(out, "sparkpilot", updates + 1, wall_time()) {
  replace_file(path_, lines_until(path_, updates, evaluated));
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

MetricsFiles::~MetricsFiles() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFiles::add(const TrainingStep& step) {
  Json line{{"update", step.update},
            {"epoch", step.epoch},
            {"loss", step.loss},
            {"rate", step.rate},
            {"gradient_norm", step.norm}};
  std::vector<std::pair<std::string, double>> points{
      {"train/loss", step.loss}, {"train/rate", step.rate}, {"train/gradient_norm", step.norm}};
  for (const auto& [name, value] : step.reports) {
    line["reports"][name] = value;
    points.emplace_back("train/" + name, value);
  }
  line["time"] = {{"seconds", step.seconds}, {"samples_per_second", step.samples_per_second}, {"waited", step.waited}};
  write(json_text(line));
  events_.add(step.update, points, wall_time());
}

void MetricsFiles::add_evaluation(int64_t update, double loss, std::span<const std::pair<std::string, double>> reports,
                                  double seconds) {
  Json line{{"update", update}, {"evaluation_loss", loss}};
  std::vector<std::pair<std::string, double>> points{{"evaluation/loss", loss}};
  for (const auto& [name, value] : reports) {
    line["evaluation_reports"][name] = value;
    points.emplace_back("evaluation/" + name, value);
  }
  line["time"] = {{"seconds", seconds}};
  write(json_text(line));
  events_.add(update, points, wall_time());
}

// In one call, so that a killed process leaves whole lines, or at most one part of a line.
void MetricsFiles::write(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t wrote = ::write(fd_, text.data(), text.size());
  if (wrote != std::ssize(text)) {
    fail("{}: cannot be written: {}", path_.string(), std::strerror(wrote < 0 ? errno : ENOSPC));
  }
}

void write_summary(const fs::path& out, const TrainingSummary& s) {
  const RunProgress& p = s.progress;
  const Json json{{"ended", name(s.ended)},
                  {"reason", s.reason.empty() ? Json() : Json(s.reason)},
                  {"precision", s.precision},
                  {"updates", p.updates},
                  {"samples", p.samples},
                  {"seconds", p.seconds},
                  {"loss", or_null(s.loss)},
                  {"first_loss", or_null(s.first_loss)},
                  {"evaluation_loss", or_null(s.evaluation_loss)},
                  {"best_evaluation_loss", or_null(p.best)},
                  {"best_updates", p.best ? Json(p.best_updates) : Json()},
                  {"checkpoint", or_null(s.checkpoint)},
                  {"best_checkpoint", or_null(s.best)},
                  {"batch", or_null(s.batch)}};
  replace_file(out / "summary.json", json_text(json, 1) + "\n");
}

fs::path write_batch(const fs::path& out, std::span<const Field> fields, std::span<const Tensor> batch,
                     std::span<const int64_t> samples, int64_t update, const std::string& reason) {
  make_folders(out / "not_finite");
  fs::path path = out / "not_finite" / "batch.safetensors";
  SafetensorsFile file;
  for (size_t i = 0; i < fields.size(); ++i) file.tensors.emplace_back(fields[i].name, batch[i]);
  file.metadata = {
      {"samples", fmt::format("{}", fmt::join(samples, " "))}, {"update", std::to_string(update)}, {"reason", reason}};
  save_safetensors(path, file);
  return path;
}

}  // namespace sparkpilot::train
