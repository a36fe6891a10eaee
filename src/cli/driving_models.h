// The flags that choose a driving model, with the same texts everywhere.
#pragma once

#include <string>
#include <vector>

#include "bench/calibration.h"
#include "cli/command.h"
#include "drive/driving_model.h"

namespace sparkpilot::cli {

struct DrivingModelFlags {
  std::string vision, policy, supercombo;
};

// --models, --vision, --policy, --supercombo.
void add_driving_model_flags(Program& program, Command command, DrivingModelFlags& flags);
// How many of the three ways were taken on the command line.
int driving_model_ways(const Program& program, const DrivingModelFlags& flags);
// --model of train and dataset evaluate: one network alone. Fails (user) if a driving model is given, too.
void add_one_model_flag(Command command, std::string& file);
void expect_alone(const Program& program, const DrivingModelFlags& flags, const std::string& flag);
// The files. Fails (user) unless exactly one way is taken; `or_what` ends the list of what is expected.
drive::ModelFiles chosen_driving_model(const Program& program, const DrivingModelFlags& flags,
                                       const std::string& or_what = {});

// --calibration of a driving model, a file for each network.
void add_calibrations_flag(Command command, std::vector<std::string>& files);

// What is in the files of --calibration, each for the network whose hash it has. Where something is wrong they fail
// (user).
class Calibrations {
 public:
  explicit Calibrations(const std::vector<std::string>& files);
  // Sets ModelFiles::largest of the networks that there is a calibration for; two for one are refused.
  void give(drive::ModelFiles& models);
  // Fails for one that was made for none of the networks, of all calls.
  void expect_used() const;

 private:
  struct OfFile {
    std::string file;
    Calibration calibration;
    bool used = false;
  };
  std::vector<OfFile> all_;
  std::string known_;  // the networks' hashes, as a sentence
};

}  // namespace sparkpilot::cli
