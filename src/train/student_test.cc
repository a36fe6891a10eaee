// What is trained of a driving model, and that it is what is saved.
#include "train/student.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "adapters/layers.h"
#include "adapters/merge.h"
#include "base/random.h"
#include "base/test_error.h"
#include "base/test_files.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "passes/pass.h"
#include "passes/small_weights.h"
#include "passes/test_graph.h"
#include "runtime/session.h"
#include "tensor/difference.h"
#include "tensor/fill_random.h"
#include "tensor/small_floats.h"
#include "train/random_samples.h"
#include "train/trainer.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;

class StudentTest : public ::testing::Test {
 protected:
  StudentNetwork network(const std::string& role, const std::string& model) {
    return zoo_network(folder_.path(), role, model);
  }
  std::vector<StudentNetwork> both() {
    return {network("vision", "tiny_driving_vision"), network("policy", "tiny_driving_policy")};
  }
  std::vector<StudentNetwork> policy() { return {network("policy", "tiny_driving_policy")}; }

  // Trains and returns the losses of the first and of the last update.
  std::pair<double, double> train_some(TrainingProgram& program, const Samples& samples, int64_t updates, double rate) {
    TrainerOptions options{.out = folder_ / "run"};
    options.schedule = {.form = Schedule::constant, .rate = rate};
    options.updates = updates;
    fs::remove_all(options.out);
    const TrainingSummary summary = train(program, samples, nullptr, options);
    return {*summary.first_loss, *summary.loss};
  }

  // The file's output on one sample, in fp32.
  static Tensor output_of(const fs::path& file, const Samples& samples, int64_t index) {
    Session session(load_onnx(file), {.threads = 1, .passes = {.precision = Precision::fp32}});
    std::vector<Tensor> values;
    std::vector<std::byte*> to;
    for (const Field& field : samples.fields()) {
      values.push_back(Tensor(field.dtype, field.shape.inserted(0, 1)));
      to.push_back(static_cast<std::byte*>(values.back().raw()));
    }
    samples.read(index, to);
    for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
      const auto at = std::ranges::find(samples.fields(), input.name, &Field::name) - samples.fields().begin();
      session.set_input(input.name, convert(values[static_cast<size_t>(at)], input.dtype).view());
    }
    session.run();
    const ConstView view = session.output(session.outputs()[0].name);
    Tensor out(view.dtype, view.shape);
    std::memcpy(out.raw(), view.data, static_cast<size_t>(view.bytes()));
    return out;
  }

  TempFolder folder_;
};

TEST_F(StudentTest, AnAdapterIsTrainedSavedAndMergedAsItWas) {
  for (const AdapterKind kind : {AdapterKind::dora, AdapterKind::lora, AdapterKind::rslora}) {
    StudentOptions options{.networks = policy(), .batch = 4};
    options.adapter = {.kind = kind, .rank = 4};
    options.stored = "fp32";
    options.weights = {{"desire_state", 10}};
    const RandomSamples samples(options.networks, 8);
    const Student student(options, samples.fields());
    TrainingProgram program = student.program({.session = {.threads = 1}});
    const auto [first, last] = train_some(program, samples, 40, 1e-2);
    EXPECT_LT(last, 0.9 * first) << name(kind);
    const std::vector<fs::path> written = student.save(program, folder_ / "out", false, true);
    ASSERT_EQ(written.size(), 2u);
    // The program's forward pass with the adapter beside the base, and the merged file's: the loss of the same sample.
    const Adapter adapter = load_adapter(folder_ / "out/adapter");
    EXPECT_EQ(adapter.kind, kind);
    Graph model = load_onnx(written[1]);
    EXPECT_NE(model.metadata.count("sparkpilot.adapter"), 0u);
    unmerge_adapter(model, adapter);  // it is known by its file
    EXPECT_EQ(model.metadata.count("sparkpilot.adapter"), 0u);
    const Tensor base = output_of(options.networks[0].file, samples, 3), merged = output_of(written[1], samples, 3);
    EXPECT_GT(testing::distance(merged, base), 0.01);
    StudentOptions again{.networks = {{"policy", written[1]}}, .batch = 4};
    again.adapter = {.kind = AdapterKind::lora, .rank = 1};
    again.weights = options.weights;
    TrainingProgram after = Student(again, samples.fields()).program({.session = {.threads = 1}});
    for (TrainingProgram* each : {&program, &after}) {
      for (const TensorInfo& input : each->inputs())
        std::memset(each->evaluation_input(input.name).data, 0,
                    static_cast<size_t>(each->evaluation_input(input.name).bytes()));
      each->run_evaluation();
    }
    EXPECT_NEAR(program.evaluation_loss(), after.evaluation_loss(), 1e-2 * std::abs(program.evaluation_loss()));
    // DoRA's norms follow A and B.
    if (kind != AdapterKind::dora) continue;
    const Graph graph = load_onnx(options.networks[0].file);
    const std::vector<Layer> layers = match_layers(graph, adapter);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Tensor expected = norm_of(layer_weights(graph, layers[i]), layers[i], adapter, adapter.layers[i]);
      EXPECT_LE(testing::distance(program.state(layers[i].path + ".norm"), expected), 1e-5) << layers[i].path;
    }
  }
}

