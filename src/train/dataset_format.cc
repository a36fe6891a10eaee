#include "train/dataset_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/json.h"
#include "base/with_file.h"
#include "drive/driver_model.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::train {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
namespace {

constexpr int64_t kMaxJson = 16 << 20;
constexpr int kVersion = 1;

constexpr std::pair<InputKind, const char*> kKinds[] = {
    {InputKind::road, "road"},          {InputKind::wide, "wide"},
    {InputKind::desire, "desire"},      {InputKind::features, "features"},
    {InputKind::traffic, "traffic"},    {InputKind::lateral, "lateral"},
    {InputKind::action_times, "times"}, {InputKind::curvature, "curvature"},
    {InputKind::driver, "driver"},      {InputKind::calibration, "calibration"}};

// The names that the eras' networks have.
constexpr std::pair<const char*, InputKind> kInputs[] = {{"img", InputKind::road},
                                                         {"input_imgs", InputKind::road},
                                                         {"big_img", InputKind::wide},
                                                         {"big_input_imgs", InputKind::wide},
                                                         {"desire_pulse", InputKind::desire},
                                                         {"desire", InputKind::desire},
                                                         {"features_buffer", InputKind::features},
                                                         {"traffic_convention", InputKind::traffic},
                                                         {"lateral_control_params", InputKind::lateral},
                                                         {"action_t", InputKind::action_times},
                                                         {"prev_desired_curv", InputKind::curvature},
                                                         {"input_img", InputKind::driver},
                                                         {"calib", InputKind::calibration}};

std::string kind_name(InputKind kind) {
  const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](auto k) { return k.first == kind; });
  return found->second;
}

InputKind kind_of(const std::string& name) {
  for (const auto& [kind, known] : kKinds) {
    if (name == known) return kind;
  }
  fail("no input is of the kind \"{}\"", name);
}

// Elements that an input of this kind must have.
int64_t elements_of(InputKind kind, const drive::DrivingContract& contract) {
  switch (kind) {
    case InputKind::road:
    case InputKind::wide: return 2 * drive::kFrameBytes;
    case InputKind::desire: return int64_t{contract.desires} * drive::kDesires;
    case InputKind::features: return int64_t{contract.features} * drive::kFeatures;
    case InputKind::curvature: return contract.desires;
    case InputKind::driver: return drive::kDriverFrameBytes;
    case InputKind::calibration: return 3;
    default: return 2;
  }
}

Json contract_json(const drive::DrivingContract& c) {
  return {{"era", std::string(1, c.era)},
          {"merged", c.merged},
          {"frame_gap", c.frame_gap},
          {"context_stride", c.context_stride},
          {"features", c.features},
          {"desires", c.desires},
          {"sampling", c.sampling == drive::Sampling::nearest ? "nearest" : "bilinear"}};
}

int64_t whole(const Json& json, const char* key, int64_t low, int64_t high) {
  const Json& value = json.at(key);
  if (!value.is_number_integer() || value < low || value > high) {
    fail("\"{}\" is {}, expected {} to {}", key, json_text(value), low, high);
  }
  return value.get<int64_t>();
}

drive::DrivingContract contract_from(const Json& json) {
  drive::DrivingContract c;
  const auto era = json.at("era").get<std::string>();
  if (era.size() != 1 || era[0] < 'A' || era[0] > 'D') fail("\"era\" is \"{}\", expected A, B, C or D", era);
  c.era = era[0];
  c.merged = json.at("merged").get<bool>();
  c.frame_gap = static_cast<int>(whole(json, "frame_gap", 1, kMemory));
  c.context_stride = static_cast<int>(whole(json, "context_stride", 1, kMemory));
  c.features = static_cast<int>(whole(json, "features", 1, kMemory));
  c.desires = static_cast<int>(whole(json, "desires", 1, kMemory));
  if (c.context_stride * c.desires != kMemory || c.features != c.desires - (c.merged ? 1 : 0)) {
    fail("{} features and {} desires, {} frames apart, are not 5 s", c.features, c.desires, c.context_stride);
  }
  c.sampling = json.at("sampling") == "nearest" ? drive::Sampling::nearest : drive::Sampling::bilinear;
  return c;
}

