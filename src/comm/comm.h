// Several processes of one run, started by a launcher such as mpirun. MPI is loaded only then: alone, a process is rank
// 0 of 1 and no library is looked for.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"

namespace sparkpilot {

class Comm {
 public:
  // Joins the launcher's other processes where one started this process. Fails (user) where it did and this build has
  // no MPI, as each process would then do all the work. Once a process, before other threads start.
  Comm();
  // Leaves: waits for the others, as MPI does.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Waits until every process is here.
  void barrier();
  // The greatest of what the processes give.
  int max(int value);
  // Does `work` in every process and waits until all have done theirs. Where it throws in some, the first of these
  // throws what it threw, all others FailedElsewhere: one process tells of it, and none waits for another.
  void together(const std::function<void()>& work);

 private:
  struct Mpi;
  std::unique_ptr<Mpi> mpi_;
  int rank_ = 0, size_ = 1;
};

// Another process of the run failed, and tells why.
class FailedElsewhere : public Error {
 public:
  using Error::Error;
};

// This process's number among those of a launcher, before MPI is joined; 0 without one.
int launcher_rank();
// For a process that is not the first and fails before MPI is joined, as all do: waits, so that the first can tell why.
// A launcher ends all of them as soon as one has failed; without one that does, for two seconds.
void let_first_process_tell();
// The variable that says how many processes a launcher started ("OMPI_COMM_WORLD_SIZE=3"); empty without one.
std::string launcher_variable();

}  // namespace sparkpilot