// A layer's path is its module's, and PEFT puts an adapter in the place of that module: none may lie within another.
TEST(ZooLayers, LieInModulesOfTheirOwn) {
  for (const ZooEntry& entry : zoo()) {
    if (entry.big) continue;
    std::set<std::string> paths;
    for (const Layer& layer : find_layers(build_zoo_model(entry.name))) paths.insert(layer.path);
    for (const std::string& path : paths) {
      for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
        EXPECT_FALSE(paths.contains(path.substr(0, dot))) << entry.name << ": " << path;
      }
    }
  }
}

// The adapter's product in the weights and beside them are one function: losses and gradients are the same.
TEST_F(StudentTest, BothFormsOfAnAdapterGiveTheSameGradients) {
  for (const AdapterKind kind : {AdapterKind::dora, AdapterKind::lora}) {
    StudentOptions options{.networks = both(), .batch = 3};
    options.adapter = {.kind = kind, .rank = 3};
    const RandomSamples samples(options.networks, 6);
    std::vector<double> losses;
    std::vector<std::vector<float>> gradients;
    for (const AdapterForm form : {AdapterForm::branches, AdapterForm::weights, AdapterForm::cheaper}) {
      options.form = form;
      const Student student(options, samples.fields());
      TrainingProgram program = student.program({.session = {.threads = 1}});
      // Some updates, so that B is not zero.
      losses.push_back(train_some(program, samples, 4, 1e-3).second);
      for (const TensorInfo& input : program.inputs()) fill_random(program.input(input.name), input.name, 1);
      program.run_gradients();
      const std::span<const float> sums = program.gradient_sums();
      gradients.emplace_back(sums.begin(), sums.end());
    }
    for (size_t form = 1; form < losses.size(); ++form) {
      EXPECT_NEAR(losses[form], losses[0], 1e-4 * std::fabs(losses[0])) << name(kind) << form;
      ASSERT_EQ(gradients[form].size(), gradients[0].size());
      double squares = 0, differences = 0;
      for (size_t i = 0; i < gradients[0].size(); ++i) {
        const double was = gradients[0][i], difference = gradients[form][i] - was;
        squares += was * was, differences += difference * difference;
      }
      EXPECT_GT(squares, 0) << name(kind);
      EXPECT_LE(std::sqrt(differences / squares), 1e-3) << name(kind) << form;
    }
  }
}

