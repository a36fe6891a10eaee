#include "comm/mpi_module.h"

#include <mpi.h>

namespace {

void join(int* rank, int* size) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

void leave() { MPI_Finalize(); }
void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

int greatest(int value) {
  int out = value;
  MPI_Allreduce(&value, &out, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return out;
}

void share(char* bytes, int count, int from) { MPI_Bcast(bytes, count, MPI_CHAR, from, MPI_COMM_WORLD); }

void sum(float* values, int count) { MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

}  // namespace

SparkpilotMpi sparkpilot_mpi() { return {join, leave, barrier, greatest, share, sum}; }