// Frames by themselves: a sample needs no other.
drive::DrivingContract no_contract() {
  drive::DrivingContract none;
  none.frame_gap = none.features = none.desires = 0;
  return none;
}

// A driving model's data set has a driving model's networks and inputs, a driver monitoring model's has its own.
void check_kinds(const DatasetInfo& info, bool driver) {
  for (const DatasetInput& input : info.inputs) {
    const bool of_driver = input.kind == InputKind::driver || input.kind == InputKind::calibration;
    if (of_driver != driver) fail("input \"{}\" is not one of this model's", input.name);
  }
  if (driver) {
    if (info.networks.size() != 1 || !info.of_driver())
      fail("without a contract one network \"{}\" is expected", kDriverRole);
    if (info.source != Source::routes || !info.teacher) fail("driver monitoring is of recorded routes, with a teacher");
    return;
  }
  if (info.of_driver()) fail("the network \"{}\" has no contract", kDriverRole);
  const DatasetHead* const hidden = info.networks.empty() ? nullptr : info.networks[0].head("hidden_state");
  if (!hidden || hidden->end - hidden->begin != drive::kFeatures) {
    fail("its first network has no head hidden_state of {} values", drive::kFeatures);
  }
}

Json dims_of(const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

DatasetInput input_from(const Json& json, const drive::DrivingContract& contract) {
  DatasetInput input;
  input.network = json.at("network").get<std::string>();
  input.name = json.at("name").get<std::string>();
  input.kind = kind_of(json.at("kind").get<std::string>());
  const bool bytes = json.at("dtype") == "u8";
  if (!bytes && json.at("dtype") != "f32") fail("input \"{}\" is {}", input.name, json_text(json.at("dtype")));
  const bool picture =
      input.kind == InputKind::road || input.kind == InputKind::wide || input.kind == InputKind::driver;
  if (bytes && !picture) fail("input \"{}\" is u8, which only pictures are", input.name);
  input.dtype = bytes ? DType::u8 : DType::f32;
  input.shape = Shape(std::span<const int64_t>(json.at("shape").get<std::vector<int64_t>>()));
  if (input.shape.elements() != elements_of(input.kind, contract)) {
    fail("input \"{}\" has shape {}, expected {} elements", input.name, input.shape.str(),
         elements_of(input.kind, contract));
  }
  return input;
}

DatasetNetwork network_from(const Json& json) {
  constexpr int64_t kWidest = 1 << 20;
  DatasetNetwork network;
  network.role = json.at("role").get<std::string>();
  network.file = json.at("file").get<std::string>();
  network.hash = json.at("hash").get<std::string>();
  network.width = whole(json, "width", 1, kWidest);
  for (const auto& [name, range] : json.at("heads").items()) {
    const auto ends = range.get<std::vector<int64_t>>();
    if (ends.size() != 2 || ends[0] < 0 || ends[1] < ends[0] || ends[1] > network.width) {
      fail("head \"{}\" is {} of {} values", name, json_text(range), network.width);
    }
    network.heads.push_back({name, ends[0], ends[1]});
  }
  return network;
}

// Without the routes.
Json content_json(const DatasetInfo& info) {
  Json inputs = Json::array(), networks = Json::array();
  for (const DatasetInput& input : info.inputs) {
    inputs.push_back({{"network", input.network},
                      {"name", input.name},
                      {"kind", kind_name(input.kind)},
                      {"dtype", name(input.dtype)},
                      {"shape", dims_of(input.shape)}});
  }
  for (const DatasetNetwork& network : info.networks) {
    Json heads = Json::object();
    for (const DatasetHead& head : network.heads) heads[head.name] = {head.begin, head.end};
    networks.push_back({{"role", network.role},
                        {"file", network.file},
                        {"hash", network.hash},
                        {"width", network.width},
                        {"heads", heads}});
  }
  Json json = {{"sparkpilot_dataset", kVersion},
               {"source", info.source == Source::routes ? "routes" : "synthetic"},
               {"teacher", info.teacher},
               {"every", info.every}};
  if (!info.of_driver()) json["contract"] = contract_json(info.contract);
  json["inputs"] = inputs;
  json["networks"] = networks;
  json["options"] = info.options;
  return json;
}

DatasetInfo info_from(const Json& json) {
  if (!json.is_object() || !json.contains("sparkpilot_dataset")) fail("it is no data set of sparkpilot");
  whole(json, "sparkpilot_dataset", kVersion, kVersion);
  DatasetInfo info;
  const auto source = json.at("source").get<std::string>();
  if (source != "routes" && source != "synthetic") fail("\"source\" is \"{}\"", source);
  info.source = source == "routes" ? Source::routes : Source::synthetic;
  info.teacher = json.at("teacher").get<bool>();
  info.every = static_cast<int>(whole(json, "every", 1, 1'000'000));
  const bool driver = !json.contains("contract");
  info.contract = driver ? no_contract() : contract_from(json.at("contract"));
  info.options = json.at("options").get<std::string>();
  std::set<std::string> names;
  for (const Json& input : json.at("inputs")) {
    info.inputs.push_back(input_from(input, info.contract));
    if (!names.insert(info.inputs.back().name).second) fail("input \"{}\" is there twice", info.inputs.back().name);
  }
  for (const Json& network : json.at("networks")) {
    info.networks.push_back(network_from(network));
    if (!names.insert("network " + info.networks.back().role).second) {
      fail("network \"{}\" is there twice", info.networks.back().role);
    }
  }
  check_kinds(info, driver);
  for (const Json& route : json.at("routes")) {
    const auto split = route.at("split").get<std::string>();
    if (split != "train" && split != "validation") fail("\"split\" is \"{}\"", split);
    info.routes.push_back({route.at("name").get<std::string>(), split == "validation"});
    if (!names.insert("route " + info.routes.back().name).second) {
      fail("route \"{}\" is there twice", info.routes.back().name);
    }
  }
  return info;
}

fs::path shard(const fs::path& folder, const std::string& clip, const char* what) {
  return folder / fmt::format("{}.{}.safetensors", clip, what);
}

}  // namespace