// A base of 8 or 4 bits: losses and steps are those beside a file that has the rounded weights in f32.
TEST_F(StudentTest, ABaseOfFewerBitsIsTheRoundedModel) {
  for (const char* role : {"vision", "policy"}) {
    const StudentNetwork original = network(role, std::string("tiny_driving_") + role);
    const RandomSamples samples({{original}}, 4);
    for (const Precision base : {Precision::fp8, Precision::fp4}) {
      SCOPED_TRACE(std::string(role) + " " + std::string(sparkpilot::name(base)));
      Graph net = load_onnx(original.file);
      prepare(net, {.precision = Precision::fp32});
      const std::map<NodeId, WeightFormat> plan = plan_small(net, base);
      std::map<std::string, Tensor> weights;
      for (const auto& [id, format] : plan) {
        const Value& w = net.value(net.node(id).inputs[1]);
        const auto [channels, depth] = weight_axes(net.node(id), w.constant.shape().rank());
        weights[w.name] = format == WeightFormat::fp4 ? to_floats(to_fp4(w.constant, depth), depth)
                                                      : to_floats(to_fp8(w.constant, channels), channels);
      }
      Graph rounded = load_onnx(original.file);
      prepare(rounded, {.off = {"all"}, .precision = Precision::fp32});
      size_t replaced = 0;
      for (int i = 0; i < rounded.value_count(); ++i) {
        Value& v = rounded.value(ValueId{i});
        const auto found = weights.find(v.name);
        if (v.kind != ValueKind::constant || v.dtype != DType::f32 || found == weights.end()) continue;
        v.constant = found->second;
        ++replaced;
      }
      ASSERT_GT(replaced, 3u);
      ASSERT_EQ(replaced, weights.size());
      const fs::path file = folder_ / "rounded.onnx";
      save_onnx(rounded, file);

      StudentOptions options{.networks = {original}, .batch = 2};
      options.adapter = {.kind = AdapterKind::lora, .rank = 2};
      options.base = base;
      const Student student(options, samples.fields());
      EXPECT_NE(student.notes()[0].find(" bytes in fp32 are kept in "), std::string::npos) << student.notes()[0];
      StudentOptions same = options;
      same.base = Precision::fp32;
      same.networks = {{role, file}};
      const Student reference(same, samples.fields());
      TrainingProgram packed = student.program({.session = {.threads = 1}}),
                      floats = reference.program({.session = {.threads = 1}});
      const auto got = train_some(packed, samples, 3, 1e-2), expected = train_some(floats, samples, 3, 1e-2);
      EXPECT_NEAR(got.first, expected.first, 1e-4 * std::abs(expected.first));
      EXPECT_NEAR(got.second, expected.second, 1e-3 * std::abs(expected.second));
      StudentOptions exact = same;
      exact.networks = {original};
      TrainingProgram unrounded = Student(exact, samples.fields()).program({.session = {.threads = 1}});
      EXPECT_GT(std::abs(train_some(unrounded, samples, 3, 1e-2).first - expected.first),
                1e-5 * std::abs(expected.first));

      // The adapter is merged into the file as it is.
      const std::vector<fs::path> written = student.save(packed, folder_ / "out", false, true);
      ASSERT_EQ(written.size(), 2u);
      EXPECT_GT(testing::distance(output_of(written[1], samples, 3), output_of(original.file, samples, 3)), 1e-4);
    }
  }
  StudentOptions full{.networks = policy(), .mode = TrainMode::full};
  full.base = Precision::fp8;
  const RandomSamples samples(full.networks, 1);
  EXPECT_NE(error_of([&] { Student(full, samples.fields()); }).find("only with an adapter"), std::string::npos);
}

