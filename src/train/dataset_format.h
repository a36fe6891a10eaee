// What a data set says of itself: dataset.json, and the layout of its shards (docs/dataset.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "drive/driving_model.h"
#include "tensor/tensor.h"

namespace sparkpilot::drive {
class DriverModel;
}

namespace sparkpilot::train {

// The pushes of a model's longest memory: 5 s of frames.
inline constexpr int64_t kMemory = 100;

// What an input of a model is made of; the last two are those of driver monitoring.
enum class InputKind { road, wide, desire, features, traffic, lateral, action_times, curvature, driver, calibration };

// The role of a driver monitoring model, which is then a data set's only network.
inline constexpr const char* kDriverRole = "driver";

struct DatasetInput {
  std::string network, name;  // "policy", "features_buffer"
  InputKind kind = InputKind::road;
  DType dtype = DType::f32;  // of its field: u8 for a picture of bytes, else f32
  Shape shape;               // without the batch axis

  bool operator==(const DatasetInput&) const = default;
};

// A head of a network's flat output: its values [begin, end).
struct DatasetHead {
  std::string name;
  int64_t begin = 0, end = 0;

  bool operator==(const DatasetHead&) const = default;
};

struct DatasetNetwork {
  // "vision", the file's name, FNV-1a of its bytes in 16 hexadecimal digits; of one that did not run: empty
  std::string role, file, hash;
  int64_t width = 0;  // of its output
  std::vector<DatasetHead> heads;

  const DatasetHead* head(const std::string& name) const;
  bool operator==(const DatasetNetwork&) const = default;
};

enum class Source { routes, synthetic };

struct DatasetRoute {
  std::string name;
  bool validation = false;
};

struct DatasetInfo {
  Source source = Source::routes;
  bool teacher = false;             // the networks ran: their outputs and features are there
  int every = 1;                    // frames from one sample to the next
  drive::DrivingContract contract;  // of a driving model
  std::vector<DatasetInput> inputs;
  std::vector<DatasetNetwork> networks;  // in the order in which they run; a driving model's first has hidden_state
  std::string options;                   // that the contents depend on besides, for people and for id()
  std::vector<DatasetRoute> routes;

  // 16 hexadecimal digits of everything but the routes: shards with another id belong to another data set.
  std::string id() const;
  // Samples are the driver camera's frames, each by itself: there is no memory, contract or driven path.
  bool of_driver() const { return network(kDriverRole) != nullptr; }
  int cameras() const { return of_driver() ? 1 : 2; }  // pictures of a frame: the driver's, or road and wide
  Shape picture() const;                               // u8, of one of them, as it is stored
  std::string model() const;                           // a line about the contract
  const DatasetNetwork* network(const std::string& role) const;
  const DatasetRoute* route(const std::string& name) const;
};

// What a model takes and gives; reads its files for their hashes. Fails (user) on an input that no era has.
DatasetInfo describe_model(drive::DrivingModel& model);
DatasetInfo describe_model(drive::DriverModel& model);

// The role of the data set's network whose place a file can take: that has its heads, and the data set all inputs of
// the file. Fails (user) naming the file and the inputs that the data set lacks, or the networks that it has.
std::string role_of_model(const DatasetInfo& info, const std::filesystem::path& file);

inline constexpr const char* kDatasetFile = "dataset.json";
// Fails (user) naming the file if it is missing, or not such a file.
DatasetInfo load_dataset_info(const std::filesystem::path& folder);
void save_dataset_info(const std::filesystem::path& folder, const DatasetInfo& info);

// The shards of one clip, a piece of a route without a gap: <clip>.frames.safetensors and <clip>.rows.safetensors.
std::filesystem::path frames_file(const std::filesystem::path& folder, const std::string& clip);
std::filesystem::path rows_file(const std::filesystem::path& folder, const std::string& clip);

}  // namespace sparkpilot::train
