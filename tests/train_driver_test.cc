// One network alone: driver monitoring from the driver's camera to an adapter, and parts of a driving model.
#include <filesystem>

#include "drive_route.h"
#include "train_fixture.h"

namespace sparkpilot {
namespace train_driver_test {

namespace fs = std::filesystem;

// Besides TrainCli's: two routes with a driver's camera, and what a teacher of another seed says of it.
class TrainOne : public TrainCli {
 protected:
  static void SetUpTestSuite() {
    shared = new SharedFolder("train_driver");
    shared->fill(make);
  }
  static void make() {
    TrainCli::make();
    run("zoo build --quiet tiny_dmonitoring_model --out '" + shared->file("models") + "'");
    run("zoo build --quiet --seed 2 tiny_dmonitoring_model --out '" + shared->file("teacher") + "'");
    for (const char* route : {"4", "5"}) {
      const fs::path drives = shared->file("drives"), made = make_segment(drives / "made", 12, 0, false, true);
      fs::create_directories(drives / route);
      fs::rename(made, drives / route / ("2024-01-02--03-04-0" + std::string(route) + "--0"));
    }
    run("dataset build --quiet " + routes() + " --every 2 --validation 0.5 --driver-monitoring " + model("teacher") +
        " --out '" + shared->file("driver") + "'");
  }
  static std::string routes() { return "'" + shared->file("drives") + "/4' '" + shared->file("drives") + "/5'"; }
  static std::string model(const std::string& folder, const std::string& name = "tiny_dmonitoring_model") {
    return "'" + shared->file(folder) + "/" + name + ".onnx'";
  }
  static std::string driver() { return "--model " + model("models") + " --data '" + shared->file("driver") + "' "; }
  static json evaluated(const std::string& words) {
    const ProgramResult result = run_program("dataset evaluate '" + shared->file("driver") + "' --json " + words);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
};

TEST_F(TrainOne, ADataSetOfTheDriversCamera) {
  const ProgramResult shown = run_program("dataset info '" + shared->file("driver") + "' --json");
  ASSERT_EQ(shown.code, 0) << shown.err;
  const json info = json::parse(shown.out);
  EXPECT_EQ(info["contract"], "driver monitoring");
  EXPECT_EQ(info["networks"][0]["role"], "driver");
  std::map<std::string, json> fields;
  for (const json& field : info["fields"]) fields[field["name"]] = field["shape"];
  EXPECT_EQ(fields.size(), 3u);
  EXPECT_EQ(fields["input_img"], json({1440 * 960}));
  EXPECT_EQ(fields["calib"], json({3}));
  EXPECT_EQ(fields["teacher.driver"], json({551}));
  EXPECT_EQ(run_program("dataset check '" + shared->file("driver") + "'").code, 0);
  // The same command has nothing left to do.
  fs::copy(shared->file("driver"), folder.file("again"), fs::copy_options::recursive);
  const ProgramResult again =
      run_program("dataset build --json " + routes() + " --every 2 --validation 0.5 --driver-monitoring " +
                  model("teacher") + " --out '" + folder.file("again") + "'");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["clips_kept"], 2);
}

TEST_F(TrainOne, AnAdapterForDriverMonitoring) {
  const std::string words = driver() + "--batch 2 --rate 3e-3 --schedule constant --rank 4 --threads 1 ";
  const json ended = parsed(words + "--updates 6 --merged " + out("run"));
  ASSERT_EQ(ended["updates"], 6);
  const std::string adapter = folder.file("run/adapter");
  EXPECT_TRUE(fs::exists(adapter + "/adapter_config.json"));
  // Stopped in the middle and resumed: the same bits.
  parsed(words + "--updates 3 " + out("half"));
  parsed("--resume '" + folder.file("half") + "' --updates 6");
  const std::string file = "/adapter/adapter_model.safetensors";
  EXPECT_EQ(read_text(folder.file("run") + file), read_text(folder.file("half") + file));
  // Nearer to its teacher, by the adapter and merged; the teacher itself is no distance away but for 16 bits.
  const json before = evaluated("--model " + model("models")),
             after = evaluated("--model '" + shared->file("models") + "/tiny_dmonitoring_model.onnx@" + adapter + "'"),
             merged = evaluated("--model '" + folder.file("run") + "/tiny_dmonitoring_model.onnx'"),
             teacher = evaluated("--model " + model("teacher"));
  EXPECT_GE(before["samples"], 5);  // of every second of 12 frames, without those before the first calibration
  const auto of = [](const json& score) {
    double sum = score["wheel_on_right"].get<double>();
    for (const char* side : {"left", "right"}) {
      for (const auto& [name, error] : score[side]["probabilities"].items()) sum += error.get<double>();
    }
    return sum;
  };
  EXPECT_LT(of(after), 0.9 * of(before));
  EXPECT_NEAR(of(merged), of(after), 0.02 * of(after));
  EXPECT_LT(of(teacher), 0.02);
  EXPECT_EQ(evaluated("--blank --model " + model("models"))["blank"], true);
}

TEST_F(TrainOne, AllWeightsAndADryRun) {
  const json ended = parsed(driver() + "--batch 2 --overfit 2 --updates 6 --rate 1e-5 --mode full " + out("full"));
  EXPECT_LT(ended["loss"], ended["first_loss"]);
  EXPECT_TRUE(fs::exists(folder.file("full/tiny_dmonitoring_model.onnx")));
  const json tried = parsed(driver() + "--batch 2 --updates 3 --rank 2 --dry-run " + out("dry"));
  EXPECT_GT(tried["activation_bytes"], 0);
  EXPECT_FALSE(fs::exists(folder.file("dry")));
  const ProgramResult own = run_program("train --model " + model("teacher") + " --data '" + shared->file("driver") +
                                        "' --batch 2 --updates 1 --rank 2 " + out("own"));
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_NE(own.err.find("there is nothing to learn"), std::string::npos) << own.err;
}

TEST_F(TrainOne, APartOfADrivingModelByItself) {
  const std::string data = "--data '" + shared->file("answers") + "' --updates 2 --batch 2 --rank 2 ";
  for (const char* name : {"tiny_driving_vision", "tiny_driving_policy"}) {
    const std::string run = std::string(name) + "_alone";
    parsed("--model " + model("models", name) + " " + data + out(run));
    EXPECT_TRUE(fs::exists(folder.file(run) + "/adapter/adapter_model.safetensors"));
  }
  // As the same network of both.
  parsed(both() + "--updates 2 --batch 2 --rank 2 --network policy " + out("network"));
  const std::string file = "/adapter/adapter_model.safetensors";
  EXPECT_EQ(read_text(folder.file("tiny_driving_policy_alone") + file), read_text(folder.file("network") + file));
}

TEST_F(TrainOne, RefusesInOneLine) {
  const std::string answers = "--data '" + shared->file("answers") + "' --updates 1 --rank 2 ";
  const std::string some = "--updates 1 --rank 2 " + out("x");
  expect_refused("--model " + model("models") + " " + answers + out("x"),
                 "the data set lacks its inputs input_img, calib; it has img, big_img");
  expect_refused(
      "--model " + model("models", "tiny_driving_vision") + " --data '" + shared->file("driver") + "' " + some,
      "the data set lacks its inputs img, big_img; it has input_img, calib");
  expect_refused(
      "--model " + model("models", "tiny_driving_vision") + " --data '" + shared->file("roads") + "' " + some,
      "its heads are those of none of the data set's networks: supercombo (tiny_driving_supercombo.onnx)");
  expect_refused("--model " + model("one", "tiny_driving_supercombo") + " " + answers + out("x"), "inputs action_t;");
  expect_refused(driver() + "--supercombo x.onnx " + some, "--model names the one model");
  expect_refused(driver() + "--network policy " + some, "--network is of two networks");
  expect_refused(driver() + "--against labels " + some, "labels.driver");
  expect_refused(driver() + "--own-features " + some, "reads no features of the past");
  expect_refused(driver() + "--warp 1 " + some, "only their brightness");
  expect_refused("--models '" + shared->file("models") + "' --data '" + shared->file("driver") + "' " + some, "field");
  const auto refused = [](const std::string& words, const std::string& why) {
    const ProgramResult result = run_program(words + " --quiet");
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_NE(result.err.find(why), std::string::npos) << words << "\n" << result.err;
  };
  const std::string build = "dataset build " + out("y"), by = "--driver-monitoring " + model("models");
  refused(build + "--synthetic 1 " + by, "synthetic roads have no driver's camera");
  refused(build + routes() + " --min-speed 2 " + by, "--min-speed is for driving models");
  refused(build + routes() + " --models '" + shared->file("models") + "' " + by, "names the one model");
  refused(build + routes() + " --sampling nearest --models '" + shared->file("models") + "'", "--sampling is for");
  refused(build + routes() + " --driver-monitoring " + model("models", "tiny_driving_vision"),
          "not a driver monitoring");
  make_segment(fs::path(folder.file("blind")), 6);
  refused(build + "'" + folder.file("blind") + "' " + by, "no video of the driver camera");
  const std::string evaluate = "dataset evaluate '" + shared->file("driver") + "' ";
  refused(evaluate + "--models '" + shared->file("models") + "'", "give the model with --model FILE");
  refused(evaluate + "--model " + model("models", "tiny_driving_policy"), "lacks its inputs");
  // A damaged shard.
  fs::copy(shared->file("driver"), folder.file("damaged"));
  for (const auto& entry : fs::directory_iterator(folder.file("damaged"))) {
    if (entry.path().string().ends_with(".frames.safetensors")) fs::resize_file(entry.path(), 1'000'000);
  }
  expect_refused("--model " + model("models") + " --data '" + folder.file("damaged") + "' " + some,
                 ".frames.safetensors");
}

}  // namespace train_driver_test
}  // namespace sparkpilot