TEST_F(StudentTest, ThePlansLossReachesTheVisionNetwork) {
  StudentOptions options{.networks = both(), .batch = 2};
  options.adapter = {.kind = AdapterKind::lora, .rank = 2};
  options.weights = {{"plan", 1}};
  for (const char* head : {"meta", "desire_pred", "pose", "wide_from_device_euler", "road_transform", "lane_lines",
                           "lane_lines_prob", "road_edges", "lead", "lead_prob", "hidden_state", "desire_state"}) {
    options.weights[head] = 0;
  }
  const RandomSamples samples(options.networks, 4);
  const Student student(options, samples.fields());
  TrainingProgram program = student.program({.session = {.threads = 1}});
  train_some(program, samples, 2, 1e-2);
  double vision = 0, policy = 0;
  for (const Parameter& each : program.parameters()) {
    if (!each.name.ends_with("lora_B.weight")) continue;
    double moved = 0;
    for (const float x : program.state(each.name).data<float>()) moved += std::abs(double{x});
    (each.name.starts_with("vision/") ? vision : policy) += moved;
  }
  EXPECT_GT(vision, 0);
  EXPECT_GT(policy, 0);
  const std::vector<fs::path> written = student.save(program, folder_ / "out", false, false);
  ASSERT_EQ(written.size(), 2u);
  EXPECT_EQ(written[0], folder_ / "out/adapter_vision");
  EXPECT_EQ(load_adapter(written[1]).base_fingerprint, base_fingerprint(load_onnx(options.networks[1].file)));
}

// The file with noise on all layers' weights.
StudentNetwork damaged(const StudentNetwork& network, const fs::path& folder, double noise) {
  Graph graph = load_onnx(network.file);
  Random random(5);
  for (const Layer& layer : find_layers(graph)) {
    Tensor weights = layer_weights(graph, layer);
    double squares = 0;
    for (const float w : weights.data<float>()) squares += double{w} * w;
    const double size = std::sqrt(squares / static_cast<double>(weights.elements()));
    for (float& w : weights.data<float>()) w += static_cast<float>(noise * size * random.normal());
    set_layer_weights(graph, layer, weights);
  }
  fs::create_directories(folder);
  const fs::path file = folder / network.file.filename();
  save_onnx(graph, file);
  return {network.role, file, network.file};
}

// With nothing but the layers' loss a student becomes its teacher, whose weights stay.
TEST_F(StudentTest, LayersAreComparedWithATeachers) {
  for (const std::vector<StudentNetwork>& teachers : {both(), {network("supercombo", "tiny_driving_supercombo")}}) {
    SCOPED_TRACE(teachers[0].role);
    StudentOptions options{.batch = 2};
    for (const StudentNetwork& each : teachers) options.networks.push_back(damaged(each, folder_ / "damaged", 0.2));
    options.adapter = {.kind = AdapterKind::dora, .rank = 4};
    for (const auto& [head, slice] : output_slices(load_onnx(teachers.back().file))) options.weights[head] = 0;
    for (const auto& [head, slice] : output_slices(load_onnx(teachers[0].file))) options.weights[head] = 0;
    options.weights.erase("pad");
    const RandomSamples samples(options.networks, 4);
    const auto losses = [&](const StudentOptions& of, int64_t updates) {
      TrainingProgram program = Student(of, samples.fields()).program({.session = {.threads = 1}});
      const auto found = std::ranges::find(program.report_names(), "loss.layers");
      EXPECT_NE(found, program.report_names().end());
      const std::pair<double, double> out = train_some(program, samples, updates, 1e-3);
      EXPECT_EQ(program.loss(),
                *program.report(static_cast<size_t>(found - program.report_names().begin())).as<float>());
      return out;
    };
    const auto [first, last] = losses(options, 40);
    EXPECT_GT(first, 0.01);
    EXPECT_LT(first, 1);
    EXPECT_LT(last, 0.8 * first);
    // Of a student that is its teacher.
    StudentOptions same = options;
    for (size_t i = 0; i < teachers.size(); ++i) same.networks[i].file = teachers[i].file;
    EXPECT_LE(losses(same, 1).first, 1e-9);
    // Only the first layers', which have less noise.
    StudentOptions fewer = options;
    fewer.matched = ".*stem.*";
    EXPECT_LT(losses(fewer, 1).first, 0.8 * first);
  }
}

