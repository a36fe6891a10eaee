// Tests of the program from outside: runs it, reads its output and files.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/test_files.h"

namespace sparkpilot {

struct ProgramResult {
  int code = -1;  // exit code; 128 + the signal if one ended it
  std::string out, err;
};

// The settings of whoever runs the tests must not affect them.
inline void forget_settings() {
  for (const char* name : {"SPARKPILOT_DEVICE", "SPARKPILOT_MEMORY_RESERVE", "SPARKPILOT_PRECISION",
                           "SPARKPILOT_THREADS", "SPARKPILOT_MODELS", "SPARKPILOT_DATA", "SPARKPILOT_PEERS",
                           "SPARKPILOT_PYTHON", "SPARKPILOT_VERBOSE", "SPARKPILOT_COLOR", "OPENPILOT_DISABLE_DGX",
                           "OPENPILOT_DGX_ENABLED", "OPENPILOT_DGX_PRECISION", "CUDA", "DEBUG", "LOG_ROOT"}) {
    unsetenv(name);
  }
  setenv("SPARKPILOT_TUNE", "off", 1);  // except in tests of tuning
  setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
  setenv("XDG_CACHE_HOME", "/dev/null", 1);  // where nothing can be stored
}

// A Python that has NumPy: the one that is named for tests, the first on the path, or the distribution's. Empty: none.
inline std::string python_with_numpy() {
  const char* named = std::getenv("SPARKPILOT_TEST_PYTHON");
  for (const std::string& python :
       {std::string(named ? named : ""), std::string("python3"), std::string("/usr/bin/python3")}) {
    if (!python.empty() && std::system(("'" + python + "' -c 'import numpy' >/dev/null 2>&1").c_str()) == 0)
      return python;
  }
  return {};
}

// Runs the program with `arguments` as a shell reads them; `before` goes in front (ulimit, environment).
inline ProgramResult run_program(const std::string& arguments, const std::string& before = {}) {
  forget_settings();
  const TempFolder folder;
  const std::string command = before + " '" SPARKPILOT_PROGRAM "' " + arguments + " >'" + folder.file("out") + "' 2>'" +
                              folder.file("err") + "' </dev/null";
  const int status = std::system(command.c_str());
  ProgramResult result;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  result.out = read_text(folder.file("out"));
  result.err = read_text(folder.file("err"));
  return result;
}

}  // namespace sparkpilot
