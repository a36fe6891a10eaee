#include "gpu_main.h"

int main(int argc, char** argv) { return sparkpilot::run_with_emulated_driver(argc, argv); }