TEST_F(StudentTest, ATeacherWithOtherLayersIsRefused) {
  StudentOptions options{.networks = policy(), .batch = 2};
  options.adapter = {.kind = AdapterKind::lora, .rank = 1};
  const RandomSamples samples(options.networks, 2);
  const auto refused = [&] { return error_of([&] { Student(options, samples.fields()); }); };
  options.networks[0].teacher = network("vision", "tiny_driving_vision").file;
  EXPECT_NE(refused().find("tiny_driving_vision.onnx: the samples have no field"), std::string::npos) << refused();
  options.networks[0].teacher = network("policy", "driving_policy").file;
  EXPECT_NE(refused().find("driving_policy.onnx: the layer"), std::string::npos) << refused();
  options.networks[0].teacher = folder_ / "nothing.onnx";
  EXPECT_NE(refused().find("nothing.onnx"), std::string::npos) << refused();
  options.networks[0].teacher = options.networks[0].file;
  options.matched = "nothing";
  EXPECT_NE(refused().find("no layer's path matches \"nothing\""), std::string::npos) << refused();
  options.matched = "(";
  EXPECT_NE(refused().find("not a regular expression"), std::string::npos) << refused();
  // What is read is not replaced.
  options = {.networks = {damaged(policy()[0], folder_ / "damaged", 0.1)}, .batch = 2};
  options.adapter = {.kind = AdapterKind::lora, .rank = 1};
  const Student student(options, samples.fields());
  student.check_save(folder_ / "out", true);
  student.check_save(folder_.path(), false);
  for (const fs::path& out : {folder_.path(), folder_ / "damaged"}) {
    EXPECT_NE(error_of([&] { student.check_save(out, true); }).find("tiny_driving_policy.onnx"), std::string::npos);
  }
}

TEST_F(StudentTest, AllWeightsAreTrainedAndWrittenIntoTheModel) {
  StudentOptions options{.networks = {network("supercombo", "tiny_driving_supercombo")}, .batch = 2};
  options.mode = TrainMode::full;
  Graph merged = load_onnx(options.networks[0].file);
  const Adapter adapter = create_adapter(merged, {.kind = AdapterKind::lora, .rank = 1});
  merge_adapters(merged, {{&adapter}});
  options.networks[0].file = folder_ / "merged.onnx";
  save_onnx(merged, options.networks[0].file);
  const RandomSamples samples(options.networks, 2);
  const Student student(options, samples.fields());
  TrainingProgram program = student.program({.session = {.threads = 2}});
  const auto [first, last] = train_some(program, samples, 12, 1e-3);
  EXPECT_LT(last, first);
  const std::vector<fs::path> written = student.save(program, folder_ / "out", false, false);
  ASSERT_EQ(written.size(), 1u);
  const Graph before = load_onnx(options.networks[0].file), after = load_onnx(written[0]);
  EXPECT_EQ(after.metadata.count("sparkpilot.adapter"), 0u);  // its weights are no merge's any more
  EXPECT_EQ(output_slices(after).size(), output_slices(before).size());
  const std::vector<Layer> layers = find_layers(before), changed = find_layers(after);
  ASSERT_EQ(layers.size(), changed.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(changed[i].dtype, layers[i].dtype);
    EXPECT_GT(testing::distance(layer_weights(after, changed[i]), layer_weights(before, layers[i])), 0)
        << layers[i].path;
  }
  // The file's own fp32 result, and that of the program's weights.
  StudentOptions again = options;
  again.networks[0].file = written[0];
  TrainingProgram loaded = Student(again, samples.fields()).program({.session = {.threads = 2}});
  for (TrainingProgram* each : {&program, &loaded}) {
    for (const TensorInfo& input : each->inputs()) {
      const View view = each->evaluation_input(input.name);
      std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
    }
    each->run_evaluation();
  }
  EXPECT_NEAR(program.evaluation_loss(), loaded.evaluation_loss(), 2e-2 * std::abs(program.evaluation_loss()));
}

