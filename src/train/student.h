// The graph of one training: a driving model's networks, what of them is trained, and the loss against a data set.
//
//   Student student({.networks = {{"policy", "driving_policy.onnx"}}, .batch = 32}, dataset.info());
//   TrainingProgram program = student.program(options);
//   train(program, samples, &validation, ...);
//   student.save(program, "out/run");
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/apply.h"
#include "passes/small_weights.h"
#include "train/driving_losses.h"
#include "train/matched_layers.h"
#include "train/output_scale.h"
#include "train/program.h"
#include "train/samples.h"

namespace sparkpilot::train {

enum class TrainMode : uint8_t {
  adapter,  // a frozen base with an adapter
  full,     // all weights of products, and what is added to or multiplied with their results
};

// What the student's outputs are compared with: fields of the data set.
enum class Target : uint8_t {
  teacher,  // teacher.<network>: another model's outputs
  labels,   // labels.<network>: what is true, of synthetic roads
};

struct StudentNetwork {
  std::string role;            // of the data set: "vision", "policy", "supercombo"
  std::filesystem::path file;  // may name adapters (adapters/load_model.h), which are merged first
  // A model of the same layers, whose results are compared with the student's (train/matched_layers.h), which reads the
  // same inputs; of vision and policy each has its own. Empty: none.
  std::filesystem::path teacher = {};
};

struct StudentOptions {
  // One network, or vision and policy, which are then one graph: the newest row of the policy's features is what the
  // student's vision says, so the plan's loss reaches it. Older rows are the data set's.
  std::vector<StudentNetwork> networks;
  int64_t batch = 32;
  TrainMode mode = TrainMode::adapter;
  // Mode adapter; its max_bytes and stored come from the two texts (adapters/size.h), for each network.
  AdapterOptions adapter = {};
  std::string max_size = "1%", stored = "auto";
  std::vector<std::filesystem::path> init = {};  // adapters to begin with, each for the network that it fits
  NormForm norms = NormForm::factored;           // of DoRA; another one is refused where no adapter is DoRA
  // With another `base` than fp32 branches always. What is cheaper is so for steps of `form_batch` samples, of `batch`
  // if it is 0: students of other batches have the same forms then, so that memory grows with the batch evenly.
  AdapterForm form = AdapterForm::branches;
  int64_t form_batch = 0;
  // Mode adapter: how the frozen weights of products are kept (passes/small_weights.h), fp32, fp8 or fp4. Steps compute
  // with the rounded weights; norms of DoRA are those of the file's, which takes memory for them.
  Precision base = Precision::fp32;
  // By role. Mode full: weights of the last layers are trained in units of their targets (train/output_scale.h); empty:
  // as they are. `fresh`: those layers begin at the targets' means, whatever the file has, and all others so that they
  // tell `first` apart (train/first_weights.h): a batch of samples by field.
  std::map<std::string, OutputUnits> units = {};
  bool fresh = false;
  std::map<std::string, Tensor> first = {};
  // With units: the loss takes no log scale for less than this part of the target's deviation; 0: any. Without a limit
  // values that hardly vary, such as the road's height, get the largest gradients long before the path is right, and a
  // student that is far from its teacher but sure of itself has a loss that destroys it.
  double least_scale = 0;
  Target target = Target::teacher;
  FeatureLoss features = FeatureLoss::kl;
  // Of the heads' losses (weighted_sum()), and of "layers", the loss of all networks with StudentNetwork::teacher.
  std::map<std::string, double> weights = {};
  std::string matched = ".*";  // the paths of the layers that are compared with a teacher's: a regular expression
};

class Student {
 public:
  // `fields`: of the samples that it will be trained on. Fails (user) naming the file, if it is no driving model; the
  // field that is missing; what create_adapter(), differentiate() and weighted_sum() refuse.
  Student(const StudentOptions& options, std::span<const Field> fields);

  // Reports in addition to the loss: loss.<head> for each head, and for models with a plan the mean distance in metres
  // at 1, 2, 4 and 6 s of its positions from the target's plan (plan_error_4s), and from the driven path where that is
  // known (driven_error_4s); lane_error_20m, the mean distance of the two inner lane lines from the target's where that
  // has them. And outputs(), whose reports have more than one element.
  TrainingProgram program(ProgramOptions options) const;