const DatasetHead* DatasetNetwork::head(const std::string& wanted) const {
  const auto found = std::find_if(heads.begin(), heads.end(), [&](const DatasetHead& h) { return h.name == wanted; });
  return found == heads.end() ? nullptr : &*found;
}

const DatasetNetwork* DatasetInfo::network(const std::string& role) const {
  const auto found = std::find_if(networks.begin(), networks.end(), [&](const auto& n) { return n.role == role; });
  return found == networks.end() ? nullptr : &*found;
}

const DatasetRoute* DatasetInfo::route(const std::string& wanted) const {
  const auto found = std::find_if(routes.begin(), routes.end(), [&](const auto& r) { return r.name == wanted; });
  return found == routes.end() ? nullptr : &*found;
}

std::string DatasetInfo::id() const {
  return fmt::format("{:016x}", Fnv().text(json_text(content_json(*this))).value());
}

Shape DatasetInfo::picture() const {
  if (of_driver()) return Shape{drive::kDriverFrameBytes};
  return Shape{drive::kFrameChannels, drive::kFrameHeight, drive::kFrameWidth};
}

std::string DatasetInfo::model() const { return of_driver() ? "driver monitoring" : contract.describe(); }

namespace {

// Of an input with a batch of one.
DatasetInput describe_input(const std::string& network, const std::string& name, DType dtype, const Shape& shape,
                            const drive::DrivingContract& contract) {
  const auto* const known =
      std::find_if(std::begin(kInputs), std::end(kInputs), [&](const auto& i) { return name == i.first; });
  if (known == std::end(kInputs)) fail("input \"{}\" of the {} network: no driving model has one", name, network);
  const InputKind kind = known->second;
  const bool picture = kind == InputKind::road || kind == InputKind::wide || kind == InputKind::driver;
  DatasetInput out{network, name, kind, picture && dtype == DType::u8 ? DType::u8 : DType::f32, shape.removed(0)};
  if (shape[0] != 1 || out.shape.elements() != elements_of(kind, contract)) {
    fail("input \"{}\" of the {} network has shape {}", name, network, shape.str());
  }
  return out;
}

DatasetNetwork describe_network(const std::string& role, const fs::path& file, int64_t width,
                                const OutputSlices& slices) {
  DatasetNetwork out{.role = role, .file = file.filename().string(), .hash = {}, .width = width, .heads = {}};
  out.hash = fmt::format("{:016x}", model_hash(file));
  for (const auto& [head, slice] : slices) {
    const auto [begin, end] = slice.resolve(width);
    if (begin < end) out.heads.push_back({head, begin, end});  // padding may be empty
  }
  return out;
}

}  // namespace

