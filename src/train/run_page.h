// The page of a training run: its curves, from metrics.jsonl, and key frames.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "route/draw/page.h"
#include "train/trainer.h"

namespace sparkpilot::train {

struct RunPage {
  std::filesystem::path out;  // of the run
  TrainingSummary summary;
  std::vector<std::string> notes = {};
  std::vector<drive::PagePicture> key_frames = {};
  std::string key_frames_text = {};                  // what they show
  std::vector<std::vector<std::string>> facts = {};  // rows of two cells: what was trained, with which options
};

// One HTML file that needs nothing else. Curves begin where the run began, earlier processes included. Fails (user) if
// metrics.jsonl cannot be read; lines that are not of a run are left out.
std::string run_page(const RunPage& run);

}  // namespace sparkpilot::train
