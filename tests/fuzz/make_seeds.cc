// make_seeds DIR [CASES]: small valid inputs for the fuzz targets, in DIR/<target>/. CASES is a folder of ONNX's
// conformance cases: each becomes a model that holds its inputs as initializers.
#include <capnp/dynamic.h>
#include <capnp/message.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/file.h"
#include "onnx/metadata.h"
#include "onnx/test_models.h"
#include "route/log/test_log.h"
#include "route/log/writer.h"
#include "sim/car_file.h"
#include "sim/results.h"
#include "sim/test_challenge.h"
#include "sim/tune.h"
#include "stack/test_files.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"
#include "train/test_dataset.h"

namespace fs = std::filesystem;

namespace sparkpilot {
namespace {

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void write_models(const fs::path& folder) {
  write(folder / "add.onnx", add_model().SerializeAsString());
  write(folder / "rich.onnx", rich_model().SerializeAsString());
  onnx::ModelProto old = empty_model(9);
  old.set_ir_version(3);
  add_input(old.mutable_graph(), "x", {1, 4, 8, 8});
  add_input(old.mutable_graph(), "w", {4, 4, 3, 3});
  add_floats(old.mutable_graph(), "w", {4, 4, 3, 3}, std::vector<float>(144, 0.5F));
  onnx::NodeProto* conv = add_node(old.mutable_graph(), "Conv", {"x", "w"}, {"c"}, "conv");
  for (const int64_t pad : {1, 1, 1, 1}) {
    if (conv->attribute_size() == 0) add_attribute(conv, "pads", onnx::AttributeProto::INTS);
    conv->mutable_attribute(0)->add_ints(pad);
  }
  add_node(old.mutable_graph(), "Relu", {"c"}, {"r"});
  add_node(old.mutable_graph(), "Flatten", {"r"}, {"f"});
  add_int(add_node(old.mutable_graph(), "Softmax", {"f"}, {"y"}), "axis", 1);
  add_output(old.mutable_graph(), "y");
  write(folder / "old.onnx", old.SerializeAsString());
}

void write_pickles(const fs::path& folder) {
  const OutputSlices slices{{"plan", {0, 990, std::nullopt}}, {"pad", {-2, std::nullopt, std::nullopt}}};
  const std::string text = write_output_slices(slices);
  write(folder / "slices.b64", text);
  const auto bytes = decode_base64(text);
  write(folder / "slices.pkl", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  // Protocol 0 and the shapes that openpilot keeps beside.
  write(folder / "shapes.pkl",
        "(dVoutput_slices\n(dVa\nc__builtin__\nslice\n(I0\nL7L\nNtRssVinput_shapes\n(dVx\n(I1\nI2\nts"
        "sVoutput_shapes\n(dVy\n(lI1\naI7\nassVmodel_checkpoint\nVabc\ns.");
}

void write_arrays(const fs::path& folder) {
  save_npy(folder / "f32.npy", Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}).view());
  save_npy(folder / "bool.npy", Tensor::scalar(true).view());
  save_npy(folder / "empty.npy", Tensor(DType::i64, Shape{0, 2}).view());
}

void write_adapters(const fs::path& folder) {
  for (const char* kind : {"lora", "rslora", "dora"}) {
    const std::string config = std::string("tests/reference/peft/") + kind + "/adapter_config.json";
    fs::copy_file(fs::path(SPARKPILOT_SOURCE_DIR) / config, folder / kind, fs::copy_options::overwrite_existing);
  }
}

void write_safetensors(const fs::path& folder) {
  const char* const golden = "tests/reference/safetensors/golden.safetensors";
  fs::copy_file(fs::path(SPARKPILOT_SOURCE_DIR) / golden, folder / "golden", fs::copy_options::overwrite_existing);
  save_safetensors(folder / "two", {{{"a", Tensor::zeros(DType::f32, Shape{2, 3})}, {"b", Tensor::scalar(true)}}, {}});
  save_safetensors(folder / "none", {{}, {{"format", "pt"}}});
}

// The first byte says what follows (train/dataset_fuzz.cc).
void write_datasets(const fs::path& folder) {
  const train::DatasetInfo info = train::small_info();
  const fs::path made = folder.parent_path() / "dataset";
  fs::create_directories(made);
  train::save_dataset_info(made, info);
  train::write_small_clip(made, info, 3);
  write(folder / "json", "j" + read_file(made / train::kDatasetFile));
  write(folder / "rows", "r" + read_file(train::rows_file(made, "log--0")));
  fs::remove_all(made);
}

// The first byte says what follows (sim/results_fuzz.cc).
void write_results(const fs::path& folder) {
  sim::RunInfo info;
  info.metrics = {"tracking_rmse", "offset_max"};
  const fs::path made = folder.parent_path() / "results";
  {
    sim::ResultWriter writer(made, info, false);
    const sim::ResultRow row{"a,b", "curves", 1, 7, false, 2.5, "why", {0.5, {}}};
    writer.add({&row, 1});
    writer.finish(info);
  }
  write(folder / "json", "j" + read_file(made / sim::kRunFile));
  write(folder / "rows", "r" + read_file(made / sim::kRowsFile));
  fs::remove_all(made);
}

void write_courses(const fs::path& folder) {
  write(folder / "course", "time_s,speed_m_per_s,curvature_per_m,roll_rad\n0,20,0,0.01\n2,\"20\",0.001,0\n");
  write(folder / "leads",
        "time_s,speed_m_per_s,curvature_per_m,lead_gap_m,lead_speed_m_per_s\n0,20,0,30,18\n2,20,0,,\n3,20,0,9,5\n");
  write(folder / "challenge",
        "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n0,20,0,0,0.4,0.1\n1,20,0,0,0.8,\n");
}

// The first byte says what follows (sim/tune_fuzz.cc).
void write_searches(const fs::path& folder) {
  write(folder / "range", "rki=0.01:1");
  write(folder / "logarithmic", "rki=1e-2:1:log");
  const std::string trials = "{\"values\":[0.5,0.25],\"cost\":1.5}\n{\"values\":[1,0],\"cost\":null}\n{\"val";
  write(folder / "trials", "t" + trials);
  const sim::TuneOptions options{.ranges = {{"kp", 0.2, 3, true}, {"ki", 0, 1}}, .objective = "fuzz"};
  write(folder / "journal", "j" + sim::journal_head(options) + "\n" + trials);
}

// Each case twice: as it is, and with its data as constants.
void write_cases(const fs::path& cases, const fs::path& folder) {
  constexpr size_t kLargest = 16384;
  const auto write_small = [&](const std::string& name, const onnx::ModelProto& model) {
    const std::string bytes = model.SerializeAsString();
    if (bytes.size() <= kLargest) write(folder / name, bytes);
  };
  for (const auto& entry : fs::recursive_directory_iterator(cases)) {
    if (entry.path().filename() != "model.onnx") continue;
    onnx::ModelProto model;
    model.ParseFromString(read_file(entry.path()));
    const std::string name = entry.path().parent_path().filename().string();
    write_small(name + ".onnx", model);
    const fs::path data = entry.path().parent_path() / "test_data_set_0";
    for (int i = 0; i < model.graph().input_size(); ++i) {
      const fs::path path = data / fmt::format("input_{}.pb", i);
      onnx::TensorProto tensor;
      if (!fs::exists(path) || !tensor.ParseFromString(read_file(path))) continue;
      tensor.set_name(model.graph().input(i).name());
      *model.mutable_graph()->add_initializer() = tensor;
    }
    write_small(name + "_with_data.onnx", model);
  }
}

// Gives every field something to point to, so that a flipped bit meets lists and structs.
void fill_struct(capnp::DynamicStruct::Builder fields);
void fill_field(capnp::DynamicStruct::Builder fields, capnp::StructSchema::Field field) {
  const capnp::Type type = field.getType();
  if (type.isStruct()) {
    fill_struct(fields.init(field).as<capnp::DynamicStruct>());
  } else if (type.isList()) {
    auto list = fields.init(field, 2).as<capnp::DynamicList>();
    if (!type.asList().getElementType().isStruct()) return;
    for (unsigned i = 0; i < list.size(); ++i) fill_struct(list[i].as<capnp::DynamicStruct>());
  } else if (type.isText()) {
    fields.set(field, "text");
  }
}
void fill_struct(capnp::DynamicStruct::Builder fields) {
  for (const auto& field : fields.getSchema().getNonUnionFields()) fill_field(fields, field);
  for (const auto& field : fields.getSchema().getUnionFields()) {
    if (field.getType().isStruct()) {
      fill_field(fields, field);  // the last one stays
    }
  }
}

// An event of each kind in a log of its own, and some together in each container.
void write_logs(const fs::path& folder) {
  for (const auto& kind : capnp::Schema::from<cereal::Event>().getUnionFields()) {
    if (kind.getType().isAnyPointer()) continue;
    capnp::MallocMessageBuilder message;
    capnp::DynamicStruct::Builder event = message.initRoot<cereal::Event>();
    fill_field(event, kind);
    drive::LogWriter writer(folder / (std::string(kind.getProto().getName().cStr()) + ".rlog"));
    writer.write(message);
    writer.commit();
  }
  for (const char* name : {"cars.zst", "cars.bz2", "cars"}) drive::write_log(folder / name, 20);
  write(folder / "two.bz2", read_file(folder / "cars.bz2") + read_file(folder / "cars.bz2"));
  write(folder / "two.zst", read_file(folder / "cars.zst") + read_file(folder / "cars.zst"));
}

// Without the spaces that make them readable: fuzz.sh leaves out what is longer than 16 KiB.
void write_machines(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(fs::path(SPARKPILOT_SOURCE_DIR) / "tests/machines"))
    write(folder / entry.path().filename(), nlohmann::json::parse(read_file(entry.path())).dump());
}