DatasetInfo describe_model(drive::DrivingModel& model) {
  DatasetInfo info;
  info.contract = model.contract();
  for (const auto& [network, name, value] : model.inputs()) {
    info.inputs.push_back(describe_input(network, name, value.dtype, value.shape, info.contract));
  }
  for (const auto& network : model.networks()) {
    info.networks.push_back(describe_network(network.role, network.file, network.width, network.slices));
  }
  return info;
}

DatasetInfo describe_model(drive::DriverModel& model) {
  drive::Network& network = model.network();
  DatasetInfo info;
  info.contract = no_contract();
  for (const TensorInfo& input : network.session().inputs()) {
    info.inputs.push_back(describe_input(kDriverRole, input.name, input.dtype, *input.shape, info.contract));
  }
  info.networks = {describe_network(kDriverRole, network.file(), network.width(), network.slices())};
  return info;
}

std::string role_of_model(const DatasetInfo& info, const fs::path& file) {
  const Graph graph = load_model(file);
  const auto add = [](std::string& list, const std::string& name) { list += (list.empty() ? "" : ", ") + name; };
  std::string lacking, inputs, networks;
  for (const DatasetInput& input : info.inputs) add(inputs, input.name);
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value(id).name;
    if (std::ranges::find(info.inputs, name, &DatasetInput::name) == info.inputs.end()) add(lacking, name);
  }
  if (!lacking.empty()) fail("{}: the data set lacks its inputs {}; it has {}", file.string(), lacking, inputs);
  const OutputSlices slices = output_slices(graph);
  if (slices.empty() || graph.outputs().size() != 1) {
    fail("{}: what it says is not known: expected one output, with output_slices in the metadata", file.string());
  }
  for (const DatasetNetwork& network : info.networks) {
    std::vector<DatasetHead> heads;
    for (const auto& [head, slice] : slices) {
      const auto [begin, end] = slice.resolve(network.width);
      if (begin < end) heads.push_back({head, begin, end});
    }
    if (heads == network.heads) return network.role;
    add(networks, fmt::format("{} ({})", network.role, network.file));
  }
  fail("{}: its heads are those of none of the data set's networks: {}", file.string(), networks);
}

DatasetInfo load_dataset_info(const fs::path& folder) {
  const fs::path file = folder / kDatasetFile;
  if (!fs::exists(file)) {
    fail("{}: holds no {}: make a data set with sparkpilot dataset build", folder.string(), kDatasetFile);
  }
  DatasetInfo info;
  with_file(file, [&] {
    try {
      const Json json = parse_json(read_file(file, kMaxJson));
      info = info_from(json);
    } catch (const nlohmann::json::exception& error) {
      fail("is damaged: {}", json_fault(error));
    }
  });
  return info;
}

void save_dataset_info(const fs::path& folder, const DatasetInfo& info) {
  Json json = content_json(info);
  json["routes"] = Json::array();
  for (const DatasetRoute& route : info.routes) {
    json["routes"].push_back({{"name", route.name}, {"split", route.validation ? "validation" : "train"}});
  }
  AtomicFile file(folder / kDatasetFile);
  file.write(json_text(json, 1) + "\n");
  file.commit();
}

fs::path frames_file(const fs::path& folder, const std::string& clip) { return shard(folder, clip, "frames"); }
fs::path rows_file(const fs::path& folder, const std::string& clip) { return shard(folder, clip, "rows"); }

}  // namespace sparkpilot::train
