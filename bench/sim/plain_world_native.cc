// The plain worlds once more, compiled for this processor.
#define PLAIN_NAMESPACE plain_native
#include "bench/sim/plain_world.cc"