// What only the monitor reads.
void write_machine_at_work(const fs::path& folder) {
  const nlohmann::json files = {
      {"/proc/stat", "cpu  9 0 3 50 2 0 1 0 0 0\ncpu0 4 0 1 25 1 0 0 0\ncpu1 5 0 2 25 1 0 1 0\nintr 5\n"},
      {"/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 500 kB\nSwapTotal: 10 kB\nSwapFree: 5 kB\n"},
      {"/proc/loadavg", "0.52 0.58 0.59 1/389 12345\n"},
      {"/proc/diskstats", "   8       0 sda 1 2 3 4 5 6 7 8 0 10 11 0 0 0 0\n"},
      {"/proc/net/dev", "h\nh\n  eth0: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n"},
      {"/proc/pressure/io",
       "some avg10=0.00 avg60=0.00 avg300=0.07 total=98\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"},
      {"/proc/7/stat", "7 (python3) S 1 1 1 0 -1 0 1 0 0 0 5 6 0 0 20 0 1 0 50 123456 1000 18446744073709551615 0\n"},
      {"/proc/7/status", "VmRSS: 4000 kB\n"},
      {"/proc/7/cmdline", std::string("python3\0train.py\0", 17)},
      {"/sys/class/thermal/thermal_zone0/type", "acpitz\n"},
      {"/sys/class/thermal/thermal_zone0/temp", "41000\n"},
      {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1900000\n"}};
  nlohmann::json gpu = {{"name", "NVIDIA GB10"}};
  for (const char* question : {"gpu_percent", "sm_clock_mhz", "power_mw", "energy_mj", "temperature_c",
                               "throttle_reasons", "encoder_percent", "fan_percent"})
    gpu[question] = 40;
  gpu["memory_total_bytes"] = {{"error", 3}};
  using nlohmann::json;
  const json process = {{"pid", 7}, {"bytes", 4096}, {"compute", true}},
             nvml = {{"state", "answered"},
                     {"devices", json::array({gpu})},
                     {"processes", json::array({json::array({process})})}},
             links = {{"/sys/block/sda/device", "x"}, {"/sys/class/net/eth0/device", "x"}};
  const json machine = {{"sparkpilot_record", 1}, {"files", files}, {"links", links}, {"nvml", nvml}};
  write(folder / "at_work.json", machine.dump());
}

// A library with every kind of image, and one without a table of sections.
void write_libraries(const fs::path& folder) {
  using stack::cubin, stack::elf_file, stack::fatbin, stack::ptx, stack::sass, stack::TestElf;
  const std::string code = fatbin({ptx(120), sass(90, 'a'), sass(120, 'f'), {8, 80}, {2, 121, '\0', true, 48, 4096}});
  TestElf elf;
  elf.run_path = "$ORIGIN:/opt/lib";
  elf.needed = {"libcudart.so.13"};
  elf.sections = {{".text", "code", true},
                  {".nv_fatbin", code + fatbin({})},
                  {".rodata", cubin(120) + std::string("lto_121\0", 8)}};
  write(folder / "library", elf_file(elf));
  elf.section_table = false;
  write(folder / "no_sections", elf_file(elf));
  write(folder / "fatbin", code + cubin(90, false));
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: make_seeds DIR [CASES]\n");
    return 2;
  }
  const fs::path root = argv[1];
  for (const char* target : {"import_fuzz",      "run_fuzz",         "pickle_fuzz",        "npy_fuzz",
                             "safetensors_fuzz", "dataset_fuzz",     "reader_fuzz",        "timeline_fuzz",
                             "doctor_fuzz",      "monitor_fuzz",     "elf_fuzz",           "fatbin_fuzz",
                             "adapter_fuzz",     "results_fuzz",     "scenario_file_fuzz", "challenge_route_fuzz",
                             "car_file_fuzz",    "car_signals_fuzz", "tune_fuzz",          "config_file_fuzz"})
    fs::create_directories(root / target);
  for (const char* target : {"import_fuzz", "run_fuzz"}) {
    sparkpilot::write_models(root / target);
    if (argc == 3) sparkpilot::write_cases(argv[2], root / target);
  }
  sparkpilot::write_pickles(root / "pickle_fuzz");
  sparkpilot::write_adapters(root / "adapter_fuzz");
  sparkpilot::write_arrays(root / "npy_fuzz");
  sparkpilot::write_safetensors(root / "safetensors_fuzz");
  sparkpilot::write_datasets(root / "dataset_fuzz");
  sparkpilot::write_results(root / "results_fuzz");
  sparkpilot::write_courses(root / "scenario_file_fuzz");
  sparkpilot::write(root / "car_file_fuzz" / "car", sparkpilot::sim::car_text({"car", {}, {}}, {{"mass_kg", "log"}}));
  sparkpilot::write(root / "challenge_route_fuzz" / "route", sparkpilot::sim::integer_route(1, 110, 105));
  sparkpilot::write_searches(root / "tune_fuzz");
  sparkpilot::write(
      root / "config_file_fuzz" / "settings",
      "# mine\nprecision = \"fp16\"\nthreads = 4\ndata = \"~/data\"\nnever = 1\n[table]\na = [1, 2.5, 2020-01-01]\n");
  for (const char* target : {"doctor_fuzz", "monitor_fuzz"}) sparkpilot::write_machines(root / target);
  sparkpilot::write_machine_at_work(root / "monitor_fuzz");
  for (const char* target : {"reader_fuzz", "timeline_fuzz", "car_signals_fuzz"}) sparkpilot::write_logs(root / target);
  for (const char* target : {"elf_fuzz", "fatbin_fuzz"}) sparkpilot::write_libraries(root / target);
  return 0;
}
