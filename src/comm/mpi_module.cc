#include "comm/mpi_module.h"

#include <mpi.h>

#include <vector>

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

void gather_counts(int count, int* counts) { MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD); }

void gather(const char* bytes, int count, const int* counts, char* all) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> starts;
  for (int i = 0, start = 0; rank == 0 && i < size; start += counts[i++]) starts.push_back(start);
  MPI_Gatherv(bytes, count, MPI_CHAR, all, counts, starts.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
}

}  // namespace

SparkpilotMpi sparkpilot_mpi() { return {join, leave, barrier, greatest, share, sum, gather_counts, gather}; }
