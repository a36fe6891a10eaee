// The interface of the module sparkpilot_mpi, the only code that is linked with MPI. In C, as it is looked up by name.
#pragma once

extern "C" {
struct SparkpilotMpi {
  void (*join)(int* rank, int* size);
  void (*leave)();
  void (*barrier)();
  int (*max)(int value);
  void (*share)(char* bytes, int count, int from);  // those of process `from`
  void (*sum)(float* values, int count);            // in place
  // In process 0: everybody's `count`; then everybody's bytes behind each other, `counts` being those.
  void (*gather_counts)(int count, int* counts);
  void (*gather)(const char* bytes, int count, const int* counts, char* all);
};
SparkpilotMpi sparkpilot_mpi();
}