  // The networks' flat outputs, which program() reports as "output.<role>", [batch, width] in f32.
  struct Output {
    std::string role;
    OutputSlices slices;
    std::string target;  // the samples' field that it is compared with
    int64_t width = 0;
  };
  std::vector<Output> outputs() const;
  // The evaluation of a frame's features alone, [batch, drive::kFeatures]; empty if no network makes them.
  std::optional<size_t> features_part() const;
  // Whether it has an input from this field of the samples.
  bool reads(const std::string& field) const { return inputs_.contains(field); }

  // Fails (user) if save() would replace a model that is read: the student's, an adapter's of it, or a teacher's.
  void check_save(const std::filesystem::path& out, bool merged) const;

  // What was trained, with the parameters or their moving average: an adapter in out/adapter, or for two networks in
  // out/adapter_<role>, in AdapterOptions::stored; in mode full, and with `merged`, models in out/<the file's name>.
  // Returns the paths. Fails (user) before a file is written if a value is not finite in the type that it is written
  // in.
  std::vector<std::filesystem::path> save(const TrainingProgram& program, const std::filesystem::path& out,
                                          bool average, bool merged) const;

  int64_t parameters() const;  // elements that are trained
  // Which weights are trained: each network's role and model_hash(), and its adapter's kind and scales.
  std::string trained() const;
  // What is trained, a line for each network.
  const std::vector<std::string>& notes() const { return notes_; }
  int64_t adapter_bytes() const;  // of all networks' adapters in their files

 private:
  struct Network {
    StudentNetwork from;
    Graph file;  // as load_model() gave it; with a base in less than f32, its metadata alone
    std::optional<Adapter> adapter;
    uint64_t hash = 0;                // model_hash() of `from.file`
    std::string prefix;               // of its parameters' names
    std::set<std::string> weights;    // mode full: the file's constants that are trained
    std::vector<ScaledLayer> scaled;  // of these
    std::vector<ImageLayer> images;
  };

  void add_network(const StudentNetwork& from, std::span<const Adapter> init, std::span<const Field> fields);
  // A vision network's output, from which the policy takes this frame's features; absent: the data set's are taken.
  struct Vision {
    ValueId output = {};
    OutputSlices slices = {};
    std::string file = {};
  };
  std::map<std::string, ValueId> inputs_of(const Graph& net, const std::string& file, const Vision& vision,
                                           std::span<const Field> fields);
  void add_teacher(const StudentNetwork& from, const StudentLayers& student, std::span<const Field> fields);
  std::filesystem::path model_file(const Network& network, const std::filesystem::path& out) const;
  ValueId input(const std::string& name, DType dtype, const Shape& shape, std::span<const Field> fields);
  std::vector<Tensor> first_inputs(const Graph& net) const;
  void add_losses(std::span<const Field> fields);
  void add_features(Builder& b);
  std::string target_field(const Network& network) const;
  ValueId limited(Builder& b, ValueId raw, const std::string& role) const;
  void add_plan_errors(ValueId plan, ValueId target, std::span<const Field> fields);
  void tell_of(const Network& network, const AdapterPlan& plan, size_t parameters);
  void store_base(Network& network, Graph& net, const std::map<ValueId, WeightFormat>& weights);
  Adapter trained_adapter(const Network& network, const TrainingProgram& program, bool average) const;
  Graph trained_model(const Network& network, const TrainingProgram& program, bool average) const;

  StudentOptions options_;
  std::vector<Network> networks_;
  Graph graph_;
  std::map<std::string, ValueId> inputs_;   // of graph_, by the data set's names
  std::map<std::string, ValueId> outputs_;  // by role, f32 [batch, width]
  Vision teachers_vision_;
  std::vector<LayerPair> pairs_;
  std::vector<Parameter> parameters_;
  std::vector<AdapterNorm> norms_;  // `a` and `b` are names of parameters_, `name` of a state
  ValueId loss_;
  std::vector<std::pair<std::string, ValueId>> reports_, parts_;
  std::vector<std::string> notes_;
};

}  // namespace sparkpilot::train