TEST_F(StudentTest, ReportsDistancesInMetres) {
  StudentOptions options{.networks = policy(), .batch = 3};
  options.adapter = {.kind = AdapterKind::lora, .rank = 1};
  const RandomSamples samples(options.networks, 3);
  TrainingProgram program = Student(options, samples.fields()).program({.session = {.threads = 1}});
  // All of the student's plan is what it says for zeros; the target's lies 3 m ahead and 4 m to the right of it.
  for (const TensorInfo& input : program.inputs()) {
    const View view = program.evaluation_input(input.name);
    std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
  }
  const Tensor own = [&] {
    Graph graph = load_onnx(options.networks[0].file);
    Session session(std::move(graph), {.threads = 1, .passes = {.precision = Precision::fp32}});
    for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
      const View view = session.input(input.name);
      std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
    }
    session.run();
    const ConstView view = session.output("outputs");
    return convert(Tensor::of<float>(view.shape, {view.as<float>(), static_cast<size_t>(view.elements())}), DType::f32);
  }();
  const View teacher = program.evaluation_input("teacher.policy"), driven = program.evaluation_input("driven.plan"),
             valid = program.evaluation_input("driven.valid");
  for (int64_t entry = 0; entry < 3; ++entry) {
    float* plan = teacher.as<float>() + entry * teacher.shape[1];
    std::copy_n(own.data<float>().begin(), own.elements(), plan);
    for (int64_t point = 0; point < 33; ++point) {
      plan[point * 15] += 3;
      plan[point * 15 + 1] += 4;
      std::copy_n(own.data<float>().begin() + point * 15, 15, driven.as<float>() + (entry * 33 + point) * 15);
      driven.as<float>()[(entry * 33 + point) * 15 + 2] += 2;
      // The first entry's path is known for 3 s only.
      valid.as<float>()[entry * 33 + point] = entry > 0 || point < 18 ? 1.0f : 0.0f;
    }
  }
  driven.as<float>()[20 * 15] = 1e6f;  // not known
  program.run_evaluation();
  std::map<std::string, double> reports;
  for (size_t i = 0; i < program.report_names().size(); ++i) {
    const ConstView view = program.evaluation_report(i);
    reports[program.report_names()[i]] = load_element(view.dtype, view.data, 0);
  }
  for (const char* time : {"1s", "2s", "4s", "6s"}) {
    EXPECT_NEAR(reports.at(std::string("plan_error_") + time), 5, 1e-3) << time;
    EXPECT_NEAR(reports.at(std::string("driven_error_") + time), 2, 1e-3) << time;
  }
  EXPECT_TRUE(reports.contains("loss.plan"));
  EXPECT_EQ(reports.at("driven_error_2s.known"), 3);
  EXPECT_EQ(reports.at("driven_error_6s.known"), 2) << "the first entry's path ends before";
}

