// The flags that choose a driving model, with the same texts everywhere.
#pragma once

#include <string>
#include <vector>

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
// --model of train and dataset evaluate: one network alone. Fails (user) if a driving model is given beside it.
void add_one_model_flag(Command command, std::string& file);
void expect_alone(const Program& program, const DrivingModelFlags& flags, const std::string& flag);
// The files. Fails (user) unless exactly one way is taken; `or_what` ends the list of what is expected.
drive::ModelFiles chosen_driving_model(const Program& program, const DrivingModelFlags& flags,
                                       const std::string& or_what = {});

// --calibration of a driving model, a file for each network.
void add_calibrations_flag(Command command, std::vector<std::string>& files);
// Gives each to the network that it was made for. Fails (user) if there is none, or if the precision is not fp8.
void take_calibrations(const std::vector<std::string>& files, Precision precision, drive::ModelFiles& models);

}  // namespace sparkpilot::cli