// Seven samples in batches of three: each gets the output of its own inputs.
TEST_F(StudentTest, TellsItsOutputsForChosenSamples) {
  StudentOptions options{.networks = policy(), .batch = 3};
  options.adapter = {.kind = AdapterKind::lora, .rank = 1};
  const RandomSamples samples(options.networks, 20);
  const Student student(options, samples.fields());
  ASSERT_EQ(student.outputs().size(), 1u);
  EXPECT_EQ(student.outputs()[0].target, "teacher.policy");
  TrainingProgram program = student.program({.session = {.threads = 1}});
  const size_t report =
      static_cast<size_t>(std::ranges::find(program.report_names(), "output.policy") - program.report_names().begin());
  ASSERT_LT(report, program.report_names().size());
  const std::vector<int64_t> chosen{19, 3, 3, 7, 0, 1, 12};
  std::vector<size_t> places;
  evaluate_samples(program, samples, chosen, false, [&](size_t place, int64_t entry) {
    places.push_back(place);
    const ConstView all = program.evaluation_report(report);
    Tensor got(DType::f32, {1, all.shape[1]});
    std::copy_n(all.as<float>() + entry * all.shape[1], all.shape[1], got.data<float>().data());
    // A new adapter changes nothing.
    const Tensor expected = convert(output_of(options.networks[0].file, samples, chosen[place]), DType::f32);
    EXPECT_LE(testing::distance(got, expected), 1e-3) << place;
  });
  EXPECT_EQ(places, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST_F(StudentTest, MagnitudesAndBiasesAreNotDecayed) {
  for (const TrainMode mode : {TrainMode::adapter, TrainMode::full}) {
    StudentOptions options{.networks = policy(), .batch = 2, .mode = mode};
    options.adapter = {.kind = AdapterKind::dora, .rank = 2};
    const RandomSamples samples(options.networks, 2);
    const TrainingProgram program = Student(options, samples.fields()).program({.session = {.threads = 1}});
    int decayed = 0, not_decayed = 0;
    for (const Parameter& each : program.parameters()) {
      const Shape& shape = program.state(each.name).shape();
      const bool vector = std::ranges::count_if(shape, [](int64_t n) { return n > 1; }) <= 1;
      if (mode == TrainMode::adapter) {
        EXPECT_EQ(each.decay, !each.name.ends_with("lora_magnitude_vector")) << each.name;
      } else {
        EXPECT_EQ(each.decay, !vector) << each.name << shape.str();
        EXPECT_FALSE(each.decay && each.name.ends_with(".bias")) << each.name;
      }
      ++(each.decay ? decayed : not_decayed);
    }
    EXPECT_GT(decayed, 5);
    EXPECT_GT(not_decayed, 5);
  }
}

TEST_F(StudentTest, SavesNothingThatIsNotFinite) {
  for (const TrainMode mode : {TrainMode::adapter, TrainMode::full}) {
    StudentOptions options{.networks = both(), .batch = 2, .mode = mode};
    options.adapter = {.kind = AdapterKind::lora, .rank = 1};
    options.stored = "fp16";
    const RandomSamples samples(options.networks, 2);
    const Student student(options, samples.fields());
    const TrainingProgram program = student.program({.session = {.threads = 1}});
    const std::string name = program.parameters().back().name;  // of the second network
    static_cast<float*>(program.state(name).raw())[0] = 1e6f;   // above f16's largest
    const std::string refused = error_of([&] { student.save(program, folder_ / "out", false, false); });
    EXPECT_NE(refused.find("not finite in f16"), std::string::npos) << refused;
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
}

TEST_F(StudentTest, RefusesWhatDoesNotFit) {
  StudentOptions options{.networks = policy(), .batch = 2};
  options.adapter = {.kind = AdapterKind::lora, .rank = 1};
  RandomSamples samples(options.networks, 2);
  const auto refused = [&](const StudentOptions& asked) { return error_of([&] { Student(asked, samples.fields()); }); };
  StudentOptions wrong = options;
  wrong.weights = {{"plans", 1}};
  EXPECT_NE(refused(wrong).find("no head \"plans\""), std::string::npos) << refused(wrong);
  wrong = options;
  wrong.target = Target::labels;
  EXPECT_NE(refused(wrong).find("no labels (labels.policy)"), std::string::npos) << refused(wrong);
  wrong = options;
  const Adapter other = create_adapter(build_zoo_model("tiny_driving_vision"), {.rank = 1});
  save_adapter(other, folder_ / "other");
  wrong.init = {folder_ / "other"};
  EXPECT_NE(refused(wrong).find("made for none of these"), std::string::npos) << refused(wrong);
  save_adapter(create_adapter(load_onnx(options.networks[0].file), {.rank = 1}), folder_ / "mine");
  wrong.init = {folder_ / "mine"};
  EXPECT_EQ(refused(wrong), "");
  wrong.init = {folder_ / "mine", folder_ / "mine"};
  EXPECT_NE(refused(wrong).find("mine: a second adapter for "), std::string::npos) << refused(wrong);
  wrong = options;
  wrong.networks[0].file = folder_ / "nothing.onnx";
  EXPECT_NE(refused(wrong).find("nothing.onnx"), std::string::npos);
  samples.fields()[0].shape = {24, 512};
  EXPECT_NE(refused(options).find("the model expects"), std::string::npos) << refused(options);
  samples.fields().erase(samples.fields().begin());
  EXPECT_NE(refused(options).find("no field"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::train
